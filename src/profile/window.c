#include "profile/window.h"

#include <errno.h>

#include "base/mem.h"

#define VERSION     1
#define METRIC_MAX  200
#define SAMPLES_MAX (1u << 22) /* in a message */

static const char magic[3] = "SMW", reply_magic[3] = "SMR";

const char *const window_lost_names[WINDOW_LOST_REASONS] = {
	[WINDOW_LOST_RING] = "ring_full",      [WINDOW_LOST_BUFFER] = "server_away",
	[WINDOW_LOST_MALFORMED] = "malformed", [WINDOW_LOST_REFUSED] = "refused",
	[WINDOW_LOST_DIED] = "collector_died",
};

static void write_head(struct pack *out, const char mark[static 3], const uint8_t instance[16],
		       uint64_t sequence, uint32_t part)
{
	uint8_t version = VERSION;

	pack_raw(out, mark, 3);
	pack_raw(out, &version, 1);
	pack_raw(out, instance, 16);
	pack_u64(out, sequence);
	pack_u64(out, part);
}

static int read_head(struct unpack *in, const char mark[static 3], uint8_t instance[16],
		     uint64_t *sequence, uint32_t *part)
{
	const void *word = unpack_raw(in, 3);
	const uint8_t *version = unpack_raw(in, 1);
	const void *id = unpack_raw(in, 16);

	*sequence = unpack_u64(in);
	*part = (uint32_t)unpack_max(in, UINT32_MAX);
	if (in->bad || memcmp(word, mark, 3) != 0)
		return -EBADMSG;
	if (*version != VERSION)
		return -EPROTONOSUPPORT;
	memcpy(instance, id, 16);
	return 0;
}

static void write_rows(const struct window *w, struct pack *out)
{
	uint32_t series = 0, stack = 0;

	pack_u64(out, w->row_count);
	for (uint32_t i = 0; i < w->row_count; i++) {
		const struct window_row *r = &w->rows[i];
		pack_u64(out, r->series - series);
		pack_i64(out, (int64_t)r->stack - stack);
		pack_u64(out, r->count);
		pack_i64(out, (int64_t)(r->value - r->count * w->period));
		series = r->series;
		stack = r->stack;
	}
}

static void write_times(const struct window *w, struct pack *out)
{
	const uint16_t *t = w->times;

	pack_u64(out, t ? 1 : 0);
	for (uint32_t i = 0; t && i < w->row_count; i++) {
		uint16_t last = 0;
		for (uint64_t n = w->rows[i].count; n; n--, t++) {
			pack_u64(out, (uint64_t)(*t - last));
			last = *t;
		}
	}
}

void window_write_spans(const struct window *w, struct pack *out)
{
	uint32_t series = 0, stack = 0;

	pack_u64(out, w->span_count);
	pack_raw(out, w->spans, w->span_count * sizeof(*w->spans));
	pack_u64(out, w->span_row_count);
	for (uint32_t i = 0; i < w->span_row_count; i++) {
		const struct window_span_row *r = &w->span_rows[i];
		pack_u64(out, r->series - series);
		pack_i64(out, (int64_t)r->stack - stack);
		pack_u64(out, r->span);
		pack_u64(out, r->count);
		pack_i64(out, (int64_t)(r->value - r->count * w->period));
		series = r->series;
		stack = r->stack;
	}
}

void window_write(const struct window *w, const struct profile *dict, struct entries_mark *mark,
		  size_t entries_max, struct pack *out)
{
	struct pack entries = {};

	write_head(out, magic, w->instance, w->sequence, w->part);
	pack_u64(out, w->epoch);
	pack_u64(out, w->start_ms);
	pack_u64(out, w->length_ms);
	pack_str(out, w->type, strlen(w->type));
	pack_str(out, w->unit, strlen(w->unit));
	pack_u64(out, w->period);
	pack_u64(out, w->counts.base);
	pack_u64(out, w->counts.taken);
	for (int i = 0; i < WINDOW_LOST_REASONS; i++)
		pack_u64(out, w->counts.lost[i]);

	entries_write(dict, mark, entries_max, &entries);
	pack_u64(out, entries.len);
	pack_raw(out, entries.bytes, entries.len);
	pack_done(&entries);

	write_rows(w, out);
	write_times(w, out);
	pack_u64(out, w->metric_count);
	for (uint32_t i = 0; i < w->metric_count; i++) {
		pack_str(out, w->metrics[i].name, strlen(w->metrics[i].name));
		pack_raw(out, &w->metrics[i].value, sizeof(double));
	}
	if (w->finding_count || w->span_row_count)
		pack_u64(out, w->finding_count);
	for (uint32_t i = 0; i < w->finding_count; i++)
		finding_write(&w->findings[i], out);
	if (w->span_row_count)
		window_write_spans(w, out);
}

static void read_word(struct unpack *in, char ret[static WINDOW_TYPE_MAX])
{
	size_t len;
	const char *s = unpack_str(in, WINDOW_TYPE_MAX - 1, &len);

	memcpy(ret, s, len);
	ret[len] = 0;
	if (!len || strspn(ret, "abcdefghijklmnopqrstuvwxyz0123456789_:") != len)
		in->bad = true;
}

/* Reads up to the entries. */
static int read_fixed(struct unpack *in, struct window *w)
{
	int r = read_head(in, magic, w->instance, &w->sequence, &w->part);
	if (r)
		return r;
	w->epoch = (uint32_t)unpack_max(in, UINT32_MAX);
	w->start_ms = unpack_max(in, INT64_MAX / 1000000);
	w->length_ms = (uint32_t)unpack_max(in, WINDOW_LENGTH_MAX);
	read_word(in, w->type);
	read_word(in, w->unit);
	w->period = unpack_max(in, INT64_MAX);
	w->counts.base = unpack_u64(in);
	w->counts.taken = unpack_u64(in);
	for (int i = 0; i < WINDOW_LOST_REASONS; i++)
		w->counts.lost[i] = unpack_u64(in);
	return in->bad || !w->length_ms ? -EBADMSG : 0;
}

int window_peek(const void *bytes, size_t len, struct window *ret)
{
	struct unpack in = {bytes, (const uint8_t *)bytes + len, false};
	struct window w = {};

	int r = read_fixed(&in, &w);
	if (!r)
		*ret = w;
	return r;
}

bool window_type_is_state(const char *type)
{
	static const char *const states[] = {"inuse_space", "inuse_objects", "goroutine",
					     "goroutines", "threadcreate"};
	const char *sample = strchr(type, ':'); /* the second part of five */
	size_t len = sample ? strcspn(++sample, ":") : 0;

	for (size_t i = 0; len && i < ARRAY_SIZE(states); i++)
		if (strlen(states[i]) == len && memcmp(sample, states[i], len) == 0)
			return true;
	return false;
}

static bool read_rows(struct unpack *in, const struct profile *dict, struct window *w)
{
	uint64_t series = 0;
	int64_t stack = 0;

	w->row_count = (uint32_t)unpack_max(in, MIN(WINDOW_ROWS_MAX, (size_t)(in->end - in->at)));
	w->rows = mem_alloc_array(w->row_count + 1, sizeof(*w->rows));
	for (uint32_t i = 0; i < w->row_count; i++) {
		uint64_t step = unpack_max(in, UINT32_MAX);
		int64_t move = unpack_i64(in);
		uint64_t count = unpack_max(in, UINT32_MAX);
		uint64_t value = count * w->period + (uint64_t)unpack_i64(in);
		series += step;
		if (in->bad || move > UINT32_MAX || move < -(int64_t)UINT32_MAX || !count)
			return false;
		stack += move;
		if (series >= dict->series_count || stack < 0 || stack >= dict->stack_count)
			return false;
		if (i && !step && move <= 0)
			return false; /* out of order, or twice */
		w->rows[i] = (struct window_row){(uint32_t)series, (uint32_t)stack, count, value};
		w->time_count += count;
	}
	return !in->bad;
}

static bool read_times(struct unpack *in, struct window *w)
{
	uint32_t slots = (w->length_ms + WINDOW_STEP_MS - 1) / WINDOW_STEP_MS;

	if (!unpack_max(in, 1)) {
		w->time_count = 0;
		return !in->bad;
	}
	if (w->time_count > SAMPLES_MAX || w->time_count > (size_t)(in->end - in->at))
		return false;
	w->times = mem_alloc_array(w->time_count + 1, sizeof(*w->times));
	uint16_t *t = w->times;
	for (uint32_t i = 0; i < w->row_count; i++) {
		uint64_t at = 0;
		for (uint64_t n = w->rows[i].count; n; n--) {
			at += unpack_max(in, UINT16_MAX);
			if (in->bad || at >= slots)
				return false;
			*t++ = (uint16_t)at;
		}
	}
	return true;
}

static bool read_metrics(struct unpack *in, struct window *w)
{
	uint32_t count = (uint32_t)unpack_max(in, WINDOW_METRICS_MAX);

	w->metrics = mem_alloc_array(count + 1, sizeof(*w->metrics));
	for (uint32_t i = 0; i < count; i++) {
		size_t len;
		const char *name = unpack_str(in, METRIC_MAX, &len);
		const void *value = unpack_raw(in, sizeof(double));
		if (in->bad)
			return false;
		w->metrics[i].name = mem_strndup(name, len);
		memcpy(&w->metrics[i].value, value, sizeof(double));
		w->metric_count++;
	}
	return !in->bad;
}

static int span_row_order(const void *a, const void *b)
{
	const struct window_span_row *x = a, *y = b;

	if (x->series != y->series)
		return x->series < y->series ? -1 : 1;
	if (x->stack != y->stack)
		return x->stack < y->stack ? -1 : 1;
	return (x->span > y->span) - (x->span < y->span);
}

uint32_t window_sort_spans(struct window_span_row *rows, uint32_t count)
{
	uint32_t kept = 0;

	qsort(rows, count, sizeof(*rows), span_row_order);
	for (uint32_t i = 0; i < count; i++) {
		if (kept && span_row_order(&rows[kept - 1], &rows[i]) == 0) {
			rows[kept - 1].count += rows[i].count;
			rows[kept - 1].value += rows[i].value;
		} else {
			rows[kept++] = rows[i];
		}
	}
	return kept;
}

uint32_t window_cut_spans(const struct window *w, uint32_t from, struct window *ret)
{
	uint32_t count = MIN(w->span_row_count - from, (uint32_t)WINDOW_SPANS_MAX);
	CLEANUP(freep) uint32_t *place = mem_alloc_array(w->span_count + 1, sizeof(*place));

	*ret = (struct window){
		.start_ms = w->start_ms,
		.length_ms = w->length_ms,
		.period = w->period,
		.spans = mem_alloc_array(count, sizeof(*ret->spans)),
		.span_rows = mem_dup(w->span_rows + from, count * sizeof(*ret->span_rows)),
		.span_row_count = count,
	};
	memcpy(ret->type, w->type, sizeof(ret->type));
	memcpy(ret->unit, w->unit, sizeof(ret->unit));
	for (uint32_t i = 0; i < count; i++) {
		uint32_t *at = &place[ret->span_rows[i].span];
		if (!*at) {
			ret->spans[ret->span_count++] = w->spans[ret->span_rows[i].span];
			*at = ret->span_count;
		}
		ret->span_rows[i].span = *at - 1;
	}
	return from + count;
}

bool window_read_spans(struct unpack *in, struct window *w)
{
	int64_t series = 0, stack = 0;

	w->span_count = (uint32_t)unpack_max(in, WINDOW_SPANS_MAX);
	const void *spans = unpack_raw(in, w->span_count * sizeof(*w->spans));
	w->span_row_count = (uint32_t)unpack_max(in, WINDOW_SPANS_MAX);
	if (in->bad || !w->span_row_count) {
		w->span_count = w->span_row_count = 0;
		return false;
	}
	w->spans = mem_dup(spans, w->span_count * sizeof(*w->spans));
	w->span_rows = mem_alloc_array(w->span_row_count, sizeof(*w->span_rows));
	for (uint32_t i = 0; i < w->span_row_count && !in->bad; i++) {
		struct window_span_row *r = &w->span_rows[i];
		series += (int64_t)unpack_max(in, UINT32_MAX);
		int64_t move = unpack_i64(in);
		stack += MAX(MIN(move, (int64_t)UINT32_MAX), -(int64_t)UINT32_MAX);
		r->span = (uint32_t)unpack_max(in, UINT32_MAX);
		r->count = unpack_max(in, UINT32_MAX);
		r->value = r->count * w->period + (uint64_t)unpack_i64(in);
		r->series = (uint32_t)series;
		r->stack = (uint32_t)stack;
		if (series > UINT32_MAX || stack < 0 || stack > UINT32_MAX || !r->count ||
		    r->span >= w->span_count || (i && span_row_order(r - 1, r) >= 0))
			return false;
	}
	return !in->bad;
}

/* The same; and what they refer to is there. */
static bool read_spans(struct unpack *in, const struct profile *dict, struct window *w)
{
	if (in->at == in->end)
		return true;
	if (!window_read_spans(in, w) || in->at != in->end)
		return false;
	for (uint32_t i = 0; i < w->span_row_count; i++)
		if (w->span_rows[i].series >= dict->series_count ||
		    w->span_rows[i].stack >= dict->stack_count)
			return false;
	return true;
}

/* Older collectors end before them, and those that found nothing. */
static bool read_findings(struct unpack *in, struct window *w)
{
	if (in->at == in->end)
		return true;
	uint32_t count = (uint32_t)unpack_max(in, FINDINGS_MAX);
	if (!count)
		return !in->bad && in->at != in->end; /* spans follow */
	w->findings = mem_alloc_array(count, sizeof(*w->findings));
	for (uint32_t i = 0; i < count && !in->bad; i++) {
		struct finding *f = &w->findings[w->finding_count++];
		finding_read(in, f);
		memcpy(f->instance, w->instance, sizeof(f->instance));
	}
	return !in->bad;
}

static int read_body(struct unpack *in, struct profile *dict, struct window *w)
{
	int r = read_fixed(in, w);
	if (r)
		return r;

	size_t entries = unpack_max(in, (size_t)(in->end - in->at));
	const uint8_t *at = unpack_raw(in, entries);
	if (in->bad)
		return -EBADMSG;
	struct unpack inner = {at, at + entries, false};
	r = entries_read(dict, &inner);
	if (r)
		return r;
	if (inner.at != inner.end)
		return -EBADMSG;
	return read_rows(in, dict, w) && read_times(in, w) && read_metrics(in, w) &&
			       read_findings(in, w) && read_spans(in, dict, w)
		       ? 0
		       : -EBADMSG;
}

int window_read(const void *bytes, size_t len, struct profile *dict, struct window *ret)
{
	struct unpack in = {bytes, (const uint8_t *)bytes + len, false};
	struct window w = {};
	int r = read_body(&in, dict, &w);

	if (r)
		window_done(&w);
	else
		*ret = w;
	return r;
}

void window_done(struct window *w)
{
	for (uint32_t i = 0; i < w->metric_count; i++)
		free((char *)w->metrics[i].name);
	free(w->metrics);
	free(w->findings);
	free(w->spans);
	free(w->span_rows);
	free(w->rows);
	free(w->times);
	*w = (struct window){};
}

struct window_metric *window_copy_metrics(const struct window *w)
{
	struct window_metric *ret =
		w->metric_count ? mem_alloc_array(w->metric_count, sizeof(*ret)) : NULL;

	for (uint32_t i = 0; i < w->metric_count; i++)
		ret[i] =
			(struct window_metric){mem_strdup(w->metrics[i].name), w->metrics[i].value};
	return ret;
}

void window_reply_write(const struct window_reply *r, struct pack *out)
{
	write_head(out, reply_magic, r->instance, r->sequence, r->part);
	pack_u64(out, r->status);
	pack_u64(out, r->live_until_ms);
	pack_u64(out, r->flush);
	pack_u64(out, 0); /* a former control */
	pack_str(out, r->reason, strlen(r->reason));
}

int window_reply_read(const void *bytes, size_t len, struct window_reply *ret)
{
	struct unpack in = {bytes, (const uint8_t *)bytes + len, false};
	struct window_reply r = {};
	size_t reason_len;

	int err = read_head(&in, reply_magic, r.instance, &r.sequence, &r.part);
	if (err)
		return err;
	r.status = (enum window_status)unpack_max(&in, WINDOW_REFUSED);
	r.live_until_ms = unpack_u64(&in);
	r.flush = unpack_max(&in, 1);
	unpack_u64(&in);
	const char *s = unpack_str(&in, sizeof(r.reason) - 1, &reason_len);
	memcpy(r.reason, s, reason_len);
	if (in.bad || in.at != in.end)
		return -EBADMSG;
	*ret = r;
	return 0;
}
