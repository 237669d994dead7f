/*
 * A message becomes rows: its head, and one for each series. What its stacks and labels are is
 * written before, so that no row names what is not there.
 *
 * Whether the message is stored already is asked of ClickHouse, unless its collector is known to
 * this process and the message comes after the latest that it stored. Another server may have it
 * nevertheless: then both are stored, and those who read leave one out (messages.h).
 */
#include <errno.h>

#include "base/text.h"
#include "clickhouse/clickhouse_internal.h"
#include "clickhouse/content.h"

#define FUTURE_MS 3600000ull

static void put_text(struct pack *p, const struct profile *dict, uint32_t id)
{
	pack_str(p, id ? profile_str(dict, id) : "", id ? profile_str_len(dict, id) : 0);
}

static void put_hash(struct pack *p, struct content_hash h)
{
	pack_raw(p, h.bytes, sizeof(h.bytes));
}

/* ---- dictionaries ---------------------------------------------------------------------------- */

struct announcement { /* rows of the tables of dictionaries */
	struct clickhouse_store *s;
	struct content content;
	uint64_t day;
	struct pack stacks, frames, series;
};

static void announce_frame(struct announcement *a, uint32_t id)
{
	const struct profile *dict = a->content.dict;
	const struct frame *f = &dict->frames[id];
	const struct module *m = &dict->modules[f->module];
	struct content_hash hash = content_frame(&a->content, id);
	struct pack *out = &a->frames;

	if (!announced_add(&a->s->announced, a->day, hash))
		return;
	rowbinary_put(out, a->day, 2);
	put_hash(out, hash);
	put_text(out, dict, f->name);
	rowbinary_put(out, f->kind, 1);
	rowbinary_put(out, f->addr, 8);
	put_text(out, dict, f->source);
	rowbinary_put(out, f->line, 4);
	rowbinary_put(out, f->start, 4);
	put_text(out, dict, f->module ? m->name : 0);
	put_text(out, dict, f->module ? m->build_id : 0);
	put_text(out, dict, f->module ? m->path : 0);
	rowbinary_put(out, f->module ? m->start : 0, 8);
	rowbinary_put(out, f->module ? m->end : 0, 8);
	rowbinary_put(out, f->module ? m->offset : 0, 8);
}

static struct content_hash announce_stack(struct announcement *a, uint32_t id)
{
	const struct profile *dict = a->content.dict;
	struct content_hash hash = content_stack(&a->content, id);
	uint32_t frames[PROFILE_DEPTH_MAX];
	size_t n = 0;

	if (!id || !announced_add(&a->s->announced, a->day, hash))
		return hash;
	for (uint32_t at = id; at; at = dict->stacks[at].parent)
		frames[n++] = dict->stacks[at].frame;
	rowbinary_put(&a->stacks, a->day, 2);
	put_hash(&a->stacks, hash);
	pack_u64(&a->stacks, n);
	while (n) {
		announce_frame(a, frames[--n]);
		put_hash(&a->stacks, content_frame(&a->content, frames[n]));
	}
	return hash;
}

static struct content_hash announce_series(struct announcement *a, uint32_t id)
{
	const struct profile *dict = a->content.dict;
	const struct series *s = &dict->series[id];
	struct content_hash hash = content_series(&a->content, id);

	if (!announced_add(&a->s->announced, a->day, hash))
		return hash;
	rowbinary_put(&a->series, a->day, 2);
	put_hash(&a->series, hash);
	pack_u64(&a->series, s->count);
	for (uint32_t i = 0; i < s->count; i++)
		put_text(&a->series, dict, s->labels[i].key);
	pack_u64(&a->series, s->count);
	for (uint32_t i = 0; i < s->count; i++)
		put_text(&a->series, dict, s->labels[i].value);
	return hash;
}

static int announce(struct announcement *a, struct store_error *e)
{
	struct client *c = a->s->client;
	int r = client_insert(c, "frames", &a->frames, e);

	r = r ? r : client_insert(c, "stacks", &a->stacks, e);
	r = r ? r : client_insert(c, "series", &a->series, e);
	if (r)
		announced_forget(&a->s->announced);
	return r;
}

static void announcement_done(struct announcement *a)
{
	content_done(&a->content);
	pack_done(&a->stacks);
	pack_done(&a->frames);
	pack_done(&a->series);
}

/* ---- windows --------------------------------------------------------------------------------- */

/* What both kinds of rows of `windows` begin with, up to `copy`. */
static void put_place(struct pack *out, const struct window *w, uint64_t copy, bool is_head,
		      const char *service, struct content_hash series)
{
	rowbinary_put(out, w->start_ms / CLICKHOUSE_DAY_MS, 2);
	pack_str(out, w->type, strlen(w->type));
	rowbinary_put(out, is_head, 1);
	pack_str(out, service, strlen(service));
	put_hash(out, series);
	rowbinary_put(out, w->start_ms, 8);
	rowbinary_put(out, w->length_ms, 4);
	pack_str(out, w->unit, strlen(w->unit));
	rowbinary_put(out, w->period, 8);
	rowbinary_put(out, copy, 8);
}

static void put_head(struct pack *out, const struct window *w, uint64_t copy, uint64_t now_ms)
{
	uint64_t samples = 0;

	for (uint32_t i = 0; i < w->row_count; i++)
		samples += w->rows[i].count;
	put_place(out, w, copy, true, "", (struct content_hash){});
	rowbinary_put(out, samples, 8);
	rowbinary_put(out, 0, 8); /* total, kernel, and the four arrays */
	rowbinary_put(out, 0, 8);
	rowbinary_put(out, 0, 4);
	pack_raw(out, w->instance, sizeof(w->instance));
	rowbinary_put(out, w->sequence, 8);
	rowbinary_put(out, w->part, 4);
	rowbinary_put(out, now_ms, 8);
	rowbinary_put(out, w->counts.base, 8);
	rowbinary_put(out, w->counts.taken, 8);
	pack_u64(out, WINDOW_LOST_REASONS);
	for (int i = 0; i < WINDOW_LOST_REASONS; i++)
		rowbinary_put(out, w->counts.lost[i], 8);
}

static bool is_in_kernel(const struct profile *dict, uint32_t stack)
{
	return stack && frame_is_kernel(dict->frames[dict->stacks[stack].frame].kind);
}

/* One series: rows `from` up to, not including, `to`. Returns how many sample times it has. */
static size_t put_series(struct announcement *a, struct pack *out, const struct window *w,
			 uint64_t copy, uint32_t from, uint32_t to, const uint16_t *times)
{
	static const uint8_t nothing[16 + 8 + 4 + 8 + 8 + 8 + 1];
	const struct profile *dict = a->content.dict;
	uint32_t series = w->rows[from].series;
	const char *service = profile_label(dict, series, "service");
	uint64_t samples = 0, total = 0, kernel = 0;
	bool has_extras = false;

	for (uint32_t i = from; i < to; i++) {
		const struct window_row *r = &w->rows[i];
		samples += r->count;
		total += r->value;
		kernel += is_in_kernel(dict, r->stack) ? r->value : 0;
		has_extras |= r->value != r->count * w->period;
	}
	put_place(out, w, copy, false, service ? service : "", announce_series(a, series));
	rowbinary_put(out, samples, 8);
	rowbinary_put(out, total, 8);
	rowbinary_put(out, kernel, 8);
	pack_u64(out, to - from);
	for (uint32_t i = from; i < to; i++)
		put_hash(out, announce_stack(a, w->rows[i].stack));
	pack_u64(out, to - from);
	for (uint32_t i = from; i < to; i++)
		rowbinary_put(out, w->rows[i].count, 8);
	pack_u64(out, has_extras ? to - from : 0);
	for (uint32_t i = from; has_extras && i < to; i++)
		rowbinary_put(out, w->rows[i].value - w->rows[i].count * w->period, 8);
	pack_u64(out, times ? samples : 0);
	for (uint64_t i = 0; times && i < samples; i++)
		rowbinary_put(out, times[i], 2);
	pack_raw(out, nothing, sizeof(nothing)); /* what only heads have */
	return samples;
}

static void put_window(struct announcement *a, struct pack *out, const struct window *w,
		       uint64_t copy, uint64_t now_ms)
{
	const uint16_t *times = w->times;

	put_head(out, w, copy, now_ms);
	for (uint32_t from = 0, to; from < w->row_count; from = to) {
		for (to = from + 1;
		     to < w->row_count && w->rows[to].series == w->rows[from].series;)
			to++;
		size_t count = put_series(a, out, w, copy, from, to, times);
		times = times ? times + count : NULL;
	}
}

/* ---- spans ----------------------------------------------------------------------------------- */

static int by_span(const void *a, const void *b)
{
	const struct window_span_row *x = a, *y = b;

	if (x->span != y->span)
		return x->span < y->span ? -1 : 1;
	if (x->series != y->series)
		return x->series < y->series ? -1 : 1;
	return (x->stack > y->stack) - (x->stack < y->stack);
}

static void put_spans(struct announcement *a, struct pack *out, const struct window *w,
		      uint64_t copy)
{
	CLEANUP(freep)
	struct window_span_row *rows = mem_dup(w->span_rows, w->span_row_count * sizeof(*rows));

	qsort(rows, w->span_row_count, sizeof(*rows), by_span);
	for (uint32_t from = 0, to; from < w->span_row_count; from = to) {
		const struct window_span *span = &w->spans[rows[from].span];
		for (to = from + 1; to < w->span_row_count && rows[to].span == rows[from].span &&
				    rows[to].series == rows[from].series;)
			to++;
		rowbinary_put(out, a->day, 2);
		pack_str(out, w->type, strlen(w->type));
		rowbinary_put(out, w->start_ms, 8);
		rowbinary_put(out, w->length_ms, 4);
		pack_str(out, w->unit, strlen(w->unit));
		rowbinary_put(out, w->period, 8);
		pack_raw(out, w->instance, sizeof(w->instance));
		rowbinary_put(out, w->sequence, 8);
		rowbinary_put(out, w->part, 4);
		rowbinary_put(out, copy, 8);
		pack_raw(out, span->trace, sizeof(span->trace));
		pack_raw(out, span->span, sizeof(span->span));
		put_hash(out, announce_series(a, rows[from].series));
		pack_u64(out, to - from);
		for (uint32_t i = from; i < to; i++)
			put_hash(out, announce_stack(a, rows[i].stack));
		pack_u64(out, to - from);
		for (uint32_t i = from; i < to; i++)
			rowbinary_put(out, rows[i].count, 8);
		pack_u64(out, to - from);
		for (uint32_t i = from; i < to; i++)
			rowbinary_put(out, rows[i].value, 8);
	}
}

/* ---- once ------------------------------------------------------------------------------------ */

static struct clickhouse_seen *seen(struct clickhouse_store *s, const struct window *w)
{
	uint32_t at = index_hash_bytes(w->instance, sizeof(w->instance)) % CLICKHOUSE_SEEN;

	return &s->seen[at];
}

/* Whether it comes after all that this process has stored of its collector. */
static bool is_next(const struct clickhouse_seen *before, const struct window *w)
{
	return before->used && memcmp(before->instance, w->instance, 16) == 0 &&
	       (w->sequence > before->sequence ||
		(w->sequence == before->sequence && w->part > before->part));
}

/* What comes after a message that is stored need not be asked for. */
static void remember(struct clickhouse_seen *before, const struct window *w)
{
	if (before->used && memcmp(before->instance, w->instance, 16) == 0 && !is_next(before, w))
		return;
	*before = (struct clickhouse_seen){.sequence = w->sequence, .part = w->part, .used = true};
	memcpy(before->instance, w->instance, 16);
}

/* 1: it is stored already, 0: not, or -errno. */
static int is_known(struct clickhouse_store *s, const struct window *w, struct store_error *e)
{
	CLEANUP(freep) char *range = clickhouse_range(w->start_ms, w->start_ms + 1);
	CLEANUP(freep) char *type = clickhouse_type(w->type);
	struct client_rows rows;
	char instance[33];

	int r = clickhouse_ask(s, NULL, &rows, e,
			       "SELECT count() FROM %s WHERE %s%s AND %s instance = unhex('%s')"
			       " AND sequence = %llu AND part = %u",
			       window_is_spans(w) ? "spans" : "windows", range, type,
			       window_is_spans(w) ? "" : "head = 1 AND",
			       text_hex_bytes(w->instance, 16, instance),
			       (unsigned long long)w->sequence, w->part);
	if (r)
		return r;
	uint64_t count = rowbinary_get(&rows.in, 8);
	r = rows.in.bad ? -EPROTO : count > 0;
	client_rows_done(&rows);
	return r;
}

static int in_range(struct clickhouse_store *s, const struct window *w, uint64_t now_ms,
		    struct store_error *e)
{
	if (w->start_ms > now_ms + FUTURE_MS) {
		clickhouse_say(e, "the window begins %.1f hours in the future",
			       (double)(w->start_ms - now_ms) / 3600e3);
		return -ERANGE;
	}
	if (w->start_ms + s->o.retention_ms < now_ms) {
		clickhouse_say(e, "the window is older than the retention time");
		return -ERANGE;
	}
	return 0;
}

static int append(struct clickhouse_store *s, const struct profile *dict, const struct window *w,
		  uint64_t now_ms, struct store_error *e)
{
	struct announcement a = {.s = s, .day = w->start_ms / CLICKHOUSE_DAY_MS};
	struct clickhouse_seen *before = seen(s, w);
	struct pack rows = {};
	int r = is_next(before, w) ? 0 : is_known(s, w, e);

	if (r > 0)
		remember(before, w);
	if (r)
		return r < 0 ? r : -EEXIST;
	content_init(&a.content, dict);
	if (window_is_spans(w))
		put_spans(&a, &rows, w, s->copy);
	else
		put_window(&a, &rows, w, s->copy, now_ms);
	s->copy++;
	r = announce(&a, e);
	r = r ? r : client_insert(s->client, window_is_spans(w) ? "spans" : "windows", &rows, e);
	announcement_done(&a);
	pack_done(&rows);
	if (r) {
		before->used = false; /* it may be there: the next time it is asked for */
		return r;
	}
	remember(before, w);
	return 0;
}

static void count(struct clickhouse_store *s, const struct window *w)
{
	if (window_is_spans(w) || window_is_findings(w))
		return;
	s->stats.windows++;
	for (uint32_t i = 0; i < w->row_count; i++)
		s->stats.samples += w->rows[i].count;
}

int clickhouse_append(void *self, const struct profile *dict, const struct window *w,
		      uint64_t now_ms, struct store_error *ret_err)
{
	struct clickhouse_store *s = self;

	int r = s->o.read_only ? -EROFS : in_range(s, w, now_ms, ret_err);
	if (r) {
		s->stats.refused += r == -ERANGE;
		return r;
	}
	r = window_is_findings(w) ? clickhouse_append_findings(s, w, now_ms, ret_err)
				  : append(s, dict, w, now_ms, ret_err);
	if (!r)
		count(s, w);
	s->stats.known += r == -EEXIST;
	s->stats.failed += r && r != -EEXIST;
	return !r || r == -EEXIST || r == -ENOSPC ? r : -EIO;
}
