/* What a range of time holds, as a profile. */
#include <errno.h>
#include <inttypes.h>

#include "base/text.h"
#include "clickhouse/messages.h"
#include "clickhouse/resolve.h"
#include "clickhouse/selection.h"
#include "store/operations.h"

#define FIVE_MIN 300000ull

struct cell {                   /* of the answer */
	uint32_t series, stack; /* the latter's number in `stacks` */
	uint64_t count, value;
};

struct range_sum {
	struct clickhouse_store *s;
	const struct store_query *q;
	struct profile *into;
	uint64_t from_ms, to_ms; /* rounded as windows are */
	uint64_t first_ms;       /* no message that counts begins before it */
	char *where;             /* of messages in it */
	struct selection selection;
	struct matching spans; /* matchers about spans */
	bool of_spans;
	struct resolve stacks;
	struct cell *cells;
	uint32_t count, cap;
	struct index by_cell;
	uint64_t samples;
};

static void forget_cells(struct range_sum *r)
{
	r->count = 0;
	r->samples = 0;
	index_clear(&r->by_cell);
	resolve_done(&r->stacks);
}

static void add_cell(struct range_sum *r, uint32_t series, const struct content_hash *hash,
		     uint64_t count, uint64_t value)
{
	uint32_t stack = resolve_put(&r->stacks, hash), id;
	uint32_t mixed = index_hash2((uint64_t)series << 32 | stack, 1);

	r->samples += count;
	INDEX_EACH(&r->by_cell, mixed, id) {
		struct cell *c = &r->cells[id - 1];
		if (c->series == series && c->stack == stack) {
			c->count += count;
			c->value += value;
			return;
		}
	}
	MEM_GROW(r->cells, r->count, r->cap);
	r->cells[r->count++] = (struct cell){series, stack, count, value};
	index_put(&r->by_cell, mixed, r->count);
}

/* ---- series of the answer -------------------------------------------------------------------- */

/* The labels that are kept, as a series of the answer. */
static uint32_t place(void *ctx, const struct content_hash *series,
		      const struct matcher_label *labels, size_t count)
{
	struct label keep[ENTRIES_LABELS_MAX + 1];
	struct range_sum *r = ctx;
	size_t n = 0;

	(void)series;
	for (size_t i = 0; i < count; i++)
		for (size_t k = 0; k < r->q->by_count; k++)
			if (strcmp(labels[i].key, r->q->by[k]) == 0)
				keep[n++] = (struct label){
					profile_string(r->into, labels[i].key,
						       strlen(labels[i].key)),
					profile_string(r->into, labels[i].value,
						       strlen(labels[i].value)),
				};
	return profile_series(r->into, keep, n);
}

/* A series of the answer with more labels; those without a value are left out. */
static uint32_t with_labels(struct profile *into, uint32_t series, const struct matcher_label *more,
			    size_t count)
{
	struct label labels[ENTRIES_LABELS_MAX + 3];
	struct series has = into->series[series];
	uint32_t n = 0;

	for (; n < has.count; n++)
		labels[n] = has.labels[n];
	for (size_t i = 0; i < count; i++)
		if (*more[i].value)
			labels[n++] = (struct label){
				profile_string(into, more[i].key, strlen(more[i].key)),
				profile_string(into, more[i].value, strlen(more[i].value))};
	return profile_series(into, labels, n);
}

static uint32_t in_block(struct range_sum *r, uint32_t series, uint32_t block)
{
	char number[16];

	snprintf(number, sizeof(number), "%u", block);
	return with_labels(r->into, series, &(struct matcher_label){STORE_BLOCK, number}, 1);
}

/* ---- windows --------------------------------------------------------------------------------- */

/* Of an exact range only the windows that lie in it with all their samples; others are cut. */
static char *inside(const struct range_sum *r, const char *otherwise)
{
	return r->q->exact ? mem_printf(" AND %s(start_ms >= %" PRIu64
					" AND start_ms + length_ms <= %" PRIu64 ")",
					otherwise, r->q->from_ms, r->q->to_ms)
			   : mem_strdup("");
}

static int read_sums(struct range_sum *r, const char *without, struct store_error *e)
{
	CLEANUP(freep) char *in = inside(r, "");
	CLEANUP(freep)
	char *block = r->q->block_ms
			      ? mem_printf("toUInt32(intDiv(start_ms - %" PRIu64 ", %" PRIu64 "))",
					   r->from_ms, r->q->block_ms)
			      : mem_strdup("toUInt32(0)");
	struct client_rows rows;

	int err = clickhouse_ask(
		r->s, r->selection.has_table ? &r->selection.table : NULL, &rows, e,
		"SELECT %s AS of, %s AS in_block, one, sum(c), sum(c * period + x)"
		" FROM windows ARRAY JOIN stacks AS one, counts AS c,"
		" arrayResize(extras, length(counts)) AS x"
		" WHERE %s AND head = 0%s%s%s AND c > 0 GROUP BY of, in_block, one",
		selection_key(&r->selection), block, r->where, r->selection.condition, without, in);
	if (err)
		return err;
	while (rowbinary_more(&rows.in)) {
		struct content_hash series = {}, stack = {};
		uint32_t to;
		rowbinary_get_bytes(&rows.in, series.bytes, sizeof(series.bytes));
		uint32_t number = (uint32_t)rowbinary_get(&rows.in, 4);
		rowbinary_get_bytes(&rows.in, stack.bytes, sizeof(stack.bytes));
		uint64_t count = rowbinary_get(&rows.in, 8), value = rowbinary_get(&rows.in, 8);
		if (rows.in.bad || !selection_get(&r->selection, &series, &to))
			continue;
		if (r->q->block_ms)
			to = in_block(r, to, number);
		add_cell(r, to, &stack, count, value);
	}
	err = rows.in.bad ? -EPROTO : 0;
	client_rows_done(&rows);
	return err;
}

/* ---- exact ranges ---------------------------------------------------------------------------- */

/* -ENODATA: of some samples in the range it is not known when they were taken. */
static int check_times(struct range_sum *r, struct store_error *e)
{
	CLEANUP(freep) char *type = clickhouse_type(r->q->type);
	CLEANUP(freep)
	char *range = clickhouse_range(r->from_ms / FIVE_MIN * FIVE_MIN,
				       (r->to_ms + FIVE_MIN - 1) / FIVE_MIN * FIVE_MIN);
	struct client_rows rows;

	int err = clickhouse_ask(r->s, NULL, &rows, e,
				 "SELECT count() FROM windows WHERE %s%s AND head = 0 AND start_ms"
				 " < %" PRIu64 " AND start_ms + length_ms > %" PRIu64
				 " AND length(times) < samples",
				 range, type, r->q->to_ms, r->q->from_ms);
	if (err)
		return err;
	uint64_t untimed = rowbinary_get(&rows.in, 8);
	err = rows.in.bad ? -EPROTO : untimed ? -ENODATA : 0;
	client_rows_done(&rows);
	return err;
}

struct cut_row { /* a series in a window */
	struct content_hash series;
	uint64_t start_ms, period, count;
	struct unpack stacks, counts, extras, times; /* the arrays' elements */
};

static struct unpack array(struct unpack *in, size_t size, uint64_t *ret_count)
{
	struct unpack ret = {};

	*ret_count = unpack_u64(in);
	if (*ret_count > (size_t)(in->end - in->at) / size)
		in->bad = true;
	if (in->bad)
		return ret;
	ret.at = unpack_raw(in, *ret_count * size);
	ret.end = in->at;
	return ret;
}

static void read_cut_row(struct unpack *in, struct cut_row *ret)
{
	uint64_t counts, extras, times;

	rowbinary_get_bytes(in, ret->series.bytes, sizeof(ret->series.bytes));
	ret->start_ms = rowbinary_get(in, 8);
	ret->period = rowbinary_get(in, 8);
	ret->stacks = array(in, 16, &ret->count);
	ret->counts = array(in, 8, &counts);
	ret->extras = array(in, 8, &extras);
	ret->times = array(in, 2, &times);
	in->bad |= counts != ret->count || extras != ret->count;
}

/* Of each stack, the samples that were taken in the range. */
static void add_cut(struct range_sum *r, struct cut_row *row, uint32_t to)
{
	for (uint64_t i = 0; i < row->count; i++) {
		struct content_hash stack = {};
		rowbinary_get_bytes(&row->stacks, stack.bytes, sizeof(stack.bytes));
		uint64_t count = rowbinary_get(&row->counts, 8), in = 0;
		uint64_t value = count * row->period + rowbinary_get(&row->extras, 8);
		for (uint64_t k = 0; k < count && !row->times.bad; k++) {
			uint64_t at =
				row->start_ms + rowbinary_get(&row->times, 2) * WINDOW_STEP_MS;
			in += at >= r->q->from_ms && at < r->q->to_ms;
		}
		if (in && !row->times.bad)
			add_cell(r, to, &stack, in,
				 in == count ? value
					     : (uint64_t)((unsigned __int128)value * in / count));
	}
}

static int read_cuts(struct range_sum *r, const char *without, struct store_error *e)
{
	CLEANUP(freep) char *in = inside(r, "NOT ");
	struct client_rows rows;

	int err = clickhouse_ask(
		r->s, r->selection.has_table ? &r->selection.table : NULL, &rows, e,
		"SELECT %s AS of, start_ms, period, stacks, counts, arrayResize(extras,"
		" length(counts)), times FROM windows WHERE %s AND head = 0%s%s%s"
		" AND start_ms < %" PRIu64 " AND start_ms + length_ms > %" PRIu64,
		selection_key(&r->selection), r->where, r->selection.condition, without, in,
		r->q->to_ms, r->q->from_ms);
	if (err)
		return err;
	while (rowbinary_more(&rows.in)) {
		struct cut_row row = {};
		uint32_t to;
		read_cut_row(&rows.in, &row);
		if (!rows.in.bad && selection_get(&r->selection, &row.series, &to))
			add_cut(r, &row, to);
	}
	err = rows.in.bad ? -EPROTO : 0;
	client_rows_done(&rows);
	return err;
}

/* ---- spans ----------------------------------------------------------------------------------- */

static bool is_about_spans(const struct matcher *m)
{
	return strcmp(m->label, STORE_TRACE) == 0 || strcmp(m->label, STORE_SPAN) == 0;
}

/* What of the matchers about spans the server can look up: whole ids. */
static char *span_conditions(const struct range_sum *r)
{
	char *text;
	size_t len;
	FILE *f = open_memstream(&text, &len);

	for (size_t i = 0; i < r->spans.count; i++) {
		const struct matcher *m = &r->spans.list[i];
		bool is_trace = strcmp(m->label, STORE_TRACE) == 0;
		size_t bytes = is_trace ? 16 : 8;
		uint8_t id[16];
		if (m->op == MATCHER_EQUAL &&
		    text_parse_hex_bytes(m->value, strlen(m->value), id, bytes))
			fprintf(f, " AND %s = toFixedString(unhex('%s'), %zu)",
				is_trace ? "trace" : "span", m->value, bytes);
	}
	fclose(f);
	return text;
}

static void add_span(struct range_sum *r, struct unpack *in)
{
	static const uint8_t unknown[16];
	struct content_hash series = {}, stack = {};
	uint8_t trace[16], span[8];
	char trace_text[33] = "", span_text[17];
	uint32_t to;

	rowbinary_get_bytes(in, trace, sizeof(trace));
	rowbinary_get_bytes(in, span, sizeof(span));
	rowbinary_get_bytes(in, series.bytes, sizeof(series.bytes));
	rowbinary_get_bytes(in, stack.bytes, sizeof(stack.bytes));
	uint64_t count = rowbinary_get(in, 8), value = rowbinary_get(in, 8);
	if (memcmp(trace, unknown, sizeof(unknown)) != 0)
		text_hex_bytes(trace, sizeof(trace), trace_text);
	text_hex_bytes(span, sizeof(span), span_text);
	struct matcher_label labels[] = {{STORE_TRACE, trace_text}, {STORE_SPAN, span_text}};
	if (in->bad || !matching_accepts(&r->spans, labels, ARRAY_SIZE(labels)) ||
	    !selection_get(&r->selection, &series, &to))
		return;
	add_cell(r, with_labels(r->into, to, labels, ARRAY_SIZE(labels)), &stack, count, value);
}

static int read_spans(struct range_sum *r, const char *without, struct store_error *e)
{
	CLEANUP(freep) char *ids = span_conditions(r);
	struct client_rows rows;

	int err = clickhouse_ask(
		r->s, r->selection.has_table ? &r->selection.table : NULL, &rows, e,
		"SELECT trace, span, %s AS of, one, sum(c), sum(v) FROM spans ARRAY"
		" JOIN stacks AS one, counts AS c, totals AS v WHERE %s%s%s%s"
		" GROUP BY trace, span, of, one",
		selection_key(&r->selection), r->where, ids, r->selection.condition, without);
	if (err)
		return err;
	while (rowbinary_more(&rows.in) && !r->spans.failed)
		add_span(r, &rows.in);
	err = rows.in.bad ? -EPROTO : 0;
	client_rows_done(&rows);
	return err;
}

/* ---- all ------------------------------------------------------------------------------------- */

static int read_all(void *ctx, const char *without, struct store_error *e)
{
	struct range_sum *r = ctx;

	forget_cells(r);
	if (r->of_spans)
		return read_spans(r, without, e);
	int err = r->q->exact ? check_times(r, e) : 0;
	err = err ? err : read_sums(r, without, e);
	return !err && r->q->exact ? read_cuts(r, without, e) : err;
}

static void tell(struct range_sum *r, const struct messages *m, struct store_answer *ret)
{
	struct profile *into = r->into;

	ret->from_ms = r->from_ms;
	ret->to_ms = r->to_ms;
	if (m->count && r->of_spans) {
		ret->from_ms = m->from_ms;
		ret->to_ms = m->to_ms;
	} else if (m->count) {
		ret->from_ms = MAX(ret->from_ms, m->from_ms);
		ret->to_ms = MIN(ret->to_ms, m->to_ms);
	}
	ret->samples = r->samples;
	ret->windows = m->count;
	ret->lost = m->lost;
	if (r->stacks.missing) {
		ret->damaged = r->stacks.missing;
		snprintf(ret->trouble, sizeof(ret->trouble), "the table of stacks, or of frames");
	}
	if (r->q->exact && !r->of_spans)
		store_clip_to_steps(r->q, ret);
	into->info.type = profile_keep(into, r->q->type);
	if (m->is_known) {
		into->info.unit = profile_keep(into, m->unit);
		into->info.period = m->period;
	}
	into->info.start_ns = ret->from_ms * 1000000;
	into->info.duration_ns = (ret->to_ms - ret->from_ms) * 1000000;
	into->info.lost += ret->lost;
}

static int add_samples(struct range_sum *r, struct store_error *e)
{
	int err = resolve_all(&r->stacks, r->s, r->first_ms, r->to_ms, r->into, e);

	for (uint32_t i = 0; i < r->count && !err; i++) {
		const struct cell *c = &r->cells[i];
		profile_add(r->into, c->series, r->stacks.to[c->stack], c->count, c->value);
		r->into->info.truncated += r->stacks.cut[c->stack] ? c->count : 0;
	}
	return err;
}

static int sum(struct range_sum *r, const struct store_query *series_of, struct store_answer *ret,
	       struct store_error *e)
{
	struct messages_range range = {.type = r->q->type,
				       .from_ms = r->from_ms,
				       .to_ms = r->to_ms,
				       .spans = r->of_spans,
				       .lost = !r->of_spans};
	struct messages messages = {};
	struct matcher_error why;

	r->where = messages_where(&range);
	int err = selection_init(&r->selection, r->s, series_of, r->of_spans ? "spans" : "windows",
				 r->where, r->first_ms, r->to_ms, r->q->by_count ? place : NULL, r,
				 e);
	err = err ? err : messages_read_once(r->s, &range, read_all, r, &messages, e);
	if (matching_failed(&r->spans, &why)) {
		clickhouse_say(e, "%s", why.text);
		err = -EINVAL;
	}
	err = err ? err : add_samples(r, e);
	if (!err)
		tell(r, &messages, ret);
	messages_done(&messages);
	selection_done(&r->selection);
	resolve_done(&r->stacks);
	index_done(&r->by_cell);
	free(r->cells);
	free(r->where);
	return err;
}

int clickhouse_sum(void *self, const struct store_query *q, struct profile *into,
		   struct store_answer *ret, struct store_error *ret_err)
{
	CLEANUP(freep)
	struct matcher *lists = mem_alloc_array(2 * q->matcher_count + 1, sizeof(*lists));
	struct matcher *rest = lists, *of_spans = lists + q->matcher_count;
	struct range_sum r = {.s = self, .q = q, .into = into};
	struct store_query series_of = *q;
	size_t count = 0;

	series_of.matchers = rest;
	series_of.matcher_count = 0;
	for (size_t i = 0; i < q->matcher_count; i++)
		if (is_about_spans(&q->matchers[i]))
			of_spans[count++] = q->matchers[i];
		else
			rest[series_of.matcher_count++] = q->matchers[i];
	r.of_spans = count;
	bool rounded = !q->unrounded || count;
	r.from_ms = rounded ? q->from_ms / WINDOW_MS * WINDOW_MS : q->from_ms;
	r.to_ms = rounded ? store_round_up(q->to_ms) : q->to_ms;
	r.first_ms = r.from_ms - (r.of_spans ? MIN(r.from_ms, WINDOW_LENGTH_MAX) : 0);
	matching_init(&r.spans, of_spans, count);
	int err = sum(&r, &series_of, ret, ret_err);
	matching_done(&r.spans);
	return err;
}
