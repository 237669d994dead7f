#include "serve/inbox.h"

#include <errno.h>
#include <sys/random.h>
#define XXH_INLINE_ALL
#include <xxhash.h>

#include "base/clock.h"
#include "base/index.h"
#include "base/text.h"

#define DAY_MS     86400000ull
#define LABELS_MAX (PUSHED_LABELS_MAX + 16) /* of a series */

struct counted_type {
	char type[WINDOW_TYPE_MAX];
	struct window_counts counts;
};

struct inbox {
	struct store *store;
	uint8_t instance[16];
	uint64_t sequence;
	struct counted_type types[INBOX_TYPES_MAX];
	/* The series of a day, by the hash of their labels; the first is not used. */
	uint64_t series[INBOX_SERIES_MAX + 1];
	uint32_t own; /* of those, with labels of samples */
	struct index by_hash;
	uint64_t day;
	struct inbox_stats stats;
};

struct inbox *inbox_new(struct store *store)
{
	struct inbox *in = mem_alloc(sizeof(*in));
	uint64_t now = clock_ns(CLOCK_REALTIME);

	in->store = store;
	if (getrandom(in->instance, sizeof(in->instance), 0) != sizeof(in->instance))
		memcpy(in->instance, &now, sizeof(now));
	return in;
}

void inbox_free(struct inbox *in)
{
	if (!in)
		return;
	index_done(&in->by_hash);
	free(in);
}

void inbox_stats(const struct inbox *in, struct inbox_stats *ret)
{
	*ret = in->stats;
}

/* ---- series -------------------------------------------------------------------------------- */

static void begin_day(struct inbox *in, uint64_t now_ms)
{
	if (in->day == now_ms / DAY_MS)
		return;
	in->day = now_ms / DAY_MS;
	in->stats.series = in->own = 0;
	index_clear(&in->by_hash);
}

/* Of all labels, in whatever order they come. */
static uint64_t hash_of(const struct profile *p, const struct label *labels, uint32_t count)
{
	uint64_t sum = 0;

	for (uint32_t i = 0; i < count; i++) {
		uint64_t key = XXH3_64bits(profile_str(p, labels[i].key),
					   profile_str_len(p, labels[i].key));
		sum += XXH3_64bits_withSeed(profile_str(p, labels[i].value),
					    profile_str_len(p, labels[i].value), key);
	}
	return sum;
}

/* Whether there is room for the series; then it is remembered. */
static bool take_series(struct inbox *in, uint64_t hash, bool own)
{
	uint32_t id;

	INDEX_EACH(&in->by_hash, (uint32_t)hash, id)
		if (in->series[id] == hash)
			return true;
	if (in->stats.series == INBOX_SERIES_MAX || (own && in->own == INBOX_SERIES_MAX / 2))
		return false;
	in->own += own;
	in->series[++in->stats.series] = hash;
	index_put(&in->by_hash, (uint32_t)hash, in->stats.series);
	return true;
}

static bool parse_id(const struct profile *p, const struct label *l, const char *name, uint8_t *ret,
		     size_t len)
{
	uint8_t id[16];

	if (strcmp(profile_str(p, l->key), name) != 0 ||
	    !text_parse_hex_bytes(profile_str(p, l->value), profile_str_len(p, l->value), id, len))
		return false;
	memcpy(ret, id, len);
	return true;
}

/* The span that the labels of a sample name. */
static bool find_span(const struct profile *p, uint32_t series, struct window_span *ret)
{
	const struct series *s = &p->series[series];
	bool found = false;

	*ret = (struct window_span){};
	for (uint32_t i = 0; i < s->count; i++) {
		found |= parse_id(p, &s->labels[i], STORE_SPAN, ret->span, sizeof(ret->span));
		parse_id(p, &s->labels[i], STORE_TRACE, ret->trace, sizeof(ret->trace));
	}
	return found;
}

static bool is_about_span(const char *name)
{
	return strcmp(name, STORE_SPAN) == 0 || strcmp(name, STORE_TRACE) == 0;
}

/*
 * The labels of the profile, and those of the samples that have other names; if those are in a
 * span, without its ids.
 */
static uint32_t all_labels(const struct pushed_profile *of, uint32_t series, bool in_span,
			   struct label to[static LABELS_MAX])
{
	struct profile *p = of->p;
	uint32_t count = 0;

	for (uint32_t i = 0; i < of->labels.count; i++) {
		const struct pushed_label *l = &of->labels.all[i];
		to[count++] = (struct label){profile_string(p, l->name, strlen(l->name)),
					     profile_string(p, l->value, strlen(l->value))};
	}
	for (uint32_t i = 0; i < p->series[series].count && count < LABELS_MAX; i++) {
		const struct label *l = &p->series[series].labels[i];
		const char *name = profile_str(p, l->key);
		if (!pushed_label_value(&of->labels, name) && !(in_span && is_about_span(name)))
			to[count++] = *l;
	}
	return count;
}

struct stored_as { /* what a series of a profile is stored as */
	uint32_t series;
	uint32_t span; /* 1 + its index among those of the window; 0: in none */
	bool cut;      /* not all of its labels are there */
};

/*
 * By series of the profile, whose spans become the window's. From malloc; NULL: there are too many.
 * What is not stored has left nothing but the memory of its labels.
 */
static struct stored_as *store_series(struct inbox *in, struct pushed_profile *of, struct window *w)
{
	uint32_t count = of->p->series_count;
	CLEANUP(freep) struct stored_as *as = mem_alloc_array(count, sizeof(*as));
	struct label labels[LABELS_MAX];

	uint32_t base_count = of->labels.count;
	all_labels(of, 0, false, labels);
	if (!take_series(in, hash_of(of->p, labels, base_count), false))
		return NULL;
	uint32_t base = profile_series(of->p, labels, base_count);
	w->spans = mem_alloc_array(count, sizeof(*w->spans));
	for (uint32_t s = 0; s < count; s++) {
		bool in_span = find_span(of->p, s, &w->spans[w->span_count]);
		uint32_t n = all_labels(of, s, in_span, labels);
		as[s] = (struct stored_as){
			.series = base,
			.span = in_span ? ++w->span_count : 0,
			.cut = n == LABELS_MAX,
		};
		if (n == base_count)
			continue;
		if (take_series(in, hash_of(of->p, labels, n), true))
			as[s].series = profile_series(of->p, labels, n);
		else
			as[s].cut = true;
	}
	return TAKE_PTR(as);
}

/* ---- storing ------------------------------------------------------------------------------- */

static struct counted_type *find_type(struct inbox *in, const char *type)
{
	for (uint32_t i = 0; i < in->stats.types; i++)
		if (strcmp(in->types[i].type, type) == 0)
			return &in->types[i];
	if (in->stats.types == INBOX_TYPES_MAX)
		return NULL;
	struct counted_type *t = &in->types[in->stats.types++];
	snprintf(t->type, sizeof(t->type), "%s", type);
	return t;
}

static uint64_t scaled(uint64_t value, double scale)
{
	double v = (double)value * scale;

	return scale == 0 ? value : v < (double)INT64_MAX ? (uint64_t)(v + 0.5) : INT64_MAX;
}

static int row_order(const void *a, const void *b)
{
	const struct window_row *x = a, *y = b;

	return x->series != y->series ? (x->series > y->series) - (x->series < y->series)
				      : (x->stack > y->stack) - (x->stack < y->stack);
}

/* Sorted, each pair once; a sample counts once, whatever it is worth, unless samples are counted.
 */
static void make_rows(const struct pushed_profile *of, const struct stored_as *as, struct window *w,
		      uint64_t *ret_cut, uint64_t *ret_spans_left_out)
{
	bool counts = strcmp(of->parts.unit, "nanoseconds") == 0 || of->scale != 0 ||
		      strcmp(of->parts.sample_type, "samples") == 0;
	const struct profile *p = of->p;
	uint32_t n = 0;

	w->rows = mem_alloc_array((size_t)p->sample_count + 1, sizeof(*w->rows));
	w->span_rows =
		mem_alloc_array(MIN(p->sample_count, INBOX_SPANS_MAX) + 1, sizeof(*w->span_rows));
	*ret_cut = *ret_spans_left_out = 0;
	for (uint32_t i = 0; i < p->sample_count; i++) {
		const struct sample *s = &p->samples[i];
		struct pushed_before b = of->before ? of->before[i] : (struct pushed_before){};
		uint64_t value = s->value - MIN(b.value, s->value);
		uint64_t count = s->count - MIN(b.count, s->count);
		if (!value)
			continue;
		count = counts ? MIN(MAX(count, 1u), UINT32_MAX) : 1;
		const struct stored_as *to = &as[s->series];
		value = scaled(value, of->scale);
		w->rows[w->row_count++] = (struct window_row){to->series, s->stack, count, value};
		*ret_spans_left_out += to->span && w->span_row_count == INBOX_SPANS_MAX;
		if (to->span && w->span_row_count < INBOX_SPANS_MAX)
			w->span_rows[w->span_row_count++] = (struct window_span_row){
				to->series, s->stack, to->span - 1, count, value};
		*ret_cut += to->cut ? count : 0;
	}
	w->span_row_count = window_sort_spans(w->span_rows, w->span_row_count);
	qsort(w->rows, w->row_count, sizeof(*w->rows), row_order);
	for (uint32_t i = 0; i < w->row_count; i++) {
		if (n && row_order(&w->rows[n - 1], &w->rows[i]) == 0) {
			w->rows[n - 1].count += w->rows[i].count;
			w->rows[n - 1].value += w->rows[i].value;
		} else {
			w->rows[n++] = w->rows[i];
		}
	}
	w->row_count = n;
}

/* In parts of at most WINDOW_ROWS_MAX rows. What a failure leaves out is counted as lost. */
static int append_parts(struct inbox *in, struct pushed_profile *of, struct window *w,
			struct counted_type *t, uint64_t now_ms, struct store_error *err)
{
	struct window_row *rows = w->rows;
	uint32_t left = w->row_count;
	int r = 0;

	do {
		uint64_t samples = 0;
		w->rows = rows + (w->row_count - left);
		struct window one = *w;
		one.span_row_count = 0;
		one.row_count = MIN(left, WINDOW_ROWS_MAX);
		for (uint32_t i = 0; i < one.row_count; i++)
			samples += one.rows[i].count;
		one.counts = t->counts;
		one.counts.taken += samples;
		r = store_append(in->store, of->p, &one, now_ms, err);
		if (r && w->part == 0)
			break; /* nothing of it was taken */
		t->counts.taken += samples;
		if (r)
			t->counts.lost[WINDOW_LOST_REFUSED] += samples;
		else
			in->stats.samples += samples;
		left -= one.row_count;
		w->part++;
	} while (left && !r);
	w->rows = rows;
	return r;
}

/* Which spans the rows of a window belong to: in messages of their own. */
static void append_spans(struct inbox *in, struct pushed_profile *of, struct window *w,
			 uint64_t now_ms)
{
	struct store_error err = {};
	struct window part;

	for (uint32_t at = 0, next; at < w->span_row_count; at = next) {
		next = window_cut_spans(w, at, &part);
		memcpy(part.instance, w->instance, sizeof(part.instance));
		part.sequence = ++in->sequence;
		part.epoch = w->epoch;
		if (store_append(in->store, of->p, &part, now_ms, &err) != 0)
			in->stats.spans_left_out += next - at;
		window_done(&part);
	}
}

/* The windows that a profile becomes: where the first begins, and how many there are. */
static uint32_t windows_of(const struct pushed_profile *of, uint64_t *ret_start_ms)
{
	uint64_t from = of->start_ms, to = from + of->length_ms;

	*ret_start_ms = from;
	if (!window_type_is_state(of->type))
		return 1;
	from = MAX(from, MAX(of->holds_since_ms, to - MIN(to, INBOX_HOLDS_MS)));
	uint64_t first = (from + WINDOW_MS - 1) / WINDOW_MS, end = (to + WINDOW_MS - 1) / WINDOW_MS;
	*ret_start_ms = first * WINDOW_MS;
	if (end <= first && of->holds_since_ms)
		return 0; /* another one has that window */
	if (end <= first) {
		*ret_start_ms = from / WINDOW_MS * WINDOW_MS;
		return 1;
	}
	return (uint32_t)(end - first);
}

static int append(struct inbox *in, struct pushed_profile *of, uint64_t now_ms,
		  struct store_error *err)
{
	uint64_t cut, spans_left_out, start_ms;
	uint32_t windows = windows_of(of, &start_ms);
	int r = 0;

	CLEANUP(window_done)
	struct window w = {
		.epoch = (uint32_t)in->sequence + 1, /* each has a dictionary of its own */
		.length_ms = window_type_is_state(of->type) ? WINDOW_MS : of->length_ms,
	};
	CLEANUP(freep) struct stored_as *as = store_series(in, of, &w);
	if (!as)
		return -EDQUOT;
	struct counted_type *t = find_type(in, of->type);
	if (!t)
		return -ENOBUFS;
	memcpy(w.instance, in->instance, sizeof(w.instance));
	snprintf(w.type, sizeof(w.type), "%s", of->type);
	snprintf(w.unit, sizeof(w.unit), "%s", of->unit);
	make_rows(of, as, &w, &cut, &spans_left_out);
	for (uint32_t i = 0; i < windows && !r; i++) {
		w.start_ms = start_ms + (uint64_t)i * WINDOW_MS;
		w.sequence = ++in->sequence;
		w.part = 0;
		r = append_parts(in, of, &w, t, now_ms, err);
		if (!r)
			append_spans(in, of, &w, now_ms);
	}
	if (r)
		return r;
	in->stats.profiles++;
	in->stats.labels_left_out += cut;
	in->stats.spans_left_out += spans_left_out;
	in->stats.cut += of->p->info.truncated + of->p->info.capped;
	return 0;
}

static void refuse(struct pushed *p, int r, const struct store_error *err)
{
	if (r == -EDQUOT)
		pushed_refuse(p, 429, "series",
			      "there are %u different sets of labels already today, which is all "
			      "that this server takes: give profiles fewer labels",
			      INBOX_SERIES_MAX);
	else if (r == -ENOBUFS)
		pushed_refuse(p, 429, "types",
			      "there are %u types of profiles already, which is all that this "
			      "server takes",
			      INBOX_TYPES_MAX);
	else if (r == -ERANGE)
		pushed_refuse(p, 400, "time", "the profile is not stored: %s", err->text);
	else
		pushed_refuse(p, 503, "store", "the profile cannot be stored now: %s",
			      *err->text ? err->text : strerror(-r));
}

/* All of them, or as many as can be: then the answer says so, and must not be tried again. */
static void store_all(struct inbox *in, struct pushed *all, uint64_t now_ms)
{
	struct store_error err = {};

	begin_day(in, now_ms);
	for (uint32_t i = 0; i < all->count; i++) {
		int r = append(in, all->all[i], now_ms, &err);
		if (r && i)
			pushed_refuse(all, 500, "store",
				      "%u of %u profiles are stored, the others not: %s", i,
				      all->count,
				      *err.text ? err.text : "there are too many series");
		else if (r)
			refuse(all, r, &err);
		if (r)
			return;
	}
}

static void count_refused(struct inbox_stats *s, const char *reason)
{
	for (size_t i = 0; i < INBOX_REASONS; i++) {
		s->refused[i].reason = s->refused[i].reason ? s->refused[i].reason : reason;
		if (strcmp(s->refused[i].reason, reason) == 0) {
			s->refused[i].count++;
			return;
		}
	}
}

bool inbox_take(struct inbox *in, struct pushed *p, uint64_t now_ms)
{
	if (!p->status)
		store_all(in, p, now_ms);
	in->stats.accumulated += p->accumulated;
	in->stats.skipped += p->skipped;
	in->stats.long_labels += p->long_labels;
	if (p->status)
		count_refused(&in->stats, p->reason);
	else
		in->stats.stored++;
	return !p->status;
}

/* ---- metrics ------------------------------------------------------------------------------- */

struct line { /* of taken things */
	const char *name, *help;
	double value;
};

static void put_line(struct exposition *e, const struct inbox_words *w, const struct line *l,
		     bool is_counter)
{
	CLEANUP(freep) char *name = mem_printf("%s_%s", w->taken, l->name);
	CLEANUP(freep) char *help = mem_printf("Of what was %s: %s", w->taken, l->help);

	if (is_counter)
		exposition_counter(e, name, help, l->value);
	else
		exposition_gauge(e, name, help, l->value);
}

void inbox_metrics(const struct inbox_stats *s, const struct inbox_words *w, struct exposition *e)
{
	const struct line counters[] = {
		{"profiles", "profiles stored.", (double)s->profiles},
		{"samples", "samples stored.", (double)s->samples},
		{"samples_without_labels",
		 "samples stored without labels of their own, because there were too many sets of "
		 "labels.",
		 (double)s->labels_left_out},
		{"spans_left_out",
		 "sums whose span of a trace is not stored: too many, or a failure.",
		 (double)s->spans_left_out},
		{"samples_cut",
		 "samples whose stack was shortened, because it or the profile was too large.",
		 (double)s->cut},
		{"lines_skipped", "lines of text that were not understood.", (double)s->skipped},
		{"labels_left_out", "attributes left out: too long, or too many.",
		 (double)s->long_labels},
		{"types_accumulated",
		 "sample types left out, because they were sums since a program's start.",
		 (double)s->accumulated},
	};
	const struct line gauges[] = {
		{"series", "sets of labels today.", (double)s->series},
		{"types", "types of profiles.", (double)s->types},
	};
	CLEANUP(freep) char *stored = mem_printf("%s_stored", w->times);
	CLEANUP(freep) char *help = mem_printf("How many %s were stored.", w->times);
	CLEANUP(freep) char *by_why = mem_printf("How many %s were not, by why.", w->times);

	exposition_counter(e, stored, help, (double)s->stored);
	exposition_counters(e, w->failed, by_why);
	for (size_t i = 0; i < INBOX_REASONS && s->refused[i].reason; i++)
		exposition_value(e, "reason", s->refused[i].reason, (double)s->refused[i].count);
	for (size_t i = 0; i < ARRAY_SIZE(counters); i++)
		put_line(e, w, &counters[i], true);
	for (size_t i = 0; i < ARRAY_SIZE(gauges); i++)
		put_line(e, w, &gauges[i], false);
}
