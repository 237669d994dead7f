#include "query/comparison.h"

#include <errno.h>

#include "base/clock.h"
#include "base/mem.h"
#include "query/block_test.h"
#include "query/computed.h"
#include "query/selector.h"

#define HOUR_MS      3600000ull
#define SLOT_MS      300000ull /* what is left of old times */
#define BLOCKS_AIM   48
#define STEPS_MAX    8640 /* of a timeline by windows: a day */
#define BLOCKS_MAX   100000
#define STACKS_MAX   (4u << 20)
#define AROUND_MAX   3 /* new versions that are looked at on their own */
#define LOOK_BACK_MS (25 * HOUR_MS)

struct reading {
	struct store *s;
	const struct store_query *q; /* type and matchers */
	struct store_error *err;
};

static uint64_t down(uint64_t ms, uint64_t step)
{
	return ms / step * step;
}

static uint64_t fitting_block(uint64_t length_ms)
{
	static const uint64_t seconds[] = {10, 20, 30, 60, 120, 300, 600, 1800, 3600, 10800, 86400};
	size_t i = 0;

	while (i + 1 < ARRAY_SIZE(seconds) && length_ms / (seconds[i + 1] * 1000) >= BLOCKS_AIM)
		i++;
	return seconds[i] * 1000;
}

/* ---- one side ------------------------------------------------------------------------------ */

struct side {
	struct profile *p;
	double *recorded;
	uint32_t blocks;
	bool is_coarse; /* of some of it only sums over five minutes are left */
	struct store_answer answer;
};

static void side_done(struct side *s)
{
	profile_free(s->p);
	free(s->recorded);
	*s = (struct side){};
}

/* How much of each block was recorded, whatever there was to record. */
static int read_recorded(const struct reading *r, struct timerange range, uint64_t block_ms,
			 struct side *ret)
{
	uint64_t length = range.to_ms - range.from_ms;
	uint64_t step = length / WINDOW_MS > STEPS_MAX || block_ms >= SLOT_MS ? SLOT_MS : WINDOW_MS;
	struct store_query q = {.type = r->q->type,
				.from_ms = range.from_ms,
				.to_ms = range.to_ms,
				.step_ms = step};
	struct store_timeline t = {};

	int err = store_timeline(r->s, &q, &t, r->err);
	if (err)
		return err;
	ret->blocks = (uint32_t)MIN((length + block_ms - 1) / block_ms, BLOCKS_MAX);
	ret->recorded = mem_alloc_array((size_t)ret->blocks + 1, sizeof(*ret->recorded));
	ret->is_coarse = t.is_coarse;
	for (uint32_t i = 0; i < t.steps; i++) {
		uint64_t start = t.start_ms + i * t.step_ms, end = start + t.step_ms;
		start = MAX(start, range.from_ms);
		end = MIN(end, range.to_ms);
		if (!t.covered[i] || start >= end)
			continue;
		uint64_t block = (start - range.from_ms) / block_ms;
		if (block < ret->blocks)
			ret->recorded[block] += (double)(end - start) * 1e6;
	}
	store_timeline_done(&t);
	return 0;
}

static int read_samples(const struct reading *r, struct timerange range, uint64_t block_ms,
			const char *const *by, size_t by_count, struct profile **ret,
			struct store_answer *ret_answer)
{
	struct store_query q = *r->q;

	q.from_ms = range.from_ms;
	q.to_ms = range.to_ms;
	q.block_ms = block_ms;
	q.by = by;
	q.by_count = by_count;
	*ret = profile_new();
	profile_set_stacks_max(*ret, STACKS_MAX);
	return store_sum(r->s, &q, *ret, ret_answer, r->err);
}

/* ---- one comparison ------------------------------------------------------------------------ */

static int read_both(const struct reading *r, struct comparison *c, struct side sides[])
{
	static const char *const comm[] = {"comm"};
	struct timerange *ranges[BLOCK_SIDES] = {&c->base, &c->now};
	int err = 0;

	for (int i = 0; i < BLOCK_SIDES && !err; i++)
		err = read_recorded(r, *ranges[i], c->block_ms, &sides[i]);
	if (!err && c->block_ms < SLOT_MS &&
	    (sides[BLOCK_BASE].is_coarse || sides[BLOCK_NOW].is_coarse)) {
		c->block_ms = SLOT_MS;
		for (int i = 0; i < BLOCK_SIDES && !err; i++) {
			side_done(&sides[i]);
			ranges[i]->from_ms = down(ranges[i]->from_ms, SLOT_MS);
			ranges[i]->to_ms =
				MAX(down(ranges[i]->to_ms, SLOT_MS), ranges[i]->from_ms + SLOT_MS);
			err = read_recorded(r, *ranges[i], c->block_ms, &sides[i]);
		}
	}
	for (int i = 0; i < BLOCK_SIDES && !err; i++)
		err = read_samples(r, *ranges[i], c->block_ms, comm, 1, &sides[i].p,
				   &sides[i].answer);
	return err;
}

static int not_time(const struct profile *p, const struct reading *r)
{
	if (r->err)
		snprintf(r->err->text, sizeof(r->err->text),
			 "changes are told of types that count time, such as cpu; '%.40s' counts "
			 "%.40s",
			 p->info.type, p->info.unit);
	return -EINVAL;
}

/* Reads both ranges and compares them. */
static int compare(const struct reading *r, struct comparison *c)
{
	struct side sides[BLOCK_SIDES] = {};
	struct block_side of[BLOCK_SIDES];

	c->now.from_ms = down(c->now.from_ms, WINDOW_MS);
	c->base.from_ms = down(c->base.from_ms, WINDOW_MS);
	if (c->base.from_ms < c->now.from_ms) /* no window is on both sides */
		c->base.to_ms = MIN(c->base.to_ms, c->now.from_ms);
	uint64_t shorter = MIN(c->now.to_ms - c->now.from_ms, c->base.to_ms - c->base.from_ms);
	c->block_ms = fitting_block(shorter);
	int err = read_both(r, c, sides);
	for (int i = 0; i < BLOCK_SIDES && !err; i++) {
		c->samples[i] = sides[i].answer.samples;
		c->lost[i] = sides[i].answer.lost;
		of[i] = (struct block_side){sides[i].p, sides[i].blocks, sides[i].recorded};
		if (c->samples[i] && strcmp(sides[i].p->info.unit, "nanoseconds") != 0)
			err = not_time(sides[i].p, r);
	}
	if (!err)
		c->is_compared = changes_find(&of[BLOCK_BASE], &of[BLOCK_NOW], &c->changes) == 0;
	for (int i = 0; i < BLOCK_SIDES; i++)
		side_done(&sides[i]);
	return err;
}

static void comparison_done(struct comparison *c)
{
	changes_done(&c->changes);
	free(c->against);
	free(c->selector);
	*c = (struct comparison){};
}

static bool is_full(const struct comparisons *all)
{
	return all->count == COMPARISONS_MAX;
}

/* Adds a comparison; `only_if_stored`: not if the base has too little. */
static int add(const struct reading *r, struct comparisons *all, struct timerange now,
	       struct timerange base, const char *against, const char *selector,
	       bool only_if_stored)
{
	struct comparison c = {.now = now,
			       .base = base,
			       .against = mem_strdup(against),
			       .selector = mem_strdup(selector ? selector : "cpu")};

	int err = is_full(all) ? 0 : compare(r, &c);
	if (err || is_full(all) || (only_if_stored && !c.is_compared))
		comparison_done(&c);
	else
		all->list[all->count++] = c;
	return err;
}

static struct timerange before(struct timerange r, uint64_t ms)
{
	return (struct timerange){r.from_ms - MIN(r.from_ms, ms), r.to_ms - MIN(r.to_ms, ms)};
}

/* Around a moment; the window in which it lies belongs to neither side. */
static void around(uint64_t at_ms, uint64_t clock_ms, struct timerange *ret_base,
		   struct timerange *ret_now)
{
	uint64_t at = down(at_ms, WINDOW_MS), after = at + WINDOW_MS;
	uint64_t end = MIN(after + COMPARISON_SPAN_MS, clock_ms);

	*ret_base = (struct timerange){at - MIN(at, COMPARISON_SPAN_MS), at};
	*ret_now = (struct timerange){after, MAX(end, after + WINDOW_MS)};
}

/* A store that has just begun: the first half of what there is, and the second. */
static int compare_halves(const struct reading *r, const struct comparison_ask *ask,
			  struct comparisons *ret)
{
	struct store_stats stats;
	struct timerange now = {.to_ms = ask->clock_ms};

	store_stats(r->s, &stats);
	uint64_t first =
		MIN(MAX(stats.first_ms, now.to_ms - MIN(now.to_ms, 2 * HOUR_MS)), now.to_ms);
	uint64_t half = MAX((now.to_ms - first) / 2, (uint64_t)WINDOW_MS);
	now.from_ms = now.to_ms - MIN(now.to_ms, half);
	return add(r, ret, now, before(now, half), "the time before, since no more is stored",
		   ask->selector, false);
}

static int compare_usual(const struct reading *r, const struct comparison_ask *ask,
			 struct comparisons *ret)
{
	static const struct {
		uint64_t hours;
		const char *what;
	} bases[] = {{24, "the same time yesterday"}, {7 * 24, "the same time a week ago"}};
	struct timerange now = {ask->clock_ms - MIN(ask->clock_ms, HOUR_MS), ask->clock_ms};
	int err = 0;

	for (size_t i = 0; i < ARRAY_SIZE(bases) && !err; i++)
		err = add(r, ret, now, before(now, bases[i].hours * HOUR_MS), bases[i].what,
			  ask->selector, true);
	if (!err && !ret->count)
		err = add(r, ret, now, before(now, HOUR_MS),
			  "the hour before, since yesterday is not stored", ask->selector, true);
	return err || ret->count ? err : compare_halves(r, ask, ret);
}

static int compare_asked(const struct reading *r, const struct comparison_ask *ask,
			 struct comparisons *ret)
{
	struct timerange now = ask->now, base = ask->base;
	const char *against = "the base";

	if (ask->at_ms) {
		around(ask->at_ms, ask->clock_ms, &base, &now);
		against = "the time before that moment";
	} else if (!now.to_ms) {
		return compare_usual(r, ask, ret);
	} else if (!base.to_ms) {
		uint64_t length = now.to_ms - now.from_ms;
		base.to_ms = down(now.from_ms, WINDOW_MS);
		base.from_ms = base.to_ms - MIN(base.to_ms, length);
	}
	if (!ask->at_ms && base.to_ms == down(now.from_ms, WINDOW_MS))
		against = "the time just before";
	return add(r, ret, now, base, against, ask->selector, false);
}

/* ---- new versions -------------------------------------------------------------------------- */

static int find_versions(const struct reading *r, struct timerange range, uint64_t block_ms,
			 struct versions *ret)
{
	static const char *const by[] = {"comm", "exe", "version"};
	CLEANUP(profile_freep) struct profile *p = NULL;
	struct store_answer answer;

	int err = read_samples(r, range, block_ms, by, ARRAY_SIZE(by), &p, &answer);
	if (!err)
		versions_find(p, ret);
	return err;
}

/* To five minutes first, from what is quick to read; then each to a window, if those are there. */
static int refine(const struct reading *r, struct noticed *n)
{
	struct timerange range = {n->at_ms - MIN(n->at_ms, SLOT_MS), n->at_ms + 2 * SLOT_MS};
	struct versions near = {};

	int err = find_versions(r, range, WINDOW_MS, &near);
	for (uint32_t i = 0; i < near.count && !err; i++) {
		const struct version *v = &near.list[i];
		uint64_t at = range.from_ms + v->block * (uint64_t)WINDOW_MS;
		if (strcmp(v->process, n->version.process) == 0 &&
		    strcmp(v->exe, n->version.exe) == 0 && strcmp(v->now, n->version.now) == 0 &&
		    strcmp(v->label_now, n->version.label_now) == 0 && (at % SLOT_MS || v->block)) {
			n->at_ms = at;
			n->sure_ms = WINDOW_MS;
		}
	}
	versions_done(&near);
	return err;
}

char *comparison_selector(const char *comm)
{
	char *text = NULL;
	size_t len;
	FILE *f = open_memstream(&text, &len);

	fputs("cpu{comm=", f);
	selector_write_value(f, comm);
	fputs("}", f);
	fclose(f);
	return text;
}

/* What became of one program when it got a new version. */
static int compare_version(const struct reading *r, const struct comparison_ask *ask,
			   struct comparisons *all, const struct noticed *n)
{
	CLEANUP(selector_freep) struct selector *selector = NULL;
	CLEANUP(freep) char *text = comparison_selector(n->version.process);
	struct selector_error err;
	struct store_query q = {};
	struct timerange base, now;

	if (selector_parse(text, &selector, &err) != 0)
		return 0; /* a name that no selector can have */
	selector_query(selector, &q);
	around(n->at_ms, ask->clock_ms, &base, &now);
	struct reading of = {r->s, &q, r->err};
	CLEANUP(freep) char *against = mem_printf("the version before of %s", n->version.process);
	return add(&of, all, now, base, against, text, true);
}

/* The latest first, each known to the slot. */
static int find_noticed(const struct reading *r, struct timerange range, struct comparisons *all)
{
	int err = find_versions(r, range, SLOT_MS, &all->versions);

	all->noticed = mem_alloc_array((size_t)all->versions.count + 1, sizeof(*all->noticed));
	for (uint32_t i = all->versions.count; i-- > 0 && !err;) {
		struct noticed *n = &all->noticed[all->noticed_count++];
		*n = (struct noticed){all->versions.list[i],
				      range.from_ms + all->versions.list[i].block * SLOT_MS,
				      SLOT_MS};
	}
	return err;
}

static int notice(const struct reading *r, const struct comparison_ask *ask,
		  struct comparisons *all)
{
	struct timerange range = {ask->clock_ms - MIN(ask->clock_ms, LOOK_BACK_MS), ask->clock_ms};
	uint32_t own = all->count;

	if (ask->at_ms) {
		struct timerange base, now;
		around(ask->at_ms, ask->clock_ms, &base, &now);
		range = (struct timerange){base.from_ms, now.to_ms};
	} else if (ask->now.to_ms && all->count) {
		range.to_ms = all->list[0].now.to_ms;
		range.from_ms = MAX(MIN(all->list[0].base.from_ms, all->list[0].now.from_ms),
				    range.to_ms - MIN(range.to_ms, 2 * LOOK_BACK_MS));
	}
	range.from_ms = down(range.from_ms, SLOT_MS);
	int err = find_noticed(r, range, all);
	for (uint32_t i = 0; i < all->noticed_count && !err; i++) {
		err = refine(r, &all->noticed[i]);
		if (!err && !ask->at_ms && all->count - own < AROUND_MAX)
			err = compare_version(r, ask, all, &all->noticed[i]);
	}
	return err;
}

/* ---- all of it ----------------------------------------------------------------------------- */

int comparisons_make(struct store *s, const struct comparison_ask *ask, struct comparisons *ret,
		     struct store_error *ret_err)
{
	CLEANUP(selector_freep) struct selector *selector = NULL;
	struct selector_error wrong = {};
	struct store_query q = {};
	struct reading r = {s, &q, ret_err};
	uint64_t to_ms = ask->now.to_ms ? ask->now.to_ms : ask->clock_ms;

	*ret = (struct comparisons){};
	if (selector_parse(ask->selector ? ask->selector : "cpu", &selector, &wrong) != 0) {
		if (ret_err)
			snprintf(ret_err->text, sizeof(ret_err->text), "%s", wrong.text);
		return -EINVAL;
	}
	int err =
		selector_resolve_by(selector, s, to_ms - MIN(to_ms, LOOK_BACK_MS), to_ms, ret_err);
	if (err)
		return err;
	selector_query(selector, &q);
	ret->is_process = selector_is_process(selector);
	if (strcmp(q.type, COMPUTED_WALL) == 0) {
		if (ret_err)
			snprintf(ret_err->text, sizeof(ret_err->text),
				 "changes are told of what is stored, and wall is computed from "
				 "that: ask for cpu or offcpu");
		return -EINVAL;
	}
	err = compare_asked(&r, ask, ret);
	return err || ask->alone ? err : notice(&r, ask, ret);
}

int comparisons_notice(struct store *s, struct timerange range, struct comparisons *ret,
		       struct store_error *ret_err)
{
	struct store_query q = {.type = "cpu"};
	struct reading r = {s, &q, ret_err};

	*ret = (struct comparisons){};
	range.from_ms = down(range.from_ms, SLOT_MS);
	return find_noticed(&r, range, ret);
}

int comparison_refine(struct store *s, struct noticed *n, struct store_error *ret_err)
{
	struct store_query q = {.type = "cpu"};

	return refine(&(struct reading){s, &q, ret_err}, n);
}

void comparisons_done(struct comparisons *c)
{
	for (uint32_t i = 0; i < c->count; i++)
		comparison_done(&c->list[i]);
	versions_done(&c->versions);
	free(c->noticed);
	*c = (struct comparisons){};
}
