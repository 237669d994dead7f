#include "query/computed.h"

#include <errno.h>

#include "base/mem.h"
#include "base/string_pool.h"
#include "query/wall_parts.h"

#define LABELS_MAX 24

static void add_answer(struct store_answer *to, const struct store_answer *a, bool first)
{
	if (a->samples || first) {
		bool alone = first || !to->samples;
		to->from_ms = alone ? a->from_ms : MIN(to->from_ms, a->from_ms);
		to->to_ms = alone ? a->to_ms : MAX(to->to_ms, a->to_ms);
	}
	to->samples += a->samples;
	to->lost += a->lost;
	to->windows += a->windows;
	to->damaged = MAX(to->damaged, a->damaged);
	to->refused = MAX(to->refused, a->refused);
	to->newer = MAX(to->newer, a->newer);
	to->files += a->files;
	to->bytes += a->bytes;
	if (!to->trouble[0])
		memcpy(to->trouble, a->trouble, sizeof(to->trouble));
}

/* What is stored of a type, by the labels asked for and two more. */
static int sum_type(struct store *s, const struct store_query *q, const char *type,
		    const char *also, const char *and_also, struct profile *into,
		    struct store_answer *ret, struct store_error *ret_err)
{
	const char *by[LABELS_MAX + 2] = {also, and_also};
	struct store_query of = *q;
	struct store_answer one = {};

	of.type = type;
	of.by = by;
	of.by_count = 2;
	for (size_t i = 0; i < q->by_count && of.by_count < ARRAY_SIZE(by); i++)
		if (strcmp(q->by[i], also) != 0 && strcmp(q->by[i], and_also) != 0)
			by[of.by_count++] = q->by[i];
	int r = store_sum(s, &of, into, &one, ret_err);
	if (r == 0)
		add_answer(ret, &one, !ret->to_ms);
	return r;
}

static int sum_wall(struct store *s, const struct store_query *q, struct profile *into,
		    struct store_answer *ret, struct store_error *ret_err)
{
	CLEANUP(profile_freep) struct profile *ran = profile_new();
	CLEANUP(profile_freep) struct profile *cpu = profile_new();
	CLEANUP(profile_freep) struct profile *off = profile_new();

	*ret = (struct store_answer){};
	int r = sum_type(s, q, "oncpu", "comm", "pid", ran, ret, ret_err);
	r = r ? r : sum_type(s, q, "cpu", "comm", "pid", cpu, ret, ret_err);
	r = r ? r : sum_type(s, q, "offcpu", "state", "reason", off, ret, ret_err);
	if (r)
		return r;
	into->info.type = profile_keep(into, COMPUTED_WALL);
	into->info.unit = profile_keep(into, "nanoseconds");
	into->info.start_ns = ret->from_ms * 1000000;
	into->info.duration_ns = (ret->to_ms - ret->from_ms) * 1000000;
	into->info.lost += ret->lost;
	into->info.truncated += cpu->info.truncated + off->info.truncated;
	struct wall_parts parts = {
		.ran = {ran, ran->samples, ran->sample_count},
		.sampled = {cpu, cpu->samples, cpu->sample_count},
		.off = {off, off->samples, off->sample_count},
		.owner = {"comm", "pid"},
		.by = q->by,
		.by_count = q->by_count,
	};
	wall_parts_sum(&parts, into);
	return 0;
}

static bool is_wall(const struct store_query *q)
{
	return q->type && strcmp(q->type, COMPUTED_WALL) == 0;
}

bool computed_has_times(const char *type)
{
	static const char *const sums[] = {"offcpu", "oncpu", COMPUTED_WALL};

	for (size_t i = 0; i < ARRAY_SIZE(sums); i++)
		if (strcmp(type, sums[i]) == 0)
			return false;
	return !window_type_is_state(type);
}

/* Only samples have times of their own. */
static int not_exact(const char *type, struct store_error *ret_err)
{
	if (ret_err)
		snprintf(ret_err->text, sizeof(ret_err->text),
			 "the type %s is known of whole windows of %d s, not of parts of a second",
			 type, WINDOW_MS / 1000);
	return -EINVAL;
}

int computed_sum(struct store *s, const struct store_query *q, struct profile *into,
		 struct store_answer *ret, struct store_error *ret_err)
{
	if (q->exact && !computed_has_times(q->type))
		return not_exact(q->type, ret_err);
	return is_wall(q) ? sum_wall(s, q, into, ret, ret_err)
			  : store_sum(s, q, into, ret, ret_err);
}

/* ---- the timeline ---------------------------------------------------------------------------- */

static struct store_line *line_of(struct store_timeline *t, const char *value)
{
	for (uint32_t i = 0; i < t->line_count; i++)
		if (strcmp(t->lines[i].value, value) == 0)
			return &t->lines[i];
	t->lines = mem_resize_array(t->lines, t->line_count + 1, sizeof(*t->lines));
	struct store_line *l = &t->lines[t->line_count++];
	*l = (struct store_line){.value = mem_strdup(value),
				 .values = mem_alloc_array((size_t)t->steps + 1, sizeof(uint64_t))};
	return l;
}

/* Adds what one line of `from` has to the line of *t that is called `value`. */
static void add_line(struct store_timeline *t, const struct store_timeline *from,
		     const struct store_line *line, const char *value)
{
	struct store_line *to = line_of(t, value);

	for (uint32_t i = 0; i < MIN(t->steps, from->steps); i++)
		to->values[i] += line->values[i];
	to->total += line->total;
	t->is_coarse |= from->is_coarse;
	if (line->name && !to->name)
		to->name = mem_strdup(line->name);
}

/* What the first part leaves is what the others add to. */
static void begin_timeline(struct store_timeline *t, struct store_timeline *first)
{
	*t = (struct store_timeline){
		.start_ms = first->start_ms, .step_ms = first->step_ms, .steps = first->steps};
	t->covered = TAKE_PTR(first->covered);
	t->restarted = TAKE_PTR(first->restarted);
	t->is_coarse = first->is_coarse;
	snprintf(t->unit, sizeof(t->unit), "nanoseconds");
}

/* The lines of a type by a label; NULL: in all. */
static int read_type(struct store *s, const struct store_query *q, const char *type, const char *by,
		     struct store_timeline *ret, struct store_error *ret_err)
{
	struct store_query of = *q;

	of.type = type;
	of.by = &by;
	of.by_count = by ? 1 : 0;
	return store_timeline(s, &of, ret, ret_err);
}

static int read_running(struct store *s, const struct store_query *q, const char *by,
			struct store_timeline *ret, struct store_error *ret_err)
{
	int r = read_type(s, q, "oncpu", by, ret, ret_err);

	if (r || ret->line_count)
		return r;
	store_timeline_done(ret);
	return read_type(s, q, "cpu", by, ret, ret_err);
}

static const char *part_of_state(const char *state)
{
	return strcmp(state, "runnable") == 0 ? wall_parts_names[WALL_PART_RUNNABLE]
	       : strcmp(state, "idle") == 0   ? wall_parts_names[WALL_PART_IDLE]
					      : NULL;
}

/* Those that are neither idle nor runnable, by reason. */
static int read_blocked(struct store *s, const struct store_query *q, struct store_timeline *ret,
			struct store_error *ret_err)
{
	static const char *const others[] = {"runnable", "idle"};
	size_t n = q->matcher_count;
	struct matcher *matchers = mem_alloc_array(n + ARRAY_SIZE(others), sizeof(*matchers));
	struct store_query of = *q;

	memcpy(matchers, q->matchers, n * sizeof(*matchers));
	for (size_t i = 0; i < ARRAY_SIZE(others); i++)
		matcher_init(&matchers[n + i], "state", MATCHER_NOT_EQUAL, others[i], NULL);
	of.matchers = matchers;
	of.matcher_count = n + ARRAY_SIZE(others);
	int r = read_type(s, &of, "offcpu", "reason", ret, ret_err);
	for (size_t i = 0; i < ARRAY_SIZE(others); i++)
		matcher_done(&matchers[n + i]);
	free(matchers);
	return r;
}

/* What ran, by process, and the samples that divide it. */
struct running {
	struct store_timeline ran, sampled;
	struct string_pool owners;       /* of `sampled` */
	const struct store_line **lines; /* by id of owners */
};

static int running_read(struct running *r, struct store *s, const struct store_query *q,
			struct store_error *ret_err)
{
	static const char *const owner[] = {"comm", "pid"};
	struct store_query of = *q;

	of.by = owner;
	of.by_count = ARRAY_SIZE(owner);
	of.type = "oncpu";
	int err = store_timeline(s, &of, &r->ran, ret_err);
	of.type = "cpu";
	of.kernel = true;
	err = err ? err : store_timeline(s, &of, &r->sampled, ret_err);
	if (err)
		return err;
	r->lines = mem_alloc_array((size_t)r->sampled.line_count + 1, sizeof(*r->lines));
	for (uint32_t i = 0; i < r->sampled.line_count; i++) {
		const struct store_line *l = &r->sampled.lines[i];
		r->lines[string_pool_put(&r->owners, l->value, strlen(l->value))] = l;
	}
	return 0;
}

static void running_done(struct running *r)
{
	store_timeline_done(&r->ran);
	store_timeline_done(&r->sampled);
	string_pool_done(&r->owners);
	free(r->lines);
}

static void add_at(struct store_line *l, uint32_t step, uint64_t value)
{
	l->values[step] += value;
	l->total += value;
}

/*
 * Adds what one process ran, step by step: `ran` as it is known exactly, `sampled` as its samples
 * say; either may be NULL.
 */
static void divide(struct store_line parts[], uint32_t steps, const struct store_line *ran,
		   const struct store_line *sampled)
{
	uint64_t in_kernel = 0;

	for (uint32_t i = 0; sampled && i < steps; i++)
		in_kernel += sampled->kernel[i];
	for (uint32_t i = 0; i < steps; i++) {
		uint64_t of = sampled ? sampled->values[i] : 0,
			 kernel = of ? sampled->kernel[i] : 0;
		uint64_t value = ran ? ran->values[i] : of;
		if (!of && sampled) { /* too briefly for a sample in this step */
			of = sampled->total;
			kernel = in_kernel;
		}
		if (!of) {
			add_at(&parts[WALL_PART_UNSAMPLED], i, value);
			continue;
		}
		kernel = (uint64_t)((unsigned __int128)value * kernel / of);
		add_at(&parts[WALL_PART_KERNEL], i, kernel);
		add_at(&parts[WALL_PART_USER], i, value - kernel);
	}
}

/* The lines of running: those of user and kernel always, of what has no sample if there is any. */
static void add_running(struct store_timeline *t, struct running *r)
{
	struct store_line parts[WALL_PART_UNSAMPLED + 1] = {};
	uint32_t steps = t->steps;

	for (int i = 0; i <= WALL_PART_UNSAMPLED; i++)
		parts[i].values = mem_alloc_array((size_t)steps + 1, sizeof(uint64_t));
	for (uint32_t i = 0; i < r->ran.line_count; i++) {
		const struct store_line *ran = &r->ran.lines[i];
		uint32_t id = string_pool_find(&r->owners, ran->value, strlen(ran->value));
		divide(parts, steps, ran, id ? r->lines[id] : NULL);
		if (id)
			r->lines[id] = NULL;
	}
	for (uint32_t id = 1; id < r->owners.count; id++)
		if (r->lines[id])
			divide(parts, steps, NULL, r->lines[id]);
	for (int i = 0; i <= WALL_PART_UNSAMPLED; i++) {
		if (i < WALL_PART_UNSAMPLED || parts[i].total)
			add_line(t, t, &parts[i], wall_parts_names[i]);
		free(parts[i].values);
	}
}

static void add_blocked(struct store_timeline *t, const struct store_timeline *blocked)
{
	for (uint32_t i = 0; i < blocked->line_count; i++) {
		const char *reason = blocked->lines[i].value;
		CLEANUP(freep)
		char *name = mem_printf("%s: %s", wall_parts_names[WALL_PART_BLOCKED],
					*reason ? reason : "other");
		add_line(t, blocked, &blocked->lines[i], name);
	}
}

static int parts_timeline(struct store *s, const struct store_query *q, struct store_timeline *ret,
			  struct store_error *ret_err)
{
	struct running running = {};
	struct store_timeline states = {}, blocked = {};
	int r = running_read(&running, s, q, ret_err);

	r = r ? r : read_type(s, q, "offcpu", "state", &states, ret_err);
	r = r ? r : read_blocked(s, q, &blocked, ret_err);
	if (r == 0) {
		begin_timeline(ret, running.ran.line_count ? &running.ran : &running.sampled);
		add_running(ret, &running);
		line_of(ret, wall_parts_names[WALL_PART_RUNNABLE]);
		add_blocked(ret, &blocked);
		line_of(ret, wall_parts_names[WALL_PART_IDLE]);
		for (uint32_t i = 0; i < states.line_count; i++) {
			const char *part = part_of_state(states.lines[i].value);
			if (part)
				add_line(ret, &states, &states.lines[i], part);
		}
	}
	running_done(&running);
	store_timeline_done(&states);
	store_timeline_done(&blocked);
	return r;
}

static int by_total(const void *a, const void *b)
{
	const struct store_line *x = a, *y = b;

	return x->total < y->total ? 1 : x->total > y->total ? -1 : strcmp(x->value, y->value);
}

static int label_timeline(struct store *s, const struct store_query *q, const char *by,
			  struct store_timeline *ret, struct store_error *ret_err)
{
	struct store_timeline ran = {}, off = {};
	int r = read_running(s, q, by, &ran, ret_err);

	r = r ? r : read_type(s, q, "offcpu", by, &off, ret_err);
	if (r == 0) {
		begin_timeline(ret, &ran);
		for (uint32_t i = 0; i < ran.line_count; i++)
			add_line(ret, &ran, &ran.lines[i], ran.lines[i].value);
		for (uint32_t i = 0; i < off.line_count; i++)
			add_line(ret, &off, &off.lines[i], off.lines[i].value);
		qsort(ret->lines, ret->line_count, sizeof(*ret->lines), by_total);
	}
	store_timeline_done(&ran);
	store_timeline_done(&off);
	return r;
}

int computed_timeline(struct store *s, const struct store_query *q, struct store_timeline *ret,
		      struct store_error *ret_err)
{
	const char *by = q->by_count ? q->by[0] : COMPUTED_PART;

	if (!is_wall(q))
		return store_timeline(s, q, ret, ret_err);
	return strcmp(by, COMPUTED_PART) == 0 ? parts_timeline(s, q, ret, ret_err)
					      : label_timeline(s, q, by, ret, ret_err);
}

int computed_windows(struct store *s, const struct store_query *q, struct store_timeline *ret,
		     struct store_error *ret_err)
{
	struct store_timeline by_part = {};
	struct store_query of = *q;

	of.by_count = 0;
	of.step_ms = WINDOW_MS;
	int r = computed_timeline(s, &of, &by_part, ret_err);
	if (r)
		return r;
	if (by_part.is_coarse) {
		store_timeline_done(&by_part);
		if (ret_err)
			snprintf(
				ret_err->text, sizeof(ret_err->text),
				"of that time only sums over five minutes are kept, not windows of "
				"%d s",
				WINDOW_MS / 1000);
		return -ENODATA;
	}
	begin_timeline(ret, &by_part);
	snprintf(ret->unit, sizeof(ret->unit), "%s", by_part.unit);
	line_of(ret, "");
	for (uint32_t i = 0; i < by_part.line_count; i++)
		add_line(ret, &by_part, &by_part.lines[i], "");
	store_timeline_done(&by_part);
	return 0;
}

/* ---- names ----------------------------------------------------------------------------------- */

static bool has_name(const struct store_names *n, const char *name)
{
	for (uint32_t i = 0; i < n->count; i++)
		if (strcmp(n->names[i], name) == 0)
			return true;
	return false;
}

int computed_names(struct store *s, const struct store_query *q, enum store_names_of of,
		   struct store_names *ret, struct store_error *ret_err)
{
	struct store_query stored = *q;

	if (is_wall(q))
		stored.type = "offcpu"; /* whoever has one has the other, and the labels of both */
	int r = store_names(s, &stored, of, ret, ret_err);
	if (r || of != STORE_TYPES || !has_name(ret, "offcpu"))
		return r;
	ret->names = mem_resize_array(ret->names, ret->count + 1, sizeof(*ret->names));
	ret->names[ret->count++] = mem_strdup(COMPUTED_WALL); /* the last one, by the alphabet */
	return 0;
}
