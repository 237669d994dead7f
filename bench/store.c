/*
 * What the store costs: build/bench/store generate DIR DAYS busy|idle WINDOW.pb.gz...
 *                       build/bench/store query DIR
 *
 * generate makes a store of so many days from recorded windows of ten seconds, in order, again and
 * again. Every hour a program is another build of itself, of as many as it takes for a day to have
 * ENTRIES dictionary entries, and each day a fifth of those is new: its functions have other names,
 * and so its stacks are other stacks. An idle host has one build, the programs that are in every
 * window, and one in 100 of their samples. The times of
 * samples, which pprof files do not have, are drawn at random. It prints what appending cost, and
 * what lies on disk, beside the same windows as pprof files. query asks for hours, weeks and the
 * month and prints the worst of each.
 */
#include <errno.h>
#include <stdio.h>
#include <sys/resource.h>
#include <time.h>

#include "base/mem.h"
#include "ingest/ingest.h"
#include "query/tree.h"
#include "render/render.h"
#include "store/store.h"

#define DAY_MS  86400000ull
#define HOUR_MS 3600000ull
#define BEGIN   (20736 * DAY_MS) /* 2026-10-10 */

#define ENTRIES 120000

enum { BUILDS_MAX = 24, WINDOWS_MAX = 1000, HOURS_ASKED = 24, WEEKS_ASKED = 8 };

static double seconds(clockid_t clock)
{
	struct timespec t;

	clock_gettime(clock, &t);
	return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static uint64_t next(uint64_t *state)
{
	*state ^= *state << 13;
	*state ^= *state >> 7;
	*state ^= *state << 17;
	return *state >> 8;
}

struct recorded {
	struct profile *p[WINDOWS_MAX];
	int count;
};

static int load(struct recorded *r, char **paths, int count)
{
	struct ingest_options o = {};
	struct ingest_report report;

	for (int i = 0; i < count && i < WINDOWS_MAX; i++) {
		FILE *f = fopen(paths[i], "re");
		struct profile *p = profile_new();
		if (!f || ingest_read(f, &o, p, &report) < 0) {
			fprintf(stderr, "store: %s: cannot be read\n", paths[i]);
			return -1;
		}
		fclose(f);
		r->p[r->count++] = p;
	}
	return 0;
}

/* Whether a process is in other windows too: only those have a pid as a label. */
static bool lives_on(const struct recorded *r, int window, const char *pid)
{
	for (int i = 0; i < r->count; i++) {
		if (i == window)
			continue;
		for (uint32_t s = 1; s < r->p[i]->series_count; s++) {
			const char *other = profile_label(r->p[i], s, "pid");
			if (other && strcmp(other, pid) == 0)
				return true;
		}
	}
	return false;
}

/* Whether a program is in every window: those of an idle host are. */
static bool is_always_there(const struct recorded *r, const char *comm)
{
	for (int i = 0; i < r->count; i++) {
		bool here = false;
		for (uint32_t s = 1; s < r->p[i]->series_count && !here; s++) {
			const char *other = profile_label(r->p[i], s, "comm");
			here = other && strcmp(other, comm) == 0;
		}
		if (!here)
			return false;
	}
	return true;
}

/* The collector of the bench: recorded windows under its own dictionary. */
struct sender {
	const struct recorded *from;
	struct profile *dict;
	struct window w;
	uint64_t seed, samples, pprof_bytes, pprof_windows;
	int keep_one_in;
	unsigned builds;
	bool **long_lived, **wanted; /* by window and series */
	/* Rows of a recorded window are the same for an hour. */
	struct window_row *cached[WINDOWS_MAX];
	uint32_t cached_count[WINDOWS_MAX];
	uint64_t cached_hour[WINDOWS_MAX];
};

static uint32_t string(struct profile *to, const char *s)
{
	return profile_string(to, s, strlen(s));
}

static uint32_t map_series(struct sender *s, int window, uint32_t id)
{
	static const char *const keys[] = {"comm", "thread", "pid"};
	const struct profile *p = s->from->p[window];
	struct label labels[4];
	size_t n = 0;

	for (size_t k = 0; k < ARRAY_SIZE(keys); k++) {
		const char *value = profile_label(p, id, keys[k]);
		char folded[64];
		if (!value || (k == 2 && !s->long_lived[window][id]))
			continue;
		snprintf(folded, sizeof(folded), "%s", value);
		for (char *c = folded; k == 1 && *c; c++)
			if (*c >= '0' && *c <= '9')
				*c = '#';
		labels[n++] = (struct label){string(s->dict, keys[k]), string(s->dict, folded)};
	}
	labels[n++] = (struct label){string(s->dict, "host"), string(s->dict, "bench")};
	return profile_series(s->dict, labels, n);
}

/* A frame as a function, of a build of its program; the kernel and libraries have but one. */
static uint32_t map_frame(struct sender *s, const struct profile *p, uint32_t id, unsigned build)
{
	struct frame f = p->frames[id];
	const char *module = profile_str(p, p->modules[f.module].name);
	struct module m = {.name = string(s->dict, module),
			   .build_id =
				   string(s->dict, profile_str(p, p->modules[f.module].build_id))};
	char name[1100];
	bool shared = f.kind == FRAME_KERNEL || strstr(module, ".so") || module[0] == '[';

	snprintf(name, sizeof(name), shared || !build ? "%s" : "%s.%u", profile_str(p, f.name),
		 build);
	struct frame to = {.name = string(s->dict, name),
			   .module = f.module ? profile_module(s->dict, &m) : 0,
			   .kind = f.kind};
	return profile_frame(s->dict, &to);
}

static int row_order(const void *a, const void *b)
{
	const struct window_row *x = a, *y = b;

	if (x->series != y->series)
		return x->series < y->series ? -1 : 1;
	return (x->stack > y->stack) - (x->stack < y->stack);
}

/* Which build of itself a program runs in an hour. */
static unsigned build_at(const struct sender *s, uint64_t ms, const char *comm)
{
	uint64_t hour = ms / HOUR_MS, day = ms / DAY_MS;
	uint64_t program = (unsigned char)comm[0] * 5 + strlen(comm);
	uint64_t which = (hour + program) % s->builds;

	/* A fifth of the builds is of today. */
	return (unsigned)((which + program) % 5 == 0 ? 1000 + day * BUILDS_MAX + which : which);
}

static void make_rows(struct sender *s, int window, uint64_t start)
{
	const struct profile *p = s->from->p[window];
	struct window *w = &s->w;
	uint32_t n = 0;

	if (s->keep_one_in == 1 && s->cached_hour[window] == start / HOUR_MS) {
		w->rows = mem_resize_array(w->rows, s->cached_count[window] + 1, sizeof(*w->rows));
		w->row_count = s->cached_count[window];
		memcpy(w->rows, s->cached[window], w->row_count * sizeof(*w->rows));
		return;
	}
	w->rows = mem_resize_array(w->rows, p->sample_count + 1, sizeof(*w->rows));
	for (uint32_t i = 0; i < p->sample_count; i++) {
		const struct sample *from = &p->samples[i];
		const char *comm = profile_label(p, from->series, "comm");
		unsigned build = build_at(s, start, comm ? comm : "");
		uint32_t path[512], depth = 0, stack = 0;
		uint64_t count = 0;
		for (uint64_t k = 0; k < from->count; k++)
			count += !s->wanted[window][from->series]
					 ? 0
					 : s->keep_one_in == 1 ||
						   next(&s->seed) % s->keep_one_in == 0;
		if (!count)
			continue;
		for (uint32_t at = from->stack; at && depth < 512; at = p->stacks[at].parent)
			path[depth++] = p->stacks[at].frame;
		while (depth)
			stack = profile_stack(s->dict, stack,
					      map_frame(s, p, path[--depth], build));
		w->rows[n++] = (struct window_row){map_series(s, window, from->series), stack,
						   count, count * w->period};
	}
	qsort(w->rows, n, sizeof(*w->rows), row_order);
	w->row_count = 0;
	for (uint32_t i = 0; i < n; i++) {
		struct window_row *last = w->row_count ? &w->rows[w->row_count - 1] : NULL;
		if (last && row_order(last, &w->rows[i]) == 0) {
			last->count += w->rows[i].count;
			last->value += w->rows[i].value;
		} else {
			w->rows[w->row_count++] = w->rows[i];
		}
	}
	free(s->cached[window]);
	s->cached[window] = mem_dup(w->rows, w->row_count * sizeof(*w->rows));
	s->cached_count[window] = w->row_count;
	s->cached_hour[window] = start / HOUR_MS;
}

static int time_order(const void *a, const void *b)
{
	return *(const uint16_t *)a - *(const uint16_t *)b;
}

static void make_window(struct sender *s, int window, uint64_t start)
{
	struct window *w = &s->w;

	make_rows(s, window, start);
	w->start_ms = start;
	w->sequence++;
	w->time_count = 0;
	for (uint32_t i = 0; i < w->row_count; i++)
		w->time_count += w->rows[i].count;
	w->times = mem_resize_array(w->times, w->time_count + 1, sizeof(*w->times));
	uint16_t *t = w->times;
	for (uint32_t i = 0; i < w->row_count; i++) {
		for (uint64_t k = 0; k < w->rows[i].count; k++)
			t[k] = (uint16_t)(next(&s->seed) % (WINDOW_MS / WINDOW_STEP_MS));
		qsort(t, w->rows[i].count, sizeof(*t), time_order);
		t += w->rows[i].count;
	}
	w->counts.taken += w->time_count;
	s->samples += w->time_count;
}

/* The window as a pprof file: how large it is. */
static void measure_pprof(struct sender *s)
{
	struct profile *p = profile_new();
	struct render_options o = {};
	char *bytes = NULL;
	size_t len = 0;
	FILE *out = open_memstream(&bytes, &len);

	/* Only what the window uses, as a profile of its own. */
	for (uint32_t i = 0; i < s->w.row_count; i++) {
		const struct window_row *r = &s->w.rows[i];
		uint32_t path[512] = {0}, depth = 0, stack = 0;
		const struct series *from = &s->dict->series[r->series];
		struct label labels[8];
		for (uint32_t k = 0; k < from->count; k++)
			labels[k] = (struct label){
				string(p, profile_str(s->dict, from->labels[k].key)),
				string(p, profile_str(s->dict, from->labels[k].value))};
		for (uint32_t at = r->stack; at && depth < 512; at = s->dict->stacks[at].parent)
			path[depth++] = s->dict->stacks[at].frame;
		while (depth) {
			const struct frame *f = &s->dict->frames[path[--depth]];
			const struct module *m = &s->dict->modules[f->module];
			struct module to = {.name = string(p, profile_str(s->dict, m->name)),
					    .build_id =
						    string(p, profile_str(s->dict, m->build_id))};
			struct frame g = {.name = string(p, profile_str(s->dict, f->name)),
					  .module = f->module ? profile_module(p, &to) : 0,
					  .kind = f->kind};
			stack = profile_stack(p, stack, profile_frame(p, &g));
		}
		profile_add(p, profile_series(p, labels, from->count), stack, r->count, r->value);
	}
	p->info.type = "cpu";
	p->info.unit = "nanoseconds";
	p->info.period = s->w.period;
	render_pprof(p, &o, out);
	fclose(out);
	s->pprof_bytes += len;
	s->pprof_windows++;
	free(bytes);
	profile_free(p);
}

/* How many builds make ENTRIES: by the entries of all windows with one. */
static void choose_builds(struct sender *s)
{
	s->builds = 1;
	s->dict = profile_new();
	for (int i = 0; i < s->from->count; i++) {
		make_rows(s, i, BEGIN);
		s->cached_hour[i] = 0;
	}
	uint32_t entries = s->dict->stack_count + s->dict->frame_count + s->dict->series_count;
	s->builds = s->keep_one_in > 1 ? 1 : MIN((ENTRIES + entries - 1) / entries, BUILDS_MAX);
	profile_free(TAKE_PTR(s->dict));
	printf("entries_of_one_build %u\nbuilds %u\n", entries, s->builds);
}

static int generate(const char *dir, int days, bool idle, char **paths, int count)
{
	struct recorded r = {};
	struct store *st;
	struct store_error err;
	struct sender s = {.from = &r, .seed = 88172645463325252ull, .keep_one_in = idle ? 100 : 1};
	double append_cpu = 0, tend_cpu = 0, append_worst = 0, tend_worst = 0;
	uint64_t appended = 0;

	if (load(&r, paths, count) < 0)
		return 1;
	s.long_lived = mem_alloc_array((size_t)r.count, sizeof(*s.long_lived));
	s.wanted = mem_alloc_array((size_t)r.count, sizeof(*s.wanted));
	for (int i = 0; i < r.count; i++) {
		s.long_lived[i] = mem_alloc_array(r.p[i]->series_count, 1);
		s.wanted[i] = mem_alloc_array(r.p[i]->series_count, 1);
		for (uint32_t k = 1; k < r.p[i]->series_count; k++) {
			const char *pid = profile_label(r.p[i], k, "pid");
			const char *comm = profile_label(r.p[i], k, "comm");
			s.long_lived[i][k] = pid && lives_on(&r, i, pid);
			s.wanted[i][k] = !idle || (comm && is_always_there(&r, comm));
		}
	}
	struct store_options o = {.max_bytes = 1ull << 40, .retention_ms = 400 * DAY_MS};
	if (store_open(dir, &o, &st, &err) < 0) {
		fprintf(stderr, "store: %s\n", err.text);
		return 1;
	}
	strcpy(s.w.type, "cpu");
	strcpy(s.w.unit, "nanoseconds");
	s.w.period = 10101010;
	s.w.length_ms = WINDOW_MS;
	s.w.instance[0] = 1;

	choose_builds(&s);

	uint64_t entries = 0, stacks = 0;
	double rows = 0;
	for (uint64_t ms = 0; ms < (uint64_t)days * DAY_MS; ms += WINDOW_MS, appended++) {
		if (ms % DAY_MS == 0) {
			/* A collector that begins anew each day: the day's entries are its own. */
			if (s.dict) {
				entries += s.dict->stack_count + s.dict->frame_count +
					   s.dict->series_count;
				stacks += s.dict->stack_count;
			}
			profile_free(s.dict);
			s.dict = profile_new();
			s.w.epoch++;
		}
		make_window(&s, (int)(appended % (uint64_t)r.count), BEGIN + ms);
		rows += s.w.row_count;
		if (appended % 97 == 0)
			measure_pprof(&s);
		uint64_t now = BEGIN + ms + WINDOW_MS + 1000;
		double began = seconds(CLOCK_PROCESS_CPUTIME_ID);
		int e = store_append(st, s.dict, &s.w, now, &err);
		double after = seconds(CLOCK_PROCESS_CPUTIME_ID);
		if (e) {
			fprintf(stderr, "store: append: %d, %s\n", e, err.text);
			return 1;
		}
		append_cpu += after - began;
		append_worst = MAX(append_worst, after - began);
		for (bool more = true; more;) {
			double step = seconds(CLOCK_PROCESS_CPUTIME_ID);
			more = store_maintain(st, now);
			step = seconds(CLOCK_PROCESS_CPUTIME_ID) - step;
			tend_cpu += step;
			tend_worst = MAX(tend_worst, step);
		}
	}
	entries += s.dict->stack_count + s.dict->frame_count + s.dict->series_count;
	stacks += s.dict->stack_count;
	while (store_maintain(st, BEGIN + (uint64_t)days * DAY_MS + HOUR_MS))
		;
	struct rusage use;
	getrusage(RUSAGE_SELF, &use);
	store_close(st);
	if (store_open(dir, &(struct store_options){.read_only = true}, &st, &err) < 0)
		return 1;
	struct store_stats stats;
	store_stats(st, &stats);
	store_close(st);

	double samples = (double)s.samples;
	/* Times are of the last day only. */
	double timed = samples / days * MIN(days, 25.0 / 24);
	double pprof = (double)s.pprof_bytes / (double)s.pprof_windows * (double)appended;
	double rest = (double)(stats.bytes - stats.times_bytes);
	printf("windows %lu\nsamples_a_window %.0f\nrows_a_window %.0f\n", appended,
	       samples / (double)appended, rows / (double)appended);
	printf("entries_a_day %.0f\nstacks_a_day %.0f\n", (double)entries / days,
	       (double)stacks / days);
	printf("append_ms %.3f\nappend_worst_ms %.2f\n", append_cpu / (double)appended * 1e3,
	       append_worst * 1e3);
	printf("tend_ms_a_window %.3f\ntend_worst_ms %.2f\n", tend_cpu / (double)appended * 1e3,
	       tend_worst * 1e3);
	printf("raw_bytes %lu\nroll_bytes %lu\ntimes_bytes %lu\n", stats.raw_bytes,
	       stats.roll_bytes, stats.times_bytes);
	printf("bytes_a_sample %.3f\nraw_bytes_a_sample %.3f\nroll_bytes_a_sample %.3f\n",
	       rest / samples, (double)stats.raw_bytes / samples,
	       (double)stats.roll_bytes / samples);
	printf("times_bytes_a_sample %.3f\n", (double)stats.times_bytes / timed);
	printf("megabytes_a_day %.2f\n", rest / days / 1e6);
	printf("pprof_bytes_a_sample %.2f\ntimes_less_than_pprof %.1f\n", pprof / samples,
	       pprof / rest);
	printf("peak_rss_mb %.1f\n", (double)use.ru_maxrss / 1024);
	return 0;
}

struct worst {
	double cpu, wall, tree, sum;
	int count;
};

static int ask(struct store *st, uint64_t from, uint64_t to, struct worst *w)
{
	struct profile *p = profile_new();
	struct store_answer a;
	struct store_query q = {.type = "cpu", .from_ms = from, .to_ms = to};
	double cpu = seconds(CLOCK_PROCESS_CPUTIME_ID), wall = seconds(CLOCK_MONOTONIC);

	if (store_sum(st, &q, p, &a, NULL) < 0 || a.damaged || !a.samples) {
		fprintf(stderr, "store: nothing, or damage\n");
		return -1;
	}
	double scanned = seconds(CLOCK_PROCESS_CPUTIME_ID);
	/* As the page asks for it. */
	struct tree_options o = {
		.column = TREE_VALUE,
		.max_nodes = 100000,
		.sums = true,
		.max_functions = 20000,
	};
	struct tree *t = tree_new(p, &o);
	w->tree = MAX(w->tree, seconds(CLOCK_PROCESS_CPUTIME_ID) - scanned);
	double scan = scanned - cpu;
	cpu = seconds(CLOCK_PROCESS_CPUTIME_ID) - cpu;
	wall = seconds(CLOCK_MONOTONIC) - wall;
	w->cpu = MAX(w->cpu, cpu);
	w->wall = MAX(w->wall, wall);
	w->sum += cpu;
	w->count++;
	if (getenv("STORE_VERBOSE"))
		printf("# %.1f h: %.1f ms cpu (%.1f scan), %.1f ms wall, %lu samples, %u stacks, "
		       "%u pairs, %lu files, %.1f MB read\n",
		       (double)(to - from) / 3600e3, cpu * 1e3, scan * 1e3, wall * 1e3, a.samples,
		       p->stack_count, p->sample_count, a.files, (double)a.bytes / 1e6);
	tree_free(t);
	profile_free(p);
	return 0;
}

static void show(const char *what, const struct worst *w)
{
	if (!w->count)
		return;
	printf("%s_cpu_ms %.1f\n%s_wall_ms %.1f\n%s_mean_cpu_ms %.1f\n%s_tree_ms %.1f\n", what,
	       w->cpu * 1e3, what, w->wall * 1e3, what, w->sum / w->count * 1e3, what,
	       w->tree * 1e3);
}

static int query(const char *dir)
{
	struct store *st;
	struct store_error err;
	struct worst hour = {}, week = {}, month = {};
	uint64_t seed = 12345;
	int days = 0;

	if (store_open(dir, &(struct store_options){.read_only = true}, &st, &err) < 0) {
		fprintf(stderr, "store: %s\n", err.text);
		return 1;
	}
	for (uint64_t d = 0; d < 400; d++) {
		char path[4096];
		time_t t = (time_t)((BEGIN + d * DAY_MS) / 1000);
		struct tm tm;
		gmtime_r(&t, &tm);
		snprintf(path, sizeof(path), "%s/raw/%04d-%02d-%02d.db", dir, tm.tm_year + 1900,
			 tm.tm_mon + 1, tm.tm_mday);
		if (access(path, F_OK) == 0)
			days = (int)d + 1;
	}
	/* Hours anywhere, not only whole ones. */
	for (int i = 0; i < HOURS_ASKED; i++) {
		uint64_t at = BEGIN + next(&seed) % ((uint64_t)days * DAY_MS - HOUR_MS);
		if (i % 2)
			at = at / HOUR_MS * HOUR_MS;
		if (ask(st, at, at + HOUR_MS, &hour) < 0)
			return 1;
	}
	for (int i = 0; days >= 7 && i < WEEKS_ASKED; i++) {
		uint64_t at = BEGIN + next(&seed) % ((uint64_t)days * DAY_MS - 7 * DAY_MS + 1);
		if (ask(st, at, at + 7 * DAY_MS, &week) < 0)
			return 1;
	}
	for (int i = 0; days >= 30 && i < 3; i++)
		if (ask(st, BEGIN, BEGIN + 30 * DAY_MS, &month) < 0)
			return 1;
	struct rusage use;
	getrusage(RUSAGE_SELF, &use);
	show("hour", &hour);
	show("week", &week);
	show("month", &month);
	printf("peak_rss_mb %.1f\n", (double)use.ru_maxrss / 1024);
	store_close(st);
	return 0;
}

int main(int argc, char **argv)
{
	if (argc > 5 && strcmp(argv[1], "generate") == 0)
		return generate(argv[2], atoi(argv[3]), strcmp(argv[4], "idle") == 0, argv + 5,
				argc - 5);
	if (argc == 3 && strcmp(argv[1], "query") == 0)
		return query(argv[2]);
	fprintf(stderr, "usage: store generate DIR DAYS busy|idle WINDOW...; store query DIR\n");
	return 2;
}
