/* What a range of time holds, as a profile. */
#include <errno.h>

#include "base/index.h"
#include "base/text.h"
#include "profile/remap.h"
#include "store/operations.h"
#include "store/range_scan.h"
#include "store/series_filter.h"

/*
 * Sums of one file by its own ids: plain arrays where series add up to one, else a table by (series
 * of the answer, stack).
 */
struct cell {
	uint32_t series, stack;
	uint64_t count, value;
};

struct summing {
	struct range_scan *w;
	struct profile *into;
	const struct dict_view *view;
	struct series_filter filter;
	bool dense;
	uint64_t *counts, *values;
	struct cell *cells;
	uint32_t cell_count, cell_cap;
	struct index by_cell;
	struct block_series { /* a series of the answer in one of its blocks */
		uint32_t of, block, series;
	} * blocks;
	uint32_t block_count, block_cap;
	struct index by_block;
	uint16_t *steps;
	size_t step_cap;
	char *unit;
	uint64_t period, samples;
	bool first, period_varies;
};

static int sum_file(void *ctx, const struct dict_view *v)
{
	struct summing *s = ctx;

	s->view = v;
	series_filter_begin(&s->filter, v);
	if (s->dense) {
		s->counts = mem_alloc_array(v->stack_count, sizeof(*s->counts));
		s->values = mem_alloc_array(v->stack_count, sizeof(*s->values));
	}
	s->cell_count = 0;
	index_clear(&s->by_cell);
	return 0;
}

static void add_cell(struct summing *s, uint32_t series, uint32_t stack, uint64_t count,
		     uint64_t value)
{
	uint32_t hash = index_hash2((uint64_t)series << 32 | stack, 1), id;

	INDEX_EACH(&s->by_cell, hash, id) {
		struct cell *c = &s->cells[id - 1];
		if (c->series == series && c->stack == stack) {
			c->count += count;
			c->value += value;
			return;
		}
	}
	MEM_GROW(s->cells, s->cell_count, s->cell_cap);
	s->cells[s->cell_count++] = (struct cell){series, stack, count, value};
	index_put(&s->by_cell, hash, s->cell_count);
}

/* The series of the answer that has the block's number besides its other labels. */
static uint32_t series_in_block(struct summing *s, uint32_t of, uint64_t start_ms)
{
	uint64_t since = start_ms - MIN(start_ms, s->w->from_ms);
	uint32_t block = (uint32_t)(since / s->w->q->block_ms), hash = index_hash2(of, block), id;
	struct label labels[ENTRIES_LABELS_MAX + 2];
	char number[16];

	INDEX_EACH(&s->by_block, hash, id) {
		const struct block_series *b = &s->blocks[id - 1];
		if (b->of == of && b->block == block)
			return b->series;
	}
	struct series has = s->into->series[of];
	for (uint32_t i = 0; i < has.count; i++)
		labels[i] = has.labels[i];
	int len = snprintf(number, sizeof(number), "%u", block);
	labels[has.count] =
		(struct label){profile_string(s->into, STORE_BLOCK, strlen(STORE_BLOCK)),
			       profile_string(s->into, number, (size_t)len)};
	uint32_t series = profile_series(s->into, labels, has.count + 1);
	MEM_GROW(s->blocks, s->block_count, s->block_cap);
	s->blocks[s->block_count++] = (struct block_series){of, block, series};
	index_put(&s->by_block, hash, s->block_count);
	return series;
}

/* Of a row's samples, those that were taken in the range: changes its numbers. */
static int cut_row(struct summing *s, struct scanned_blob *b, struct columns_row *row)
{
	const struct columns_window *w = &b->rows->windows[COLUMNS_WINDOW(row->key)];
	uint32_t known, in = 0;
	bool overlaps =
		w->start_ms < s->w->q->to_ms && w->start_ms + w->length_ms > s->w->q->from_ms;

	if (!b->times) {
		row->count = 0;
		return overlaps ? -ENODATA : 0;
	}
	if (!columns_times_next(b->times, row->count, &s->steps, &s->step_cap, &known))
		return -EUCLEAN;
	for (uint32_t i = 0; i < known; i++) {
		uint64_t at = w->start_ms + (uint64_t)s->steps[i] * WINDOW_STEP_MS;
		in += at >= s->w->q->from_ms && at < s->w->q->to_ms;
	}
	if (known < row->count && overlaps)
		return -ENODATA;
	if (!row->count)
		return 0;
	row->value = in == row->count ? row->value
				      : (uint64_t)((unsigned __int128)row->value * in / row->count);
	row->count = in;
	return 0;
}

static int sum_blob(void *ctx, struct scanned_blob *b)
{
	struct summing *s = ctx;
	struct columns_row row;
	uint32_t to;

	if (s->first) {
		s->unit = mem_strdup(b->type->unit);
		s->period = b->type->period;
	}
	s->period_varies |= s->period != b->type->period;
	s->first = false;
	while (columns_next(b->rows, &row)) {
		uint32_t stack = COLUMNS_STACK(row.key);
		int r = s->w->q->exact ? cut_row(s, b, &row) : 0;
		if (r)
			return r;
		if (!row.count || stack >= s->view->stack_count ||
		    !range_scan_wants(b, COLUMNS_WINDOW(row.key)) ||
		    !series_filter_get(&s->filter, COLUMNS_SERIES(row.key), &to))
			continue;
		s->samples += row.count;
		if (s->w->q->block_ms)
			to = series_in_block(s, to,
					     b->rows->windows[COLUMNS_WINDOW(row.key)].start_ms);
		if (s->dense) {
			s->counts[stack] += row.count;
			s->values[stack] += row.value;
		} else {
			add_cell(s, to, stack, row.count, row.value);
		}
	}
	return series_filter_check(&s->filter);
}

static const char *string_of(const void *ctx, uint32_t id, size_t *ret_len)
{
	const struct dict_view *v = ctx;

	*ret_len = v->strings[id].len;
	return v->strings[id].bytes;
}

static bool is_cut(const struct dict_view *v, const struct frame *f)
{
	static const char name[] = "[truncated]";
	const struct dict_string *s = &v->strings[f->name];

	return f->kind == FRAME_MARK && s->len == strlen(name) &&
	       memcmp(s->bytes, name, s->len) == 0;
}

/*
 * Stacks of the answer: those with samples and what they stand on; `map` marks them with 1. `cut`
 * gets those of which a part was left out.
 */
static void map_stacks(struct summing *s, uint32_t *map, uint8_t *cut)
{
	const struct dict_view *v = s->view;
	const struct store_options *o = &s->w->s->o;
	struct remap_from from = {v->modules, v->frames, string_of, v, o->name, o->name_ctx};
	struct remap frames = {};

	for (uint32_t i = v->stack_count; i-- > 1;)
		if (map[i])
			map[v->stacks[i].parent] = 1;
	map[0] = 0;
	for (uint32_t i = 1; i < v->stack_count; i++) {
		if (!map[i])
			continue;
		struct stack at = v->stacks[i];
		map[i] = profile_stack(s->into, map[at.parent],
				       remap_frame(&frames, &from, at.frame, s->into, NULL));
		cut[i] = cut[at.parent] || is_cut(v, &v->frames[at.frame]);
	}
	remap_done(&frames);
}

static int sum_file_end(void *ctx)
{
	struct summing *s = ctx;
	uint32_t count = s->view->stack_count;
	CLEANUP(freep) uint32_t *map = mem_alloc_array(count, sizeof(*map));
	CLEANUP(freep) uint8_t *cut = mem_alloc_array(count, sizeof(*cut));

	for (uint32_t i = 0; s->dense && i < count; i++)
		map[i] = s->counts[i] != 0;
	for (uint32_t i = 0; i < s->cell_count; i++)
		map[s->cells[i].stack] = 1;
	map_stacks(s, map, cut);
	for (uint32_t i = 0; s->dense && i < count; i++) {
		if (!s->counts[i])
			continue;
		profile_add(s->into, 0, map[i], s->counts[i], s->values[i]);
		s->into->info.truncated += cut[i] ? s->counts[i] : 0;
	}
	for (uint32_t i = 0; i < s->cell_count; i++) {
		const struct cell *c = &s->cells[i];
		profile_add(s->into, c->series, map[c->stack], c->count, c->value);
		s->into->info.truncated += cut[c->stack] ? c->count : 0;
	}
	free(TAKE_PTR(s->counts));
	free(TAKE_PTR(s->values));
	series_filter_end(&s->filter);
	return 0;
}

static void finish(struct summing *s, const struct store_query *q, struct store_answer *ret)
{
	struct profile *into = s->into;

	ret->samples = s->samples;
	into->info.type = profile_keep(into, q->type);
	if (s->unit) {
		into->info.unit = profile_keep(into, s->unit);
		into->info.period = s->period_varies ? 0 : s->period;
	}
	into->info.start_ns = ret->from_ms * 1000000;
	into->info.duration_ns = (ret->to_ms - ret->from_ms) * 1000000;
	into->info.lost += ret->lost;
	free(s->unit);
	free(s->cells);
	free(s->steps);
	free(s->blocks);
	index_done(&s->by_cell);
	index_done(&s->by_block);
}

/* ---- of spans alone -------------------------------------------------------------------------- */

static bool is_about_spans(const struct matcher *m)
{
	return strcmp(m->label, STORE_TRACE) == 0 || strcmp(m->label, STORE_SPAN) == 0;
}

static bool asks_spans(const struct store_query *q)
{
	for (size_t i = 0; i < q->matcher_count; i++)
		if (is_about_spans(&q->matchers[i]))
			return true;
	return false;
}

struct summing_spans {
	struct summing sum; /* first */
	struct matching matching;
};

/* The ids of a span as the labels that matchers are about; "": its trace is not known. */
struct span_text {
	char trace[33], span[17];
};

static bool wants_span(struct summing_spans *s, const struct window_span *span,
		       struct span_text *ret)
{
	static const uint8_t unknown[sizeof(span->trace)];

	*ret->trace = '\0';
	if (memcmp(span->trace, unknown, sizeof(unknown)) != 0)
		text_hex_bytes(span->trace, sizeof(span->trace), ret->trace);
	text_hex_bytes(span->span, sizeof(span->span), ret->span);
	struct matcher_label labels[] = {{STORE_TRACE, ret->trace}, {STORE_SPAN, ret->span}};
	return matching_accepts(&s->matching, labels, ARRAY_SIZE(labels));
}

/* The series of the answer that has these labels besides its own. */
static uint32_t series_of_span(const struct summing *s, uint32_t of, const struct span_text *t)
{
	struct label labels[ENTRIES_LABELS_MAX + 3];
	struct series has = s->into->series[of];
	uint32_t n = 0;

	for (; n < has.count; n++)
		labels[n] = has.labels[n];
	if (*t->trace)
		labels[n++] =
			(struct label){profile_string(s->into, STORE_TRACE, strlen(STORE_TRACE)),
				       profile_string(s->into, t->trace, strlen(t->trace))};
	labels[n++] = (struct label){profile_string(s->into, STORE_SPAN, strlen(STORE_SPAN)),
				     profile_string(s->into, t->span, strlen(t->span))};
	return profile_series(s->into, labels, n);
}

static int sum_message(void *ctx, const struct partition_type *type, const struct window *w)
{
	struct summing_spans *with = ctx;
	struct summing *s = &with->sum;
	CLEANUP(freep) uint8_t *wanted = mem_alloc_array(w->span_count + 1, sizeof(*wanted));
	CLEANUP(freep) struct span_text *texts = mem_alloc_array(w->span_count + 1, sizeof(*texts));
	uint32_t to;

	if (s->first) {
		s->unit = mem_strdup(type->unit);
		s->period = type->period;
	}
	s->period_varies |= s->period != type->period;
	s->first = false;
	for (uint32_t i = 0; i < w->span_count; i++)
		wanted[i] = wants_span(with, &w->spans[i], &texts[i]);
	for (uint32_t i = 0; i < w->span_row_count; i++) {
		const struct window_span_row *r = &w->span_rows[i];
		if (!wanted[r->span] || r->stack >= s->view->stack_count ||
		    !series_filter_get(&s->filter, r->series, &to))
			continue;
		s->samples += r->count;
		add_cell(s, series_of_span(s, to, &texts[r->span]), r->stack, r->count, r->value);
	}
	return with->matching.failed ? -ECANCELED : series_filter_check(&s->filter);
}

/* Series are filtered by the other matchers. */
static int sum_spans(struct local_store *store, const struct store_query *q, struct profile *into,
		     struct store_answer *ret, struct store_error *ret_err)
{
	CLEANUP(freep)
	struct matcher *lists = mem_alloc_array(2 * q->matcher_count, sizeof(*lists));
	struct matcher *rest = lists, *of_spans = lists + q->matcher_count;
	struct store_query other = *q;
	size_t count = 0;
	struct matcher_error why;

	other.matchers = rest;
	other.matcher_count = 0;
	for (size_t i = 0; i < q->matcher_count; i++)
		if (is_about_spans(&q->matchers[i]))
			of_spans[count++] = q->matchers[i];
		else
			rest[other.matcher_count++] = q->matchers[i];
	struct summing_spans s = {.sum = {.into = into, .first = true}};
	struct span_scan w = {
		.s = store,
		.q = &other,
		.from_ms = q->from_ms / WINDOW_MS * WINDOW_MS,
		.to_ms = store_round_up(q->to_ms),
		.file = sum_file,
		.spans = sum_message,
		.file_end = sum_file_end,
		.ctx = &s,
		.answer = ret,
	};
	struct range_scan none = {.s = store, .q = &other};
	s.sum.w = &none; /* what sum_file_end() asks it for: how frames are named */
	matching_init(&s.matching, of_spans, count);
	series_filter_init(&s.sum.filter, &other, into);
	int r = span_scan(&w);
	finish(&s.sum, q, ret);
	if (matching_failed(&s.matching, &why)) {
		snprintf(ret_err->text, sizeof(ret_err->text), "%s", why.text);
		r = -EINVAL;
	}
	matching_done(&s.matching);
	return series_filter_done(&s.sum.filter, r, ret_err);
}

int local_sum(void *self, const struct store_query *q, struct profile *into,
	      struct store_answer *ret, struct store_error *ret_err)
{
	struct range_scan w = {.s = self,
			       .q = q,
			       .from_ms = q->unrounded ? q->from_ms
						       : q->from_ms / WINDOW_MS * WINDOW_MS,
			       .to_ms = q->unrounded ? q->to_ms : store_round_up(q->to_ms),
			       .hours = !q->exact && !q->block_ms,
			       .prefer_raw = q->raw_only,
			       .times = q->exact,
			       .answer = ret};
	struct summing s = {
		.w = &w, .into = into, .dense = q->by_count == 0 && !q->block_ms, .first = true};

	if (asks_spans(q))
		return sum_spans(self, q, into, ret, ret_err);
	series_filter_init(&s.filter, q, into);
	w.file = sum_file;
	w.blob = sum_blob;
	w.file_end = sum_file_end;
	w.ctx = &s;
	int r = range_scan(&w);
	if (q->exact)
		store_clip_to_steps(q, ret);
	finish(&s, q, ret);
	return series_filter_done(&s.filter, r, ret_err);
}
