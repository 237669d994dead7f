/* Numbers over time: timelines, heat, and which labels there are. */
#include <errno.h>

#include "base/sort.h"
#include "base/string_pool.h"
#include "store/range_scan.h"
#include "store/series_filter.h"

#define STEPS_MAX (1u << 20)
#define CELLS_MAX (4u << 20) /* lines times steps; beyond it lines are one, "(other)" */

struct timeline_sum {
	struct range_scan *w;
	struct store_timeline *t;
	const struct store_query *q;
	struct series_filter filter;
	const struct dict_view *view;
	uint32_t *line_of; /* by series, 1 + index; 0: not asked yet */
	struct string_pool names;
	uint32_t *by_name; /* by id of names, 1 + index */
	uint32_t by_name_cap, line_cap;
	bool first, period_varies;
};

static int timeline_file(void *ctx, const struct dict_view *v)
{
	struct timeline_sum *l = ctx;

	l->view = v;
	series_filter_begin(&l->filter, v);
	l->line_of = mem_alloc_array(v->series_count, sizeof(*l->line_of));
	return 0;
}

/* NOLINTNEXTLINE(misc-no-recursion): once at most. */
static uint32_t line(struct timeline_sum *l, const char *value)
{
	struct store_timeline *t = l->t;
	uint32_t id = string_pool_put(&l->names, value, strlen(value));

	while (id >= l->by_name_cap) {
		uint32_t cap = MAX(64, l->by_name_cap * 2);
		l->by_name = mem_resize_array(l->by_name, cap, sizeof(*l->by_name));
		memset(l->by_name + l->by_name_cap, 0,
		       (cap - l->by_name_cap) * sizeof(*l->by_name));
		l->by_name_cap = cap;
	}
	if (l->by_name[id])
		return l->by_name[id] - 1;
	if ((uint64_t)(t->line_count + 1) * t->steps > CELLS_MAX && t->line_count > 1 &&
	    strcmp(value, "(other)") != 0) {
		uint32_t other = line(l, "(other)");
		l->by_name[id] = other + 1;
		return other;
	}
	MEM_GROW(t->lines, t->line_count, l->line_cap);
	t->lines[t->line_count] = (struct store_line){
		.value = mem_strdup(value),
		.values = mem_alloc_array(t->steps, sizeof(uint64_t)),
		.kernel = l->q->kernel ? mem_alloc_array(t->steps, sizeof(uint64_t)) : NULL,
	};
	l->by_name[id] = ++t->line_count;
	return t->line_count - 1;
}

/* The values of the labels that lines are by. */
static char *value_of(struct timeline_sum *l, uint32_t series)
{
	char *value = NULL;

	for (size_t i = 0; i < l->q->by_count; i++) {
		CLEANUP(freep) char *before = value;
		value = mem_printf("%s%s%s", before ? before : "", before ? "\n" : "",
				   series_filter_label(&l->filter, series, l->q->by[i]));
	}
	return value ? value : mem_strdup("");
}

static uint32_t line_of(struct timeline_sum *l, uint32_t series)
{
	if (!l->line_of[series]) {
		CLEANUP(freep) char *value = value_of(l, series);
		uint32_t index = line(l, value);
		struct store_line *at = &l->t->lines[index];

		if (*value && strcmp(l->q->by[0], "pid") == 0 && strcmp(at->value, value) == 0) {
			/* Series come in order of time: an exec's new name is the later one. */
			free(at->name);
			at->name = mem_strdup(series_filter_label(&l->filter, series, "comm"));
		}
		l->line_of[series] = 1 + index;
	}
	return l->line_of[series] - 1;
}

static int64_t step_of(const struct store_timeline *t, uint64_t ms)
{
	if (ms < t->start_ms)
		return -1;
	uint64_t i = (ms - t->start_ms) / t->step_ms;
	return i < t->steps ? (int64_t)i : -1;
}

static void cover(struct store_timeline *t, const struct columns_window *w)
{
	for (uint64_t at = w->start_ms; at < w->start_ms + w->length_ms; at += t->step_ms) {
		int64_t i = step_of(t, at);
		if (i >= 0)
			t->covered[i] = 1;
	}
	int64_t i = step_of(t, w->start_ms);
	if (i >= 0 && w->restarted)
		t->restarted[i] = 1;
}

static bool is_in_kernel(const struct dict_view *v, uint32_t stack)
{
	return stack && stack < v->stack_count &&
	       frame_is_kernel(v->frames[v->stacks[stack].frame].kind);
}

static int timeline_blob(void *ctx, struct scanned_blob *b)
{
	struct timeline_sum *l = ctx;
	struct store_timeline *t = l->t;
	struct columns_row row;
	uint32_t to;

	if (l->first) {
		snprintf(t->unit, sizeof(t->unit), "%s", b->type->unit);
		t->period = b->type->period;
	}
	l->period_varies |= t->period != b->type->period;
	l->first = false;
	for (uint32_t i = 0; i < b->rows->window_count; i++) {
		if (!range_scan_wants(b, i) || !b->rows->windows[i].messages)
			continue;
		cover(t, &b->rows->windows[i]);
		t->is_coarse |= b->sum && b->rows->windows[i].length_ms > t->step_ms;
	}
	while (columns_next(b->rows, &row)) {
		uint32_t series = COLUMNS_SERIES(row.key), window = COLUMNS_WINDOW(row.key);
		if (!range_scan_wants(b, window) || !series_filter_get(&l->filter, series, &to))
			continue;
		int64_t step = step_of(t, b->rows->windows[window].start_ms);
		if (step < 0)
			continue;
		uint32_t index = line_of(l, series); /* which may move the lines */
		struct store_line *at = &t->lines[index];
		at->values[step] += row.value;
		at->total += row.value;
		if (at->kernel && is_in_kernel(l->view, COLUMNS_STACK(row.key)))
			at->kernel[step] += row.value;
		l->w->answer->samples += row.count;
	}
	return series_filter_check(&l->filter);
}

static int timeline_file_end(void *ctx)
{
	struct timeline_sum *l = ctx;

	series_filter_end(&l->filter);
	free(TAKE_PTR(l->line_of));
	return 0;
}

static int line_order(const void *a, const void *b)
{
	const struct store_line *x = a, *y = b;

	return x->total != y->total ? (x->total < y->total) - (x->total > y->total)
				    : strcmp(x->value, y->value);
}

int local_timeline(void *self, const struct store_query *q, struct store_timeline *ret,
		   struct store_error *ret_err)
{
	struct store_answer answer = {};
	struct store_timeline t = {};
	struct timeline_sum l = {.t = &t, .q = q, .first = true};

	t.step_ms = MAX((q->step_ms + WINDOW_MS - 1) / WINDOW_MS, 1) * WINDOW_MS;
	t.start_ms = q->from_ms / t.step_ms * t.step_ms;
	uint64_t to = (MIN(q->to_ms, INT64_MAX / 2) + t.step_ms - 1) / t.step_ms;
	uint64_t steps = to > t.start_ms / t.step_ms ? to - t.start_ms / t.step_ms : 0;
	if (!steps || steps > STEPS_MAX) {
		snprintf(ret_err->text, sizeof(ret_err->text), "a timeline must have 1 to %u steps",
			 STEPS_MAX);
		return -EINVAL;
	}
	t.steps = (uint32_t)steps;
	t.covered = mem_alloc_array(steps, 1);
	t.restarted = mem_alloc_array(steps, 1);
	struct range_scan w = {
		.s = self,
		.q = q,
		.from_ms = t.start_ms,
		.to_ms = t.start_ms + steps * t.step_ms,
		.prefer_raw = q->raw_only || t.step_ms % (SLOT_S * 1000) != 0,
		.hours = t.step_ms % (HOUR_S * 1000) == 0,
		.file = timeline_file,
		.blob = timeline_blob,
		.file_end = timeline_file_end,
		.ctx = &l,
		.answer = &answer,
	};
	l.w = &w;
	series_filter_init(&l.filter, q, NULL);
	int r = series_filter_done(&l.filter, range_scan(&w), ret_err);
	if (l.period_varies)
		t.period = 0;
	if (t.line_count)
		qsort(t.lines, t.line_count, sizeof(*t.lines), line_order);
	string_pool_done(&l.names);
	free(l.by_name);
	if (r)
		store_timeline_done(&t);
	else
		*ret = t;
	return r;
}

/* ---- heat --------------------------------------------------------------------------------------
 */

struct heat {
	struct store_heat *h;
	struct series_filter filter;
	uint16_t *steps;
	size_t step_cap;
	uint64_t known, unknown;
	bool has_period, period_varies;
};

static int heat_file(void *ctx, const struct dict_view *v)
{
	struct heat *h = ctx;

	series_filter_begin(&h->filter, v);
	return 0;
}

static int heat_blob(void *ctx, struct scanned_blob *b)
{
	struct heat *h = ctx;
	struct columns_row row;
	uint32_t to, known;
	uint64_t period = strcmp(b->type->unit, "nanoseconds") == 0 ? b->type->period : 0;

	h->period_varies |= h->has_period && h->h->period != period;
	h->has_period = true;
	h->h->period = period;
	while (columns_next(b->rows, &row)) {
		uint32_t window = COLUMNS_WINDOW(row.key);
		known = 0;
		if (b->times &&
		    !columns_times_next(b->times, row.count, &h->steps, &h->step_cap, &known))
			return -EUCLEAN;
		if (!range_scan_wants(b, window) ||
		    !series_filter_get(&h->filter, COLUMNS_SERIES(row.key), &to))
			continue;
		h->known += known;
		h->unknown += row.count - known;
		uint64_t start = b->rows->windows[window].start_ms;
		for (uint32_t i = 0; i < known; i++) {
			uint64_t at = start + (uint64_t)h->steps[i] * WINDOW_STEP_MS;
			if (at < h->h->start_ms)
				continue;
			uint64_t slot = (at - h->h->start_ms) / WINDOW_STEP_MS;
			if (slot < h->h->slots)
				h->h->counts[slot]++;
		}
	}
	return series_filter_check(&h->filter);
}

static int heat_file_end(void *ctx)
{
	struct heat *h = ctx;

	series_filter_end(&h->filter);
	return 0;
}

int local_heat(void *self, const struct store_query *q, struct store_heat *ret,
	       struct store_error *ret_err)
{
	struct store_answer answer = {};
	struct store_heat h = {.start_ms = q->from_ms / WINDOW_STEP_MS * WINDOW_STEP_MS};
	uint64_t to = (MIN(q->to_ms, INT64_MAX / 2) + WINDOW_STEP_MS - 1) / WINDOW_STEP_MS;
	uint64_t slots = to > h.start_ms / WINDOW_STEP_MS ? to - h.start_ms / WINDOW_STEP_MS : 0;

	if (!slots || slots > CELLS_MAX * 4) {
		snprintf(ret_err->text, sizeof(ret_err->text), "a heatmap must have 1 to %u slots",
			 CELLS_MAX * 4);
		return -EINVAL;
	}
	h.slots = (uint32_t)slots;
	h.counts = mem_alloc_array(slots, sizeof(*h.counts));
	struct heat heat = {.h = &h};
	struct range_scan w = {
		.s = self,
		.q = q,
		.from_ms = q->from_ms / WINDOW_MS * WINDOW_MS,
		.to_ms = (q->to_ms + WINDOW_MS - 1) / WINDOW_MS * WINDOW_MS,
		.times = true,
		.file = heat_file,
		.blob = heat_blob,
		.file_end = heat_file_end,
		.ctx = &heat,
		.answer = &answer,
	};
	series_filter_init(&heat.filter, q, NULL);
	int r = series_filter_done(&heat.filter, range_scan(&w), ret_err);
	free(heat.steps);
	if (heat.period_varies)
		h.period = 0;
	if (!r && heat.unknown && !heat.known)
		r = -ENODATA;
	if (r)
		store_heat_done(&h);
	else
		*ret = h;
	return r;
}

/* ---- labels ------------------------------------------------------------------------------------
 */

struct names {
	struct series_filter filter;
	const struct dict_view *view;
	const char *label; /* whose values are asked for; NULL: names of labels */
	bool types;
	uint32_t max;
	bool cut;
	struct string_pool all;
	uint8_t *seen; /* by series */
};

static int names_file(void *ctx, const struct dict_view *v)
{
	struct names *n = ctx;

	n->view = v;
	series_filter_begin(&n->filter, v);
	n->seen = mem_alloc_array(v->series_count, 1);
	return 0;
}

static void add_name(struct names *n, const char *s)
{
	if (!*s || string_pool_find(&n->all, s, strlen(s)))
		return;
	if (n->all.count > n->max) {
		n->cut = true;
		return;
	}
	string_pool_put(&n->all, s, strlen(s));
}

static int names_blob(void *ctx, struct scanned_blob *b)
{
	struct names *n = ctx;
	uint32_t series, to;
	bool any = false;

	for (uint32_t i = 0; i < b->rows->window_count; i++)
		any |= range_scan_wants(b, i);
	if (!any)
		return 0;
	if (n->types) {
		add_name(n, b->type->type);
		return 0;
	}
	while (columns_next_series(b->rows, &series)) {
		if (series >= n->view->series_count || n->seen[series] ||
		    !series_filter_get(&n->filter, series, &to))
			continue;
		n->seen[series] = 1;
		const struct dict_series *d = &n->view->series[series];
		if (n->label) {
			add_name(n, series_filter_label(&n->filter, series, n->label));
			continue;
		}
		for (uint32_t i = d->first; i < d->first + d->count; i++)
			add_name(n, series_filter_string(&n->filter, n->view->labels[i].key));
	}
	return series_filter_check(&n->filter);
}

static int names_file_end(void *ctx)
{
	struct names *n = ctx;

	series_filter_end(&n->filter);
	free(TAKE_PTR(n->seen));
	return 0;
}

static int name_order(const void *a, const void *b)
{
	return strcmp(*(char *const *)a, *(char *const *)b);
}

int local_names(void *self, const struct store_query *q, enum store_names_of of,
		struct store_names *ret, struct store_error *ret_err)
{
	struct store_answer answer = {};
	struct names n = {.label = of == STORE_VALUES ? q->by[0] : NULL,
			  .types = of == STORE_TYPES,
			  .max = q->max};
	struct range_scan w = {
		.s = self,
		.q = q,
		.from_ms = q->from_ms / WINDOW_MS * WINDOW_MS,
		.to_ms = (MIN(q->to_ms, INT64_MAX / 2) + WINDOW_MS - 1) / WINDOW_MS * WINDOW_MS,
		.hours = true,
		.prefer_raw = q->raw_only,
		.all_types = n.types || !q->type,
		.file = names_file,
		.blob = names_blob,
		.file_end = names_file_end,
		.ctx = &n,
		.answer = &answer,
	};

	series_filter_init(&n.filter, q, NULL);
	int r = series_filter_done(&n.filter, range_scan(&w), ret_err);
	if (!r) {
		*ret = (struct store_names){
			.names = mem_alloc_array(n.all.count + 1, sizeof(*ret->names)),
			.cut = n.cut,
		};
		for (uint32_t i = 1; i < n.all.count; i++)
			ret->names[ret->count++] = mem_strdup(string_pool_get(&n.all, i));
		if (ret->count)
			qsort(ret->names, ret->count, sizeof(*ret->names), name_order);
	}
	string_pool_done(&n.all);
	return r;
}
