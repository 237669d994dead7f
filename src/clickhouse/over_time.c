/* Numbers over time: timelines, heat, and which labels there are. */
#include <errno.h>
#include <inttypes.h>

#include "base/string_pool.h"
#include "clickhouse/collectors.h"
#include "clickhouse/messages.h"
#include "clickhouse/selection.h"

#define STEPS_MAX (1u << 20)
#define CELLS_MAX (4u << 20) /* lines times steps; beyond it lines are one, "(other)" */

/* ---- timelines ------------------------------------------------------------------------------- */

struct line_series { /* which a line has its name from */
	char *comm;
	uint64_t first_ms;
};

struct over_time {
	struct clickhouse_store *s;
	const struct store_query *q;
	struct store_timeline *t;
	struct messages_range range;
	char *where;
	struct selection selection;
	struct string_pool names; /* values of lines; and of lines by pid, names of processes */
	uint32_t *lines;          /* by id of names: 1 + index of the line; 0: none yet */
	uint32_t lines_cap, line_cap;
	struct placed { /* by number of a series: its line, its process' name */
		uint32_t value, comm;
	} * placed;
	uint32_t placed_count, placed_cap;
	uint64_t *named_ms; /* by line: since when its name is that */
};

static uint32_t place(void *ctx, const struct content_hash *series,
		      const struct matcher_label *labels, size_t count)
{
	struct over_time *o = ctx;
	CLEANUP(freep) char *value = mem_strdup("");
	const char *comm = selection_label(labels, count, "comm");

	(void)series;
	for (size_t i = 0; i < o->q->by_count; i++) {
		char *more = mem_printf("%s%s%s", value, i ? "\n" : "",
					selection_label(labels, count, o->q->by[i]));
		free(value);
		value = more;
	}
	MEM_GROW(o->placed, o->placed_count, o->placed_cap);
	o->placed[o->placed_count++] =
		(struct placed){string_pool_put(&o->names, value, strlen(value)),
				string_pool_put(&o->names, comm, strlen(comm))};
	return o->placed_count - 1;
}

static uint32_t new_line(struct over_time *o, uint32_t value)
{
	struct store_timeline *t = o->t;

	MEM_GROW(t->lines, t->line_count, o->line_cap);
	t->lines[t->line_count] = (struct store_line){
		.value = mem_strdup(string_pool_get(&o->names, value)),
		.values = mem_alloc_array(t->steps, sizeof(uint64_t)),
		.kernel = o->q->kernel ? mem_alloc_array(t->steps, sizeof(uint64_t)) : NULL,
	};
	return ++t->line_count;
}

static struct store_line *line(struct over_time *o, uint32_t value)
{
	static const char other[] = "(other)";
	struct store_timeline *t = o->t;
	bool is_full = (uint64_t)(t->line_count + 1) * t->steps > CELLS_MAX && t->line_count > 1;
	uint32_t as = value;

	if (is_full && (value >= o->lines_cap || !o->lines[value]))
		as = string_pool_put(&o->names, other, strlen(other));
	while (MAX(as, value) >= o->lines_cap) {
		uint32_t cap = MAX(64, o->lines_cap * 2);
		o->lines = mem_resize_array(o->lines, cap, sizeof(*o->lines));
		memset(o->lines + o->lines_cap, 0, (cap - o->lines_cap) * sizeof(*o->lines));
		o->lines_cap = cap;
	}
	if (!o->lines[as])
		o->lines[as] = new_line(o, as);
	o->lines[value] = o->lines[as];
	return &t->lines[o->lines[value] - 1];
}

static void forget_lines(struct over_time *o)
{
	struct store_timeline *t = o->t;

	for (uint32_t i = 0; i < t->line_count; i++) {
		free(t->lines[i].value);
		free(t->lines[i].values);
		free(t->lines[i].kernel);
	}
	t->line_count = 0;
	if (o->lines)
		memset(o->lines, 0, o->lines_cap * sizeof(*o->lines));
}

static int read_steps(void *ctx, const char *without, struct store_error *e)
{
	struct over_time *o = ctx;
	struct store_timeline *t = o->t;
	struct client_rows rows;

	forget_lines(o);
	int r = clickhouse_ask(
		o->s, o->selection.has_table ? &o->selection.table : NULL, &rows, e,
		"SELECT %s AS of, toUInt32(intDiv(start_ms - %" PRIu64 ", %" PRIu64
		")) AS step, sum(total), sum(kernel) FROM windows WHERE %s AND head ="
		" 0%s%s GROUP BY of, step",
		selection_key(&o->selection), t->start_ms, t->step_ms, o->where,
		o->selection.condition, without);
	if (r)
		return r;
	while (rowbinary_more(&rows.in)) {
		struct content_hash series = {};
		uint32_t number;
		rowbinary_get_bytes(&rows.in, series.bytes, sizeof(series.bytes));
		uint64_t step = rowbinary_get(&rows.in, 4), value = rowbinary_get(&rows.in, 8);
		uint64_t kernel = rowbinary_get(&rows.in, 8);
		if (rows.in.bad || step >= t->steps ||
		    !selection_get(&o->selection, &series, &number))
			continue;
		struct store_line *l = line(o, o->placed_count ? o->placed[number].value : 0);
		l->values[step] += value;
		l->total += value;
		if (l->kernel)
			l->kernel[step] += kernel;
	}
	r = rows.in.bad ? -EPROTO : 0;
	client_rows_done(&rows);
	return r;
}

static void mark(const struct store_timeline *t, uint8_t *flags, uint64_t first, uint64_t more)
{
	for (uint64_t i = first; i <= first + more && i < t->steps; i++)
		flags[i] = 1;
}

static int read_covered(struct over_time *o, struct store_error *e)
{
	struct store_timeline *t = o->t;
	CLEANUP(freep) uint64_t *began = NULL;
	struct client_rows rows;
	uint32_t count;

	int r = clickhouse_ask(o->s, NULL, &rows, e,
			       "SELECT toUInt32(intDiv(start_ms - %" PRIu64 ", %" PRIu64
			       ")) AS step, max(toUInt32(intDiv(length_ms - 1, %" PRIu64
			       "))) FROM windows WHERE %s AND head = 1 AND length_ms > 0"
			       " GROUP BY step",
			       t->start_ms, t->step_ms, t->step_ms, o->where);
	if (r)
		return r;
	while (rowbinary_more(&rows.in)) {
		uint64_t first = rowbinary_get(&rows.in, 4);
		mark(t, t->covered, first, rowbinary_get(&rows.in, 4));
	}
	r = rows.in.bad ? -EPROTO : 0;
	client_rows_done(&rows);
	r = r ? r
	      : collectors_began(o->s, o->q->type, o->range.from_ms, o->range.to_ms, &began, &count,
				 e);
	for (uint32_t i = 0; !r && i < count; i++)
		mark(t, t->restarted, (began[i] - t->start_ms) / t->step_ms, 0);
	return r;
}

/* Lines by pid are named as the latest of the process' series is: what an exec made of it. */
static int read_names(struct over_time *o, struct store_error *e)
{
	struct client_rows rows;

	if (!o->q->by_count || strcmp(o->q->by[0], "pid") != 0 || !o->t->line_count)
		return 0;
	int r = clickhouse_ask(o->s, o->selection.has_table ? &o->selection.table : NULL, &rows, e,
			       "SELECT series, min(start_ms) AS began FROM windows WHERE %s AND"
			       " head = 0%s GROUP BY series ORDER BY began, series",
			       o->where, o->selection.condition);
	if (r)
		return r;
	while (rowbinary_more(&rows.in)) {
		struct content_hash series = {};
		uint32_t number;
		rowbinary_get_bytes(&rows.in, series.bytes, sizeof(series.bytes));
		rowbinary_get(&rows.in, 8);
		if (rows.in.bad || !selection_get(&o->selection, &series, &number))
			continue;
		const struct placed *p = &o->placed[number];
		struct store_line *l = line(o, p->value);
		if (!*l->value || strcmp(l->value, string_pool_get(&o->names, p->value)) != 0)
			continue;
		free(l->name);
		l->name = mem_strdup(string_pool_get(&o->names, p->comm));
	}
	r = rows.in.bad ? -EPROTO : 0;
	client_rows_done(&rows);
	return r;
}

static int line_order(const void *a, const void *b)
{
	const struct store_line *x = a, *y = b;

	return x->total != y->total ? (x->total < y->total) - (x->total > y->total)
				    : strcmp(x->value, y->value);
}

static int fill(struct over_time *o, struct store_error *e)
{
	struct store_timeline *t = o->t;
	struct messages messages = {};

	o->where = messages_where(&o->range);
	int r = selection_init(&o->selection, o->s, o->q, "windows", o->where, o->range.from_ms,
			       o->range.to_ms, o->q->by_count ? place : NULL, o, e);
	r = r ? r : messages_read_once(o->s, &o->range, read_steps, o, &messages, e);
	r = r ? r : read_names(o, e);
	r = r ? r : read_covered(o, e);
	if (!r && messages.is_known) {
		snprintf(t->unit, sizeof(t->unit), "%s", messages.unit);
		t->period = messages.period;
	}
	messages_done(&messages);
	selection_done(&o->selection);
	string_pool_done(&o->names);
	free(o->lines);
	free(o->placed);
	free(o->where);
	return r;
}

int clickhouse_timeline(void *self, const struct store_query *q, struct store_timeline *ret,
			struct store_error *ret_err)
{
	struct store_timeline t = {};
	struct over_time o = {.s = self, .q = q, .t = &t};

	t.step_ms = MAX((q->step_ms + WINDOW_MS - 1) / WINDOW_MS, 1) * WINDOW_MS;
	t.start_ms = q->from_ms / t.step_ms * t.step_ms;
	uint64_t to = (MIN(q->to_ms, INT64_MAX / 2) + t.step_ms - 1) / t.step_ms;
	uint64_t steps = to > t.start_ms / t.step_ms ? to - t.start_ms / t.step_ms : 0;
	if (!steps || steps > STEPS_MAX) {
		clickhouse_say(ret_err, "a timeline must have 1 to %u steps", STEPS_MAX);
		return -EINVAL;
	}
	t.steps = (uint32_t)steps;
	t.covered = mem_alloc_array(steps, 1);
	t.restarted = mem_alloc_array(steps, 1);
	o.range = (struct messages_range){
		.type = q->type, .from_ms = t.start_ms, .to_ms = t.start_ms + steps * t.step_ms};
	int r = fill(&o, ret_err);
	if (r) {
		store_timeline_done(&t);
		return r;
	}
	if (t.line_count)
		qsort(t.lines, t.line_count, sizeof(*t.lines), line_order);
	*ret = t;
	return 0;
}

/* ---- heat ------------------------------------------------------------------------------------ */

struct heat {
	struct clickhouse_store *s;
	struct store_heat *h;
	const char *where;
	struct selection selection;
	bool has_known, has_unknown;
};

static int read_slots(void *ctx, const char *without, struct store_error *e)
{
	struct heat *heat = ctx;
	struct store_heat *h = heat->h;
	struct client_rows rows;

	memset(h->counts, 0, h->slots * sizeof(*h->counts));
	heat->has_known = heat->has_unknown = false;
	const struct client_table *table =
		heat->selection.has_table ? &heat->selection.table : NULL;
	/* The first row, of slot -1, counts samples whose time is known, and those whose is not. */
	int r = clickhouse_ask(
		heat->s, table, &rows, e,
		"SELECT sum(length(times)), sum(samples - length(times)) FROM windows"
		" WHERE %s AND head = 0%s%s",
		heat->where, heat->selection.condition, without);
	if (r)
		return r;
	heat->has_known = rowbinary_get(&rows.in, 8);
	heat->has_unknown = rowbinary_get(&rows.in, 8);
	client_rows_done(&rows);
	r = clickhouse_ask(
		heat->s, table, &rows, e,
		"SELECT toInt64(intDiv(toInt64(start_ms - %" PRIu64 " + %u * at), %d)) AS"
		" slot, count() FROM windows ARRAY JOIN times AS at WHERE %s AND head = 0"
		"%s%s AND start_ms + %u * at >= %" PRIu64 " GROUP BY slot",
		h->start_ms, WINDOW_STEP_MS, WINDOW_STEP_MS, heat->where, heat->selection.condition,
		without, WINDOW_STEP_MS, h->start_ms);
	if (r)
		return r;
	while (rowbinary_more(&rows.in)) {
		uint64_t slot = rowbinary_get(&rows.in, 8), count = rowbinary_get(&rows.in, 8);
		if (slot < h->slots)
			h->counts[slot] = (uint32_t)count;
	}
	r = rows.in.bad ? -EPROTO : 0;
	client_rows_done(&rows);
	return r;
}

int clickhouse_heat(void *self, const struct store_query *q, struct store_heat *ret,
		    struct store_error *ret_err)
{
	struct store_heat h = {.start_ms = q->from_ms / WINDOW_STEP_MS * WINDOW_STEP_MS};
	uint64_t to = (MIN(q->to_ms, INT64_MAX / 2) + WINDOW_STEP_MS - 1) / WINDOW_STEP_MS;
	uint64_t slots = to > h.start_ms / WINDOW_STEP_MS ? to - h.start_ms / WINDOW_STEP_MS : 0;
	struct messages_range range = {
		.type = q->type,
		.from_ms = q->from_ms / WINDOW_MS * WINDOW_MS,
		.to_ms = (MIN(q->to_ms, INT64_MAX / 2) + WINDOW_MS - 1) / WINDOW_MS * WINDOW_MS,
	};
	struct heat heat = {.s = self, .h = &h};
	struct messages messages = {};

	if (!slots || slots > CELLS_MAX * 4) {
		clickhouse_say(ret_err, "a heatmap must have 1 to %u slots", CELLS_MAX * 4);
		return -EINVAL;
	}
	CLEANUP(freep) char *where = messages_where(&range);
	h.slots = (uint32_t)slots;
	h.counts = mem_alloc_array(slots, sizeof(*h.counts));
	heat.where = where;
	int r = selection_init(&heat.selection, heat.s, q, "windows", where, range.from_ms,
			       range.to_ms, NULL, NULL, ret_err);
	r = r ? r : messages_read_once(heat.s, &range, read_slots, &heat, &messages, ret_err);
	if (!r && strcmp(messages.unit, "nanoseconds") == 0)
		h.period = messages.period;
	if (!r && heat.has_unknown && !heat.has_known)
		r = -ENODATA;
	messages_done(&messages);
	selection_done(&heat.selection);
	if (r)
		store_heat_done(&h);
	else
		*ret = h;
	return r;
}

/* ---- labels ---------------------------------------------------------------------------------- */

struct listing {
	struct string_pool all;
	const char *label; /* whose values are asked for; NULL: names of labels */
};

static void add_name(struct listing *l, const char *text)
{
	if (*text)
		string_pool_put(&l->all, text, strlen(text));
}

static uint32_t place_name(void *ctx, const struct content_hash *series,
			   const struct matcher_label *labels, size_t count)
{
	struct listing *l = ctx;
	bool has_thread = false;

	(void)series;
	if (l->label) {
		add_name(l, selection_label(labels, count, l->label));
		return 0;
	}
	/* A thread that is named like its process has no label of its own: the last, if so. */
	for (size_t i = 0; i < count; i++)
		has_thread |= strcmp(labels[i].key, "thread") == 0 && i + 1 < count;
	for (size_t i = 0; i < count; i++)
		if (has_thread || strcmp(labels[i].key, "thread") != 0)
			add_name(l, labels[i].key);
	return 0;
}

static int read_types(struct clickhouse_store *s, const char *where, struct listing *l,
		      struct store_error *e)
{
	struct client_rows rows;
	size_t len;

	int r = clickhouse_ask(s, NULL, &rows, e,
			       "SELECT DISTINCT type FROM windows WHERE %s AND head = 1", where);
	if (r)
		return r;
	while (rowbinary_more(&rows.in)) {
		const char *type = unpack_str(&rows.in, WINDOW_TYPE_MAX, &len);
		if (len)
			string_pool_put(&l->all, type, len);
	}
	r = rows.in.bad ? -EPROTO : 0;
	client_rows_done(&rows);
	return r;
}

static int name_order(const void *a, const void *b)
{
	return strcmp(*(char *const *)a, *(char *const *)b);
}

int clickhouse_names(void *self, const struct store_query *q, enum store_names_of of,
		     struct store_names *ret, struct store_error *ret_err)
{
	struct listing l = {.label = of == STORE_VALUES ? q->by[0] : NULL};
	struct messages_range range = {
		.type = of == STORE_TYPES ? NULL : q->type,
		.from_ms = q->from_ms / WINDOW_MS * WINDOW_MS,
		.to_ms = (MIN(q->to_ms, INT64_MAX / 2) + WINDOW_MS - 1) / WINDOW_MS * WINDOW_MS,
	};
	CLEANUP(freep) char *where = messages_where(&range);
	struct selection selection = {};
	int r;

	if (of == STORE_TYPES)
		r = read_types(self, where, &l, ret_err);
	else
		r = selection_init(&selection, self, q, "windows", where, range.from_ms,
				   range.to_ms, place_name, &l, ret_err);
	selection_done(&selection);
	if (!r) {
		*ret = (struct store_names){
			.names = mem_alloc_array(l.all.count + 1, sizeof(*ret->names))};
		for (uint32_t i = 1; i < l.all.count; i++)
			ret->names[ret->count++] = mem_strdup(string_pool_get(&l.all, i));
		if (ret->count)
			qsort(ret->names, ret->count, sizeof(*ret->names), name_order);
		for (; ret->count > q->max; ret->cut = true)
			free(ret->names[--ret->count]);
	}
	string_pool_done(&l.all);
	return r;
}
