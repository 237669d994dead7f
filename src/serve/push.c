/*
 * push: takes the profiles that programs push.
 *
 * A job reads a request into profiles (ingest/pushed.h), on a thread of its own, so that queries
 * wait for no push nor pushes for a query. Then, in the loop, they are stored as windows of one
 * instance, this server: their counts say exactly what was taken and what was lost.
 *
 * Each new set of labels is a series, and those of a day are limited. Beyond that samples lose the
 * labels of their own, as long as the profile's are known; else the request is refused with 429.
 * Samples' own labels may use up only half of the limit, so that they never keep out a program.
 */
#include <errno.h>
#include <sys/random.h>
#define XXH_INLINE_ALL
#include <xxhash.h>

#include "base/clock.h"
#include "base/index.h"
#include "base/mem.h"
#include "ingest/otlp.h"
#include "ingest/pyroscope.h"
#include "query/timerange.h"
#include "serve/gzip.h"
#include "serve/server_internal.h"

#define THREADS     1
#define WAITING     32
#define DEADLINE_MS 30000
#define DAY_MS      86400000ull
#define LABELS_MAX  (PUSHED_LABELS_MAX + 16) /* of a series */

struct counted_type {
	char type[WINDOW_TYPE_MAX];
	struct window_counts counts;
};

struct pushes {
	struct server *server;
	struct jobs *jobs;
	uint8_t instance[16];
	uint64_t sequence;
	struct counted_type types[PUSH_TYPES_MAX];
	/* The series of a day, by the hash of their labels; the first is not used. */
	uint64_t series[PUSH_SERIES_MAX + 1];
	uint32_t own; /* of those, with labels of samples */
	struct index by_hash;
	uint64_t day;
	struct push_stats stats;
};

struct push {
	struct job job;
	struct server *server;
	struct http_request *request;
	bool (*read)(struct push *p, const void *body, size_t len);
	struct pushed pushed;
	struct pushed_about about; /* of pprof alone; its labels are these */
	struct pushed_labels labels;
	struct pyroscope_ingest pyroscope;
	bool is_json, is_packed;
	uint64_t now_ms;
};

struct pushes *pushes_new(struct server *s)
{
	struct pushes *p = mem_alloc(sizeof(*p));

	p->server = s;
	p->jobs = jobs_new(s->loop, THREADS, WAITING);
	if (getrandom(p->instance, sizeof(p->instance), 0) != sizeof(p->instance))
		memcpy(p->instance, &s->started_ms, sizeof(s->started_ms));
	return p;
}

void pushes_free(struct pushes *p)
{
	if (!p)
		return;
	jobs_free(p->jobs);
	index_done(&p->by_hash);
	free(p);
}

void push_stats(const struct pushes *p, struct push_stats *ret)
{
	*ret = p->stats;
}

/* ---- series -------------------------------------------------------------------------------- */

static void begin_day(struct pushes *p, uint64_t now_ms)
{
	if (p->day == now_ms / DAY_MS)
		return;
	p->day = now_ms / DAY_MS;
	p->stats.series = p->own = 0;
	index_clear(&p->by_hash);
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
static bool take_series(struct pushes *p, uint64_t hash, bool own)
{
	uint32_t id;

	INDEX_EACH(&p->by_hash, (uint32_t)hash, id)
		if (p->series[id] == hash)
			return true;
	if (p->stats.series == PUSH_SERIES_MAX || (own && p->own == PUSH_SERIES_MAX / 2))
		return false;
	p->own += own;
	p->series[++p->stats.series] = hash;
	index_put(&p->by_hash, (uint32_t)hash, p->stats.series);
	return true;
}

/* The labels of the profile, and those of the samples that have other names. */
static uint32_t all_labels(const struct pushed_profile *of, uint32_t series,
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
		if (!pushed_label_value(&of->labels, profile_str(p, l->key)))
			to[count++] = *l;
	}
	return count;
}

struct stored_as { /* what a series of a profile is stored as */
	uint32_t series;
	bool cut; /* not all of its labels are there */
};

/*
 * By series of the profile. From malloc; NULL: there are too many. What is not stored has left
 * nothing but the memory of its labels.
 */
static struct stored_as *store_series(struct pushes *p, struct pushed_profile *of)
{
	uint32_t count = of->p->series_count;
	CLEANUP(freep) struct stored_as *as = mem_alloc_array(count, sizeof(*as));
	struct label labels[LABELS_MAX];

	uint32_t base_count = of->labels.count;
	all_labels(of, 0, labels);
	if (!take_series(p, hash_of(of->p, labels, base_count), false))
		return NULL;
	uint32_t base = profile_series(of->p, labels, base_count);
	for (uint32_t s = 0; s < count; s++) {
		uint32_t n = all_labels(of, s, labels);
		as[s] = (struct stored_as){base, n == LABELS_MAX};
		if (n == base_count)
			continue;
		if (take_series(p, hash_of(of->p, labels, n), true))
			as[s].series = profile_series(of->p, labels, n);
		else
			as[s].cut = true;
	}
	return TAKE_PTR(as);
}

/* ---- storing ------------------------------------------------------------------------------- */

static struct counted_type *find_type(struct pushes *p, const char *type)
{
	for (uint32_t i = 0; i < p->stats.types; i++)
		if (strcmp(p->types[i].type, type) == 0)
			return &p->types[i];
	if (p->stats.types == PUSH_TYPES_MAX)
		return NULL;
	struct counted_type *t = &p->types[p->stats.types++];
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
		      uint64_t *ret_cut)
{
	bool counts = strcmp(of->parts.unit, "nanoseconds") == 0 || of->scale != 0 ||
		      strcmp(of->parts.sample_type, "samples") == 0;
	const struct profile *p = of->p;
	uint32_t n = 0;

	w->rows = mem_alloc_array((size_t)p->sample_count + 1, sizeof(*w->rows));
	*ret_cut = 0;
	for (uint32_t i = 0; i < p->sample_count; i++) {
		const struct sample *s = &p->samples[i];
		uint64_t count = counts ? MIN(MAX(s->count, 1u), UINT32_MAX) : 1;
		if (!s->value)
			continue;
		w->rows[w->row_count++] = (struct window_row){as[s->series].series, s->stack, count,
							      scaled(s->value, of->scale)};
		*ret_cut += as[s->series].cut ? count : 0;
	}
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
static int append_parts(struct pushes *p, struct pushed_profile *of, struct window *w,
			struct counted_type *t, uint64_t now_ms, struct store_error *err)
{
	struct window_row *rows = w->rows;
	uint32_t left = w->row_count;
	int r = 0;

	do {
		uint64_t samples = 0;
		w->rows = rows + (w->row_count - left);
		struct window one = *w;
		one.row_count = MIN(left, WINDOW_ROWS_MAX);
		for (uint32_t i = 0; i < one.row_count; i++)
			samples += one.rows[i].count;
		one.counts = t->counts;
		one.counts.taken += samples;
		r = store_append(p->server->store, of->p, &one, now_ms, err);
		if (r && w->part == 0)
			break; /* nothing of it was taken */
		t->counts.taken += samples;
		if (r)
			t->counts.lost[WINDOW_LOST_REFUSED] += samples;
		else
			p->stats.samples += samples;
		left -= one.row_count;
		w->part++;
	} while (left && !r);
	w->rows = rows;
	return r;
}

static int append(struct pushes *p, struct pushed_profile *of, uint64_t now_ms,
		  struct store_error *err)
{
	uint64_t cut;

	CLEANUP(freep) struct stored_as *as = store_series(p, of);
	if (!as)
		return -EDQUOT;
	struct counted_type *t = find_type(p, of->type);
	if (!t)
		return -ENOBUFS;
	struct window w = {
		.sequence = ++p->sequence,
		.epoch = (uint32_t)p->sequence, /* each has a dictionary of its own */
		.start_ms = of->start_ms,
		.length_ms = of->length_ms,
	};
	memcpy(w.instance, p->instance, sizeof(w.instance));
	snprintf(w.type, sizeof(w.type), "%s", of->type);
	snprintf(w.unit, sizeof(w.unit), "%s", of->unit);
	make_rows(of, as, &w, &cut);
	int r = append_parts(p, of, &w, t, now_ms, err);
	free(w.rows);
	if (r)
		return r;
	p->stats.profiles++;
	p->stats.labels_left_out += cut;
	p->stats.cut += of->p->info.truncated + of->p->info.capped;
	return 0;
}

static void refuse(struct push *j, int r, const struct store_error *err)
{
	struct pushed *p = &j->pushed;

	if (r == -EDQUOT)
		pushed_refuse(p, 429, "series",
			      "there are %u different sets of labels already today, which is all "
			      "that this server takes: give profiles fewer labels",
			      PUSH_SERIES_MAX);
	else if (r == -ENOBUFS)
		pushed_refuse(p, 429, "types",
			      "there are %u types of profiles already, which is all that this "
			      "server takes",
			      PUSH_TYPES_MAX);
	else if (r == -ERANGE)
		pushed_refuse(p, 400, "time", "the profile is not stored: %s", err->text);
	else
		pushed_refuse(p, 503, "store", "the profile cannot be stored now: %s",
			      *err->text ? err->text : strerror(-r));
}

/* All of them, or as many as can be: then the answer says so, and must not be tried again. */
static void store_all(struct push *j)
{
	struct pushes *p = j->server->pushes;
	struct pushed *all = &j->pushed;
	struct store_error err = {};

	begin_day(p, j->now_ms);
	for (uint32_t i = 0; i < all->count; i++) {
		int r = append(p, all->all[i], j->now_ms, &err);
		if (r && i)
			pushed_refuse(all, 500, "store",
				      "%u of %u profiles are stored, the others not: %s", i,
				      all->count,
				      *err.text ? err.text : "there are too many series");
		else if (r)
			refuse(j, r, &err);
		if (r)
			return;
	}
}

static void count_refused(struct push_stats *s, const char *reason)
{
	for (size_t i = 0; i < PUSH_REASONS; i++) {
		s->refused[i].reason = s->refused[i].reason ? s->refused[i].reason : reason;
		if (strcmp(s->refused[i].reason, reason) == 0) {
			s->refused[i].count++;
			return;
		}
	}
}

/* ---- as a job ------------------------------------------------------------------------------ */

/* An empty message, as Connect and OTLP have it; who pushed in another way reads the status. */
static void answer(struct push *j)
{
	static const char json[] = "{}\n";
	bool is_proto = !j->is_json;

	http_answer(j->request, &(struct http_answer){
					.status = 200,
					.type = is_proto ? http_header(j->request, "Content-Type")
							 : "application/json",
					.body = is_proto ? NULL : mem_dup(json, sizeof(json) - 1),
					.len = is_proto ? 0 : sizeof(json) - 1,
				});
}

static void done(struct job *job)
{
	struct push *j = (struct push *)job;
	struct push_stats *stats = &j->server->pushes->stats;
	struct pushed *p = &j->pushed;

	if (job->end != JOB_DONE)
		pushed_refuse(p, 503, "busy", "the server is shutting down, or was too busy");
	if (!p->status)
		store_all(j);
	stats->accumulated += p->accumulated;
	stats->skipped += p->skipped;
	stats->long_labels += p->long_labels;
	if (p->status) {
		count_refused(stats, p->reason);
		http_fail(j->request, p->status, "%s", p->why);
	} else {
		stats->stored++;
		answer(j);
	}
	pushed_done(p);
	pushed_labels_done(&j->labels);
	free(j);
}

static void run(struct job *job)
{
	struct push *j = (struct push *)job;
	CLEANUP(freep) char *plain = NULL;
	size_t len;
	const void *body = http_body(j->request, &len);

	if (!job_goes_on(job))
		return;
	if (j->is_packed) {
		int r = gzip_unpack(body, len, PUSHED_BYTES_MAX, &plain, &len);
		if (r) {
			pushed_refuse(&j->pushed, r == -EFBIG ? 413 : 400,
				      r == -EFBIG ? "too_large" : "malformed",
				      r == -EFBIG ? "the body is larger than %u MB unpacked"
						  : "the body is not gzip, as its "
						    "Content-Encoding says, or was cut off",
				      PUSHED_BYTES_MAX >> 20);
			return;
		}
		body = plain;
	}
	if (!len)
		pushed_refuse(&j->pushed, 400, "malformed", "the body is empty");
	else
		j->read(j, body, len);
}

static struct push *new_push(void *ctx, struct http_request *r)
{
	const char *type = http_header(r, "Content-Type");
	struct push *j = mem_alloc(sizeof(*j));

	j->server = ctx;
	j->request = r;
	j->now_ms = clock_ms(CLOCK_REALTIME);
	j->is_json = type && strncmp(type, "application/json", strlen("application/json")) == 0;
	return j;
}

/* Hands it over, unless what it says of itself is wrong already. */
static void start(struct push *j)
{
	const char *packed = http_header(j->request, "Content-Encoding");
	struct pushed *p = &j->pushed;

	j->is_packed = packed && strcmp(packed, "gzip") == 0;
	if (!p->status && packed && *packed && !j->is_packed && strcmp(packed, "identity") != 0)
		pushed_refuse(p, 415, "malformed",
			      "the Content-Encoding %.40s is not taken; gzip is", packed);
	j->job = (struct job){.run = run,
			      .done = done,
			      .fd = -1,
			      .deadline_ms = clock_ms(CLOCK_MONOTONIC) + DEADLINE_MS};
	/* What is handed over is the thread's: not even its status is looked at. */
	if (!p->status && jobs_add(j->server->pushes->jobs, &j->job) == 0) {
		http_hold(j->request); /* its end comes through the loop, so not before this */
		return;
	}
	if (!p->status)
		pushed_refuse(p, 503, "busy", "too many profiles at once; send it again");
	done(&j->job);
}

/* ---- POST /api/v1/ingest: one pprof, whose labels are the parameters ----------------------- */

static bool read_pprof(struct push *j, const void *body, size_t len)
{
	return pushed_pprof(&j->pushed, body, len, &j->about);
}

static void take_moment(struct push *j, const char *name, const char *value, uint64_t *ret_ms)
{
	struct timerange_error err;

	if (timerange_moment(value, j->now_ms, ret_ms, &err) != 0)
		pushed_refuse(&j->pushed, 400, "malformed", "%s: %s", name, err.text);
}

static void take_param(void *ctx, const char *name, const char *value)
{
	struct push *j = ctx;
	struct pushed_about *about = &j->about;

	if (j->pushed.status)
		return;
	if (strcmp(name, "from") == 0)
		take_moment(j, name, value, &about->from_ms);
	else if (strcmp(name, "to") == 0)
		take_moment(j, name, value, &about->to_ms);
	else if (strcmp(name, "__name__") == 0)
		snprintf(about->type.name, sizeof(about->type.name), "%s", value);
	else
		pushed_label(&j->pushed, &j->labels, name, strlen(name), value, strlen(value));
}

void push_pprof(void *ctx, struct http_request *r)
{
	struct push *j = new_push(ctx, r);

	j->read = read_pprof;
	j->is_json = true; /* the answer */
	j->about = (struct pushed_about){.labels = &j->labels, .now_ms = j->now_ms};
	http_each_param(r, take_param, j);
	start(j);
}

/* ---- Pyroscope's and OpenTelemetry's clients ----------------------------------------------- */

static bool read_pyroscope(struct push *j, const void *body, size_t len)
{
	return pyroscope_ingest(&j->pushed, &j->pyroscope, body, len, j->now_ms);
}

void push_pyroscope(void *ctx, struct http_request *r)
{
	struct push *j = new_push(ctx, r);

	j->read = read_pyroscope;
	j->is_json = true; /* the answer */
	j->pyroscope = (struct pyroscope_ingest){
		.name = http_param(r, "name"),
		.from = http_param(r, "from"),
		.until = http_param(r, "until"),
		.sample_rate = http_param(r, "sampleRate"),
		.units = http_param(r, "units"),
		.aggregation = http_param(r, "aggregationType"),
		.format = http_param(r, "format"),
		.content_type = http_header(r, "Content-Type"),
	};
	start(j);
}

static bool read_connect(struct push *j, const void *body, size_t len)
{
	return pyroscope_push(&j->pushed, body, len, j->is_json, j->now_ms);
}

static bool read_otlp(struct push *j, const void *body, size_t len)
{
	return otlp_read(&j->pushed, body, len, j->is_json, j->now_ms);
}

/* Of protobuf or JSON, whatever `proto` is called there. */
static void start_typed(struct push *j, const char *proto)
{
	const char *type = http_header(j->request, "Content-Type");

	if (!j->is_json && (!type || strncmp(type, proto, strlen(proto)) != 0))
		pushed_refuse(&j->pushed, 415, "malformed",
			      "the Content-Type is not %s or application/json", proto);
	start(j);
}

void push_connect(void *ctx, struct http_request *r)
{
	struct push *j = new_push(ctx, r);

	j->read = read_connect;
	start_typed(j, "application/proto");
}

void push_otlp(void *ctx, struct http_request *r)
{
	struct push *j = new_push(ctx, r);

	j->read = read_otlp;
	start_typed(j, "application/x-protobuf");
}
