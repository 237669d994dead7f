/* The store: what is appended is what is read, whatever happened in between. */
#include "unit/unit.h"

#include <dirent.h>
#include <ftw.h>
#include <signal.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "base/mem.h"
#include "store/sql.h"
#include "store/store.h"

#define DAY    86400000ull
#define HOUR   3600000ull
#define BEGIN  (20000 * DAY) /* 2024-10-04 */
#define PERIOD 10101010ull

/* A collector, with a dictionary and a clock of its own. */
struct sender {
	struct profile *dict;
	struct window w;
	uint64_t seed, now;
	int programs, functions;
};

static uint64_t next(struct sender *s)
{
	s->seed ^= s->seed << 13;
	s->seed ^= s->seed >> 7;
	s->seed ^= s->seed << 17;
	return s->seed >> 11;
}

static void sender_init(struct sender *s, uint64_t seed)
{
	*s = (struct sender){.dict = profile_new(), .seed = seed, .programs = 5, .functions = 40};
	for (size_t i = 0; i < sizeof(s->w.instance); i++)
		s->w.instance[i] = (uint8_t)(next(s) >> 3);
	s->w.epoch = 1;
	s->w.length_ms = WINDOW_MS;
	s->w.period = PERIOD;
	strcpy(s->w.type, "cpu");
	strcpy(s->w.unit, "nanoseconds");
}

static uint32_t str(struct profile *p, const char *s)
{
	return profile_string(p, s, strlen(s));
}

static uint32_t series(struct sender *s, int program)
{
	char comm[32], pid[32];

	snprintf(comm, sizeof(comm), "prog%d", program);
	snprintf(pid, sizeof(pid), "%d", 100 + program);
	struct label l[] = {
		{str(s->dict, "comm"), str(s->dict, comm)},
		{str(s->dict, "pid"), str(s->dict, pid)},
	};
	return profile_series(s->dict, l, 2);
}

static uint32_t stack(struct sender *s, int depth)
{
	uint32_t at = 0;
	char name[32];

	for (int i = 0; i < depth; i++) {
		snprintf(name, sizeof(name), "f%d", (int)(next(s) % (uint64_t)s->functions));
		struct module m = {.name = str(s->dict, i & 1 ? "libx.so" : "prog")};
		struct frame f = {.name = str(s->dict, name),
				  .module = profile_module(s->dict, &m)};
		at = profile_stack(s->dict, at, profile_frame(s->dict, &f));
	}
	return at;
}

static int row_order(const void *a, const void *b)
{
	const struct window_row *x = a, *y = b;

	if (x->series != y->series)
		return x->series < y->series ? -1 : 1;
	return (x->stack > y->stack) - (x->stack < y->stack);
}

/* The next window, at `start`, with about `rows` pairs. */
static void make(struct sender *s, uint64_t start, int rows)
{
	struct window *w = &s->w;
	uint32_t n = 0;

	free(w->rows);
	free(w->times);
	w->times = NULL;
	w->rows = mem_alloc_array((size_t)rows + 1, sizeof(*w->rows));
	for (int i = 0; i < rows; i++) {
		uint32_t id = series(s, (int)(next(s) % (uint64_t)s->programs));
		uint64_t count = 1 + next(s) % 3;
		uint64_t odd = next(s) % 10 == 0 ? next(s) % 1000 : 0;
		w->rows[i] = (struct window_row){id, stack(s, 1 + (int)(next(s) % 6)), count,
						 count * PERIOD + odd};
	}
	qsort(w->rows, (size_t)rows, sizeof(*w->rows), row_order);
	for (int i = 0; i < rows; i++) {
		if (n && row_order(&w->rows[n - 1], &w->rows[i]) == 0) {
			w->rows[n - 1].count += w->rows[i].count;
			w->rows[n - 1].value += w->rows[i].value;
		} else {
			w->rows[n++] = w->rows[i];
		}
	}
	w->row_count = n;
	w->start_ms = start;
	w->sequence++;
	w->part = 0;
	for (uint32_t i = 0; i < n; i++)
		w->counts.taken += w->rows[i].count;
}

/* Times for the window that was made last. */
static void make_times(struct sender *s)
{
	struct window *w = &s->w;
	uint16_t *t;

	w->time_count = 0;
	for (uint32_t i = 0; i < w->row_count; i++)
		w->time_count += w->rows[i].count;
	w->times = t = mem_alloc_array(w->time_count + 1, sizeof(*t));
	for (uint32_t i = 0; i < w->row_count; i++) {
		uint16_t at = 0;
		for (uint64_t k = 0; k < w->rows[i].count; k++) {
			at = (uint16_t)(at + next(s) % (500 / w->rows[i].count));
			*t++ = at;
		}
	}
}

static void sender_done(struct sender *s)
{
	free(s->w.rows);
	free(s->w.times);
	profile_free(s->dict);
}

/* ---- what it ought to be -----------------------------------------------------------------------
 */

/* Every window that was appended, added up by text: an independent sum. */
struct truth {
	struct line {
		char *text; /* comm|pid|frame;frame */
		uint64_t start, count, value;
	} * lines;
	size_t count, cap;
};

static void describe(const struct profile *p, uint32_t series_id, uint32_t stack_id, char *out,
		     size_t room)
{
	uint32_t path[64];
	size_t depth = 0;
	const char *comm = profile_label(p, series_id, "comm");
	const char *pid = profile_label(p, series_id, "pid");
	int n = snprintf(out, room, "%s|%s|", comm ? comm : "", pid ? pid : "");

	for (; stack_id && depth < 64; stack_id = p->stacks[stack_id].parent)
		path[depth++] = stack_id;
	while (depth) {
		const struct frame *f = &p->frames[p->stacks[path[--depth]].frame];
		n += snprintf(out + n, room - (size_t)n, "%s@%s;", profile_str(p, f->name),
			      profile_str(p, p->modules[f->module].name));
	}
}

static void truth_add(struct truth *t, const struct profile *p, const struct window *w)
{
	char text[4096];

	for (uint32_t i = 0; i < w->row_count; i++) {
		describe(p, w->rows[i].series, w->rows[i].stack, text, sizeof(text));
		MEM_GROW(t->lines, t->count, t->cap);
		t->lines[t->count++] = (struct line){mem_strdup(text), w->start_ms,
						     w->rows[i].count, w->rows[i].value};
	}
}

static void truth_done(struct truth *t)
{
	for (size_t i = 0; i < t->count; i++)
		free(t->lines[i].text);
	free(t->lines);
}

static int line_order(const void *a, const void *b)
{
	return strcmp(((const struct line *)a)->text, ((const struct line *)b)->text);
}

static size_t sum_up(struct line *l, size_t count)
{
	size_t n = 0;

	qsort(l, count, sizeof(*l), line_order);
	for (size_t i = 0; i < count; i++) {
		if (n && strcmp(l[n - 1].text, l[i].text) == 0) {
			l[n - 1].count += l[i].count;
			l[n - 1].value += l[i].value;
		} else {
			l[n++] = l[i];
		}
	}
	return n;
}

static const char *const both[] = {"comm", "pid"};

/* Asks for [from, to) with both labels, in both ways, and compares with the sum of the truth. */
static void check(struct store *s, const struct truth *t, uint64_t from, uint64_t to)
{
	struct line *want = mem_alloc_array(t->count + 1, sizeof(*want));
	size_t wants = 0;

	for (size_t i = 0; i < t->count; i++)
		if (t->lines[i].start >= from / WINDOW_MS * WINDOW_MS && t->lines[i].start < to)
			want[wants++] = t->lines[i];
	wants = sum_up(want, wants);

	for (int raw_only = 0; raw_only < 2; raw_only++) {
		struct profile *p = profile_new();
		struct store_answer a;
		struct store_query q = {.type = "cpu",
					.from_ms = from,
					.to_ms = to,
					.keep = both,
					.keep_count = 2,
					.raw_only = raw_only};
		assert_int_equal(store_scan(s, &q, p, &a), 0);
		assert_int_equal(a.damaged, 0);
		struct line *have = mem_alloc_array(p->sample_count + 1, sizeof(*have));
		uint64_t samples = 0;
		for (uint32_t i = 0; i < p->sample_count; i++) {
			char text[4096];
			describe(p, p->samples[i].series, p->samples[i].stack, text, sizeof(text));
			have[i] = (struct line){mem_strdup(text), 0, p->samples[i].count,
						p->samples[i].value};
			samples += p->samples[i].count;
		}
		assert_int_equal(samples, a.samples);
		qsort(have, p->sample_count, sizeof(*have), line_order);
		assert_int_equal(p->sample_count, wants);
		for (size_t i = 0; i < wants; i++) {
			assert_string_equal(have[i].text, want[i].text);
			assert_int_equal(have[i].count, want[i].count);
			assert_int_equal(have[i].value, want[i].value);
			free(have[i].text);
		}
		free(have);
		if (wants) {
			assert_string_equal(p->info.type, "cpu");
			assert_string_equal(p->info.unit, "nanoseconds");
			assert_int_equal(p->info.period, PERIOD);
		}
		profile_free(p);
	}
	free(want);
}

static uint64_t total(struct store *s, uint64_t from, uint64_t to)
{
	struct profile *p = profile_new();
	struct store_answer a;
	struct store_query q = {.type = "cpu", .from_ms = from, .to_ms = to};

	assert_int_equal(store_scan(s, &q, p, &a), 0);
	uint64_t sum = 0;
	for (uint32_t i = 0; i < p->sample_count; i++)
		sum += p->samples[i].count;
	assert_int_equal(sum, a.samples);
	profile_free(p);
	return sum;
}

/* ---- a directory for each test -----------------------------------------------------------------
 */

static char dir[256];

static int remove_one(const char *path, const struct stat *st, int flag, struct FTW *f)
{
	(void)st, (void)flag, (void)f;
	return remove(path);
}

static void remove_all(const char *path)
{
	nftw(path, remove_one, 16, FTW_DEPTH | FTW_PHYS);
}

static int setup(void **state)
{
	(void)state;
	snprintf(dir, sizeof(dir), "%s/smolder-store-XXXXXX",
		 getenv("TMPDIR") ? getenv("TMPDIR") : "/tmp");
	return mkdtemp(dir) ? 0 : -1;
}

static int teardown(void **state)
{
	(void)state;
	umount(dir); /* of a test that failed */
	remove_all(dir);
	return 0;
}

static struct store *open_with(const struct store_options *o)
{
	struct store *s;
	struct store_error e;

	int r = store_open(dir, o, &s, &e);
	if (r)
		fail_msg("store_open: %s", e.text);
	return s;
}

static void append(struct store *s, struct sender *d, struct truth *t, uint64_t now)
{
	struct store_error e;
	int r = store_append(s, d->dict, &d->w, now, &e);

	if (r)
		fail_msg("store_append: %d, %s", r, e.text);
	if (t)
		truth_add(t, d->dict, &d->w);
	while (store_tend(s, now))
		;
}

static void settle(struct store *s, uint64_t now)
{
	while (store_tend(s, now))
		;
}

/* ---- tests -------------------------------------------------------------------------------------
 */

static void what_is_appended_is_read(void **state)
{
	(void)state;
	struct store *s = open_with(NULL);
	struct sender d;
	struct truth t = {};
	uint64_t now = BEGIN + DAY - HOUR; /* over midnight */

	sender_init(&d, 1);
	for (int i = 0; i < 6 * 150; i++, now += WINDOW_MS) {
		make(&d, now, 20);
		append(s, &d, &t, now + WINDOW_MS + 500);
	}
	uint64_t from = BEGIN + DAY - HOUR;
	check(s, &t, from, now);
	check(s, &t, from, from + WINDOW_MS);
	check(s, &t, from + 30 * 60000, from + 90 * 60000);
	check(s, &t, from + 30 * 60000 + 70000, from + 90 * 60000 + 130000);
	check(s, &t, 0, UINT64_MAX);
	/* A reader of its own sees the same. */
	struct store *r = open_with(&(struct store_options){.read_only = true});
	check(r, &t, from, now);
	store_close(r);
	store_close(s);
	s = open_with(NULL);
	settle(s, now + HOUR);
	check(s, &t, from, now);
	check(s, &t, from + 123000, now - 777000);
	store_close(s);
	truth_done(&t);
	sender_done(&d);
}

static void a_message_is_stored_once(void **state)
{
	(void)state;
	struct store *s = open_with(NULL);
	struct sender d;
	struct truth t = {};
	struct store_stats st;
	uint64_t now = BEGIN;

	sender_init(&d, 2);
	for (int i = 0; i < 40; i++, now += WINDOW_MS) {
		make(&d, now, 10);
		append(s, &d, &t, now);
		assert_int_equal(store_append(s, d.dict, &d.w, now, NULL), -EEXIST);
	}
	/* The same window's second part is another message. */
	d.w.part = 1;
	append(s, &d, &t, now);
	assert_int_equal(store_append(s, d.dict, &d.w, now, NULL), -EEXIST);
	/* And after all was packed, and the store opened anew. */
	settle(s, now + HOUR);
	store_close(s);
	s = open_with(NULL);
	assert_int_equal(store_append(s, d.dict, &d.w, now + HOUR, NULL), -EEXIST);
	d.w.part = 0;
	assert_int_equal(store_append(s, d.dict, &d.w, now + HOUR, NULL), -EEXIST);
	check(s, &t, BEGIN, now);
	store_stats(s, &st);
	assert_int_equal(st.known, 2);
	store_close(s);
	truth_done(&t);
	sender_done(&d);
}

static void late_parts_end_in_the_sums(void **state)
{
	(void)state;
	struct store *s = open_with(NULL);
	struct sender d, late;
	struct truth t = {};
	uint64_t now = BEGIN;

	sender_init(&d, 3);
	sender_init(&late, 4);
	for (int i = 0; i < 6 * 180; i++, now += WINDOW_MS) {
		make(&d, now, 8);
		append(s, &d, &t, now);
		/* Now and then what is five minutes, or two hours, old: after its sums were made.
		 */
		if (i % 50 == 49) {
			make(&late, now - 5 * 60000, 3);
			append(s, &late, &t, now);
		}
		if (i % 200 == 199 && now > BEGIN + 2 * HOUR) {
			make(&late, now - 2 * HOUR, 3);
			append(s, &late, &t, now);
			check(s, &t, BEGIN, now + WINDOW_MS);
		}
	}
	check(s, &t, BEGIN, now);
	settle(s, now + HOUR);
	for (uint64_t k = 0; k < 3; k++)
		check(s, &t, BEGIN + k * HOUR, BEGIN + (k + 1) * HOUR);
	check(s, &t, BEGIN, now);

	/* A day later still, in a store that was opened anew. */
	store_close(s);
	s = open_with(NULL);
	make(&late, BEGIN + HOUR, 5);
	append(s, &late, &t, now + DAY);
	check(s, &t, BEGIN, now);
	settle(s, now + DAY + HOUR);
	check(s, &t, BEGIN, now);
	store_close(s);
	truth_done(&t);
	sender_done(&d);
	sender_done(&late);
}

static void remove_file(const char *fmt, ...)
{
	char name[256], path[1024];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(name, sizeof(name), fmt, ap);
	va_end(ap);
	snprintf(path, sizeof(path), "%s/%s", dir, name);
	unlink(path);
}

/* Sums outlive the days that they were made of, and are made again from them. */
static void sums_outlive_days_and_are_made_again(void **state)
{
	(void)state;
	struct store *s = open_with(NULL);
	struct sender d;
	uint64_t now = BEGIN, all = 0;
	struct truth t = {};

	sender_init(&d, 5);
	for (int i = 0; i < 6 * 130; i++, now += WINDOW_MS) {
		make(&d, now, 8);
		all = d.w.counts.taken;
		append(s, &d, &t, now);
	}
	settle(s, now + HOUR);
	store_close(s);

	/* Without the month's file all is there, and the file is made again. */
	remove_file("roll/2024-10.db");
	s = open_with(NULL);
	check(s, &t, BEGIN, now);
	settle(s, now + 2 * HOUR);
	check(s, &t, BEGIN, now);
	store_close(s);

	/* Without the day its sums are there, to five minutes. */
	remove_file("raw/2024-10-04.db");
	s = open_with(NULL);
	assert_int_equal(total(s, BEGIN, BEGIN + DAY), all);
	struct store_answer a;
	struct profile *p = profile_new();
	struct store_query q = {
		.type = "cpu", .from_ms = BEGIN + 7 * 60000, .to_ms = BEGIN + 8 * 60000};
	assert_int_equal(store_scan(s, &q, p, &a), 0);
	assert_int_equal(a.from_ms, BEGIN + 5 * 60000);
	assert_int_equal(a.to_ms, BEGIN + 10 * 60000);
	assert_true(a.samples > 0);
	profile_free(p);

	/* What comes late is added to them, though the day is a new file. */
	make(&d, BEGIN + 60000, 8);
	append(s, &d, NULL, now + 3 * HOUR);
	settle(s, now + 5 * HOUR);
	assert_int_equal(total(s, BEGIN, BEGIN + DAY), d.w.counts.taken);
	store_close(s);
	truth_done(&t);
	sender_done(&d);
}

static void labels_select_and_group(void **state)
{
	(void)state;
	struct store *s = open_with(NULL);
	struct sender d;
	struct store_names n;
	struct store_timeline tl;
	uint64_t now = BEGIN, all = 0;

	sender_init(&d, 6);
	for (int i = 0; i < 6 * 20; i++, now += WINDOW_MS) {
		if (i >= 30 && i < 36)
			continue; /* a minute without a collector */
		make(&d, now, 8);
		append(s, &d, NULL, now);
	}
	settle(s, now + HOUR);
	struct store_query q = {.type = "cpu", .from_ms = BEGIN, .to_ms = now};
	assert_int_equal(store_labels(s, &q, NULL, false, 100, &n), 0);
	assert_int_equal(n.count, 2);
	assert_string_equal(n.names[0], "comm");
	assert_string_equal(n.names[1], "pid");
	store_names_done(&n);
	assert_int_equal(store_labels(s, &q, "comm", false, 100, &n), 0);
	assert_int_equal(n.count, 5);
	assert_string_equal(n.names[4], "prog4");
	assert_false(n.cut);
	store_names_done(&n);
	assert_int_equal(store_labels(s, &q, "comm", false, 3, &n), 0);
	assert_int_equal(n.count, 3);
	assert_true(n.cut);
	store_names_done(&n);
	assert_int_equal(store_labels(s, &q, NULL, true, 3, &n), 0);
	assert_int_equal(n.count, 1);
	assert_string_equal(n.names[0], "cpu");
	store_names_done(&n);

	assert_int_equal(store_timeline(s, &q, "comm", 60000, &tl), 0);
	assert_int_equal(tl.steps, 20);
	assert_int_equal(tl.start_ms, BEGIN);
	assert_int_equal(tl.line_count, 5);
	for (uint32_t i = 0; i < 20; i++)
		assert_int_equal(tl.covered[i], i != 5);
	assert_int_equal(tl.restarted[0], 1);
	assert_int_equal(tl.restarted[1], 0);
	for (uint32_t i = 0; i < 5; i++) {
		uint64_t sum = 0;
		for (uint32_t k = 0; k < tl.steps; k++)
			sum += tl.lines[i].values[k];
		assert_int_equal(sum, tl.lines[i].total);
		assert_true(i == 0 || tl.lines[i].total <= tl.lines[i - 1].total);
		all += sum;
	}
	assert_string_equal(tl.unit, "nanoseconds");
	store_timeline_done(&tl);
	/* In steps of five minutes, from the sums, it is the same. */
	assert_int_equal(store_timeline(s, &q, NULL, 300000, &tl), 0);
	assert_int_equal(tl.steps, 4);
	assert_int_equal(tl.line_count, 1);
	assert_int_equal(tl.lines[0].total, all);
	store_timeline_done(&tl);
	q.type = "offcpu";
	assert_int_equal(store_timeline(s, &q, NULL, 300000, &tl), 0);
	assert_int_equal(tl.line_count, 0);
	store_timeline_done(&tl);
	store_close(s);
	sender_done(&d);
}

static bool only_prog1(void *ctx, const struct store_label *l, size_t count)
{
	++*(int *)ctx;
	for (size_t i = 0; i < count; i++)
		if (strcmp(l[i].key, "comm") == 0)
			return strcmp(l[i].value, "prog1") == 0;
	return false;
}

static bool never(void *ctx, double done)
{
	*(double *)ctx = done;
	return false;
}

static void a_selection_is_its_share(void **state)
{
	(void)state;
	struct store *s = open_with(NULL);
	struct sender d;
	uint64_t now = BEGIN, want = 0, have = 0;
	int asked = 0;

	sender_init(&d, 7);
	for (int i = 0; i < 100; i++, now += WINDOW_MS) {
		make(&d, now, 8);
		for (uint32_t k = 0; k < d.w.row_count; k++)
			if (strcmp(profile_label(d.dict, d.w.rows[k].series, "comm"), "prog1") == 0)
				want += d.w.rows[k].value;
		append(s, &d, NULL, now);
	}
	struct profile *p = profile_new();
	struct store_answer a;
	struct store_query q = {.type = "cpu",
				.from_ms = BEGIN,
				.to_ms = now,
				.match = only_prog1,
				.match_ctx = &asked,
				.keep = both,
				.keep_count = 1};
	assert_int_equal(store_scan(s, &q, p, &a), 0);
	for (uint32_t i = 0; i < p->sample_count; i++) {
		assert_string_equal(profile_label(p, p->samples[i].series, "comm"), "prog1");
		assert_null(profile_label(p, p->samples[i].series, "pid"));
		have += p->samples[i].value;
	}
	assert_int_equal(have, want);
	assert_int_equal(asked, 5);
	double done = -1;
	q.progress = never;
	q.progress_ctx = &done;
	assert_int_equal(store_scan(s, &q, p, &a), -ECANCELED);
	assert_true(done >= 0 && done <= 1);
	profile_free(p);
	store_close(s);
	sender_done(&d);
}

/* ---- sample times ------------------------------------------------------------------------------
 */

static void times_are_kept_for_a_day(void **state)
{
	(void)state;
	struct store *s = open_with(NULL);
	struct sender d;
	uint64_t now = BEGIN;
	enum { WINDOWS = 90, SLOTS = WINDOWS * 500 };
	CLEANUP(freep) uint32_t *want = mem_alloc_array(SLOTS, sizeof(*want));
	struct store_heat h;

	sender_init(&d, 8);
	for (int i = 0; i < WINDOWS; i++, now += WINDOW_MS) {
		make(&d, now, 15);
		make_times(&d);
		for (size_t k = 0; k < d.w.time_count; k++)
			want[i * 500 + d.w.times[k]]++;
		append(s, &d, NULL, now);
		if (i == 60) { /* one more part, late */
			make(&d, BEGIN + WINDOW_MS, 15);
			make_times(&d);
			for (size_t k = 0; k < d.w.time_count; k++)
				want[500 + d.w.times[k]]++;
			append(s, &d, NULL, now);
		}
	}
	for (int settled = 0; settled < 2; settled++) {
		struct store_query q = {.type = "cpu", .from_ms = BEGIN, .to_ms = now};
		assert_int_equal(store_heat(s, &q, &h), 0);
		assert_int_equal(h.slots, SLOTS);
		assert_memory_equal(h.counts, want, SLOTS * sizeof(*want));
		store_heat_done(&h);
		/* Any slots, as a profile. */
		for (uint32_t from = 0; from < 45000; from += 4321) {
			struct profile *p = profile_new();
			struct store_answer a;
			uint64_t sum = 0, have = 0;
			for (uint32_t i = from; i < from + 137; i++)
				sum += want[i];
			q.from_ms = BEGIN + from * 20;
			q.to_ms = BEGIN + (from + 137) * 20;
			assert_int_equal(store_scan_slots(s, &q, p, &a), 0);
			for (uint32_t i = 0; i < p->sample_count; i++)
				have += p->samples[i].count;
			assert_int_equal(have, sum);
			assert_int_equal(a.samples, sum);
			profile_free(p);
		}
		settle(s, now + HOUR);
	}
	/* After their time they are gone; the samples are not. */
	settle(s, now + DAY + 2 * HOUR);
	struct store_query q = {.type = "cpu", .from_ms = BEGIN, .to_ms = now};
	struct profile *p = profile_new();
	struct store_answer a;
	assert_int_equal(store_heat(s, &q, &h), -ENODATA);
	assert_int_equal(store_scan_slots(s, &q, p, &a), -ENODATA);
	assert_int_equal(total(s, BEGIN, now), d.w.counts.taken);
	profile_free(p);
	store_close(s);
	sender_done(&d);
}

/* ---- limits ------------------------------------------------------------------------------------
 */

static void beyond_the_caps_is_other(void **state)
{
	(void)state;
	struct store *s = open_with(&(struct store_options){.series_max = 3, .stacks_max = 50});
	struct sender d;
	struct store_stats st;
	uint64_t now = BEGIN, value = 0, have = 0;

	sender_init(&d, 9);
	d.programs = 50;
	for (int i = 0; i < 100; i++, now += WINDOW_MS) {
		make(&d, now, 20);
		for (uint32_t k = 0; k < d.w.row_count; k++)
			value += d.w.rows[k].value;
		append(s, &d, NULL, now);
	}
	settle(s, now + HOUR);
	struct profile *p = profile_new();
	struct store_answer a;
	struct store_query q = {
		.type = "cpu", .from_ms = BEGIN, .to_ms = now, .keep = both, .keep_count = 1};
	uint64_t other = 0;
	assert_int_equal(store_scan(s, &q, p, &a), 0);
	for (uint32_t i = 0; i < p->sample_count; i++) {
		have += p->samples[i].value;
		if (strcmp(profile_label(p, p->samples[i].series, "comm"), "(other)") == 0) {
			assert_int_equal(p->samples[i].stack, 0);
			other += p->samples[i].count;
		}
	}
	assert_int_equal(have, value);
	assert_true(p->stack_count <= 51);
	store_stats(s, &st);
	assert_int_equal(st.other_samples, other);
	assert_true(other > 0);
	assert_int_equal(a.samples, d.w.counts.taken);
	profile_free(p);
	store_close(s);
	sender_done(&d);
}

static void windows_out_of_time_are_refused(void **state)
{
	(void)state;
	struct store *s = open_with(&(struct store_options){.retention_ms = 2 * DAY});
	struct sender d;
	struct store_error e;
	struct store_stats st;

	sender_init(&d, 10);
	make(&d, BEGIN + 2 * HOUR, 5);
	assert_int_equal(store_append(s, d.dict, &d.w, BEGIN, &e), -ERANGE);
	assert_non_null(strstr(e.text, "future"));
	assert_int_equal(store_append(s, d.dict, &d.w, BEGIN + 3 * DAY, &e), -ERANGE);
	assert_non_null(strstr(e.text, "older"));
	assert_int_equal(store_append(s, d.dict, &d.w, BEGIN + HOUR, &e), 0);
	store_stats(s, &st);
	assert_int_equal(st.refused, 2);
	assert_int_equal(st.windows, 1);
	store_close(s);
	sender_done(&d);
}

static uint64_t bytes_on_disk;

static int add_bytes(const char *path, const struct stat *st, int flag, struct FTW *f)
{
	(void)path, (void)f;
	if (flag == FTW_F)
		bytes_on_disk += (uint64_t)st->st_size;
	return 0;
}

static uint64_t disk(const char *folder)
{
	char path[512];

	snprintf(path, sizeof(path), "%s/%s", dir, folder);
	bytes_on_disk = 0;
	nftw(path, add_bytes, 16, FTW_PHYS);
	return bytes_on_disk;
}

static int files(const char *folder)
{
	char path[512];
	int n = 0;

	snprintf(path, sizeof(path), "%s/%s", dir, folder);
	DIR *d = opendir(path);
	for (struct dirent *e; d && (e = readdir(d));)
		n += strlen(e->d_name) > 3 && strcmp(e->d_name + strlen(e->d_name) - 3, ".db") == 0;
	if (d)
		closedir(d);
	return n;
}

static void the_limit_of_size_takes_raw_first(void **state)
{
	(void)state;
	const uint64_t limit = 3 << 20;
	struct store *s = open_with(&(struct store_options){.max_bytes = limit});
	struct sender d;
	struct store_stats st;
	struct truth t = {};
	uint64_t now = BEGIN;

	sender_init(&d, 11);
	d.functions = 4;
	for (int i = 0; i < 4 * 8640; i += 6, now += 6 * WINDOW_MS) {
		make(&d, now, 60);
		append(s, &d, &t, now);
	}
	settle(s, now + HOUR);
	store_stats(s, &st);
	assert_int_equal(st.bytes, disk(""));
	assert_true(st.bytes <= limit + (1 << 20)); /* and what came since it was last looked at */
	assert_true(files("raw") < 4);
	assert_true(st.expired_files > 0);
	/* The sums are there from the beginning. */
	assert_int_equal(total(s, BEGIN, now), d.w.counts.taken);
	assert_int_equal(st.stored, d.w.counts.taken);
	/* A window of a day that went is not taken: its five minutes would be half there. */
	make(&d, BEGIN + HOUR, 5);
	assert_int_equal(store_append(s, d.dict, &d.w, now, NULL), -ERANGE);
	store_close(s);
	truth_done(&t);
	sender_done(&d);
}

static void age_takes_days_and_months(void **state)
{
	(void)state;
	struct store *s = open_with(&(struct store_options){.retention_ms = 3 * DAY});
	struct sender d;
	uint64_t now = BEGIN;

	sender_init(&d, 12);
	for (int i = 0; i < 10 * 24; i++, now += HOUR) {
		make(&d, now, 5);
		append(s, &d, NULL, now);
	}
	settle(s, now + 2 * HOUR);
	assert_true(files("raw") <= 5);
	assert_int_equal(files("roll"), 1);
	assert_int_equal(total(s, BEGIN, BEGIN + 5 * DAY), 0);
	assert_true(total(s, now - 2 * DAY, now) > 0);
	settle(s, now + 60 * DAY);
	assert_int_equal(files("raw"), 0);
	assert_int_equal(files("roll"), 0);
	store_close(s);
	sender_done(&d);
}

/* ---- accounts ----------------------------------------------------------------------------------
 */

static void check_sum(struct store *s, uint64_t taken, uint64_t lost, uint64_t died)
{
	struct store_stats st;
	uint64_t sum = 0;

	store_stats(s, &st);
	for (int i = 0; i < WINDOW_LOST_REASONS; i++)
		sum += st.lost[i];
	assert_int_equal(st.taken, taken);
	assert_int_equal(sum, lost + died);
	assert_int_equal(st.lost[WINDOW_LOST_DIED], died);
	assert_int_equal(st.stored + sum, st.taken);
}

static void every_sample_is_accounted_for(void **state)
{
	(void)state;
	struct store *s = open_with(NULL);
	struct sender d;
	uint64_t now = BEGIN + DAY - 10 * 60000, counter = 1000, lost = 0, died = 0;
	const uint64_t first = counter;

	/* Twenty collectors on one counter of the kernel, over midnight. */
	for (int life = 0; life < 20; life++) {
		sender_init(&d, 100 + (uint64_t)life);
		memcpy(d.w.instance, "lineage!", 8);
		d.w.counts.base = d.w.counts.taken = counter;
		for (int i = 0; i < 7; i++, now += WINDOW_MS) {
			make(&d, now, 6);
			if (i % 3 == 2) {
				d.w.counts.lost[WINDOW_LOST_RING] += 5;
				d.w.counts.taken += 5;
				lost += 5;
			}
			append(s, &d, NULL, now);
		}
		counter = d.w.counts.taken;
		if (life < 19) {
			counter += (uint64_t)life; /* what it took and could not send */
			died += (uint64_t)life;
		}
		if (life % 4 == 1) {
			store_close(s);
			s = open_with(NULL);
		}
		if (life < 19)
			sender_done(&d);
	}
	check_sum(s, counter - first, lost, died);
	settle(s, now + HOUR);
	store_close(s);
	s = open_with(NULL);
	check_sum(s, counter - first, lost, died);
	struct store *reader = open_with(&(struct store_options){.read_only = true});
	struct store_stats st;
	check_sum(reader, counter - first, lost, died);
	store_stats(reader, &st);
	assert_int_equal(st.first_ms, BEGIN + DAY - 10 * 60000);
	assert_true(st.last_ms >= now && st.last_ms <= now + 300000);
	store_close(reader);

	/* What was lost is in the answer as well. */
	struct profile *p = profile_new();
	struct store_answer a;
	struct store_query q = {.type = "cpu", .from_ms = BEGIN, .to_ms = now};
	assert_int_equal(store_scan(s, &q, p, &a), 0);
	assert_int_equal(a.lost, lost + died);
	assert_int_equal(p->info.lost, lost + died);
	assert_int_equal(a.samples + a.lost, counter - first);
	profile_free(p);

	/* Another machine's counter begins an account of its own. */
	struct sender other;
	sender_init(&other, 999);
	make(&other, now, 6);
	append(s, &other, NULL, now);
	check_sum(s, counter - first + other.w.counts.taken, lost, died);
	store_close(s);
	sender_done(&other);
	sender_done(&d);
}

/* ---- trouble -----------------------------------------------------------------------------------
 */

static void overwrite(const char *name, long at, size_t len)
{
	char path[512], junk[4096];

	memset(junk, 0xa5, sizeof(junk));
	snprintf(path, sizeof(path), "%s/%s", dir, name);
	FILE *f = fopen(path, "r+");
	assert_non_null(f);
	fseek(f, at, SEEK_SET);
	for (; len; len -= len < sizeof(junk) ? len : sizeof(junk))
		fwrite(junk, 1, len < sizeof(junk) ? len : sizeof(junk), f);
	fclose(f);
}

static void damaged_files_are_set_aside(void **state)
{
	(void)state;
	static const struct {
		const char *name;
		long at;
		size_t len;
	} hurt[] = {
		{"raw/2024-10-04.db", 0, 100},     {"raw/2024-10-04.db", 0, 200000},
		{"raw/2024-10-04.db", 4096, 4096}, {"roll/2024-10.db", 0, 100},
		{"roll/2024-10.db", 4096, 20000},  {"accounts.db", 0, 8192},
	};

	for (size_t i = 0; i < sizeof(hurt) / sizeof(hurt[0]); i++) {
		struct store *s = open_with(NULL);
		struct store_stats st;
		struct sender d;
		uint64_t now = BEGIN + HOUR;

		sender_init(&d, 20);
		for (int k = 0; k < 6 * 80; k++, now += WINDOW_MS) {
			make(&d, now, 10);
			append(s, &d, NULL, now);
		}
		store_close(s);
		overwrite(hurt[i].name, hurt[i].at, hurt[i].len);
		s = open_with(NULL);
		for (int k = 0; k < 6 * 80; k++, now += WINDOW_MS) {
			make(&d, now, 10);
			append(s, &d, NULL, now);
		}
		settle(s, now + HOUR);
		store_stats(s, &st);
		if (st.damaged_files != 1)
			fail_msg("%s, %zu bytes at %ld: %lu files were set aside", hurt[i].name,
				 hurt[i].len, hurt[i].at, st.damaged_files);
		/* What was appended after it is whole. */
		uint64_t sum = total(s, now - 6 * 80 * WINDOW_MS, now);
		assert_true(sum > 0);
		if (strncmp(hurt[i].name, "raw", 3) != 0)
			assert_int_equal(total(s, BEGIN, now), d.w.counts.taken);
		store_close(s);
		sender_done(&d);
		remove_all(dir);
	}
}

/* A kill may leave a file that was not made to its end: there is no damage in that. */
static void a_file_that_was_just_begun_is_none(void **state)
{
	(void)state;
	static const char *const names[] = {"raw/2024-10-04.db", "roll/2024-10.db", "accounts.db"};

	for (size_t i = 0; i < 2 * ARRAY_SIZE(names); i++) {
		char path[512];
		struct sql db;
		struct sender d;
		struct store_stats st;
		snprintf(path, sizeof(path), "%s/raw", dir);
		mkdir(path, 0755);
		snprintf(path, sizeof(path), "%s/roll", dir);
		mkdir(path, 0755);
		snprintf(path, sizeof(path), "%s/%s", dir, names[i / 2]);
		if (i % 2) {
			assert_int_equal(sql_open(&db, path, SQL_WRITE, ""),
					 0); /* without tables */
			sql_close(&db);
		} else {
			FILE *f = fopen(path, "w"); /* without a byte */
			assert_non_null(f);
			fclose(f);
		}
		struct store *r = open_with(&(struct store_options){.read_only = true});
		assert_int_equal(total(r, BEGIN, BEGIN + DAY), 0);
		store_close(r);
		struct store *s = open_with(NULL);
		sender_init(&d, 30);
		make(&d, BEGIN, 10);
		append(s, &d, NULL, BEGIN);
		settle(s, BEGIN + HOUR);
		assert_int_equal(total(s, BEGIN, BEGIN + DAY), d.w.counts.taken);
		store_stats(s, &st);
		assert_int_equal(st.damaged_files, 0);
		store_close(s);
		sender_done(&d);
		remove_all(dir);
		mkdir(dir, 0700);
	}
}

static void a_store_that_is_deleted_begins_anew(void **state)
{
	(void)state;
	struct store *s = open_with(NULL);
	struct sender d;
	uint64_t now = BEGIN;

	sender_init(&d, 21);
	for (int i = 0; i < 60; i++, now += WINDOW_MS) {
		make(&d, now, 10);
		append(s, &d, NULL, now);
	}
	remove_all(dir);
	uint64_t before = d.w.counts.taken, from = now;
	for (int i = 0; i < 60; i++, now += WINDOW_MS) {
		make(&d, now, 10);
		append(s, &d, NULL, now);
	}
	settle(s, now + HOUR);
	assert_int_equal(total(s, from, now), d.w.counts.taken - before);
	/* It is locked as before. */
	struct store *again;
	struct store_error e;
	assert_int_equal(store_open(dir, NULL, &again, &e), -EBUSY);
	assert_int_equal(e.pid, getpid());
	store_close(s);
	s = open_with(NULL);
	assert_int_equal(total(s, from, now), d.w.counts.taken - before);
	check_sum(s, d.w.counts.taken, 0, 0);
	store_close(s);
	sender_done(&d);
}

static void there_is_one_writer(void **state)
{
	(void)state;
	struct store *s = open_with(NULL), *other;
	struct store_error e;

	assert_int_equal(store_open(dir, NULL, &other, &e), -EBUSY);
	assert_int_equal(e.pid, getpid());
	assert_non_null(strstr(e.text, dir));
	store_close(s);
	s = open_with(NULL);
	store_close(s);
	assert_int_equal(store_open("/nowhere/at/all", &(struct store_options){.read_only = true},
				    &other, &e),
			 -ENOENT);
}

static int make_readable(const char *path, const struct stat *st, int flag, struct FTW *f)
{
	(void)st, (void)f;
	return chmod(path, flag == FTW_D ? 0755 : 0644);
}

/* In a process of nobody's, which can read and nothing else: the total, or -1. */
static int64_t total_for_nobody(uint64_t from, uint64_t to)
{
	int fds[2];
	int64_t sum = -1;

	nftw(dir, make_readable, 16, FTW_PHYS);
	assert_int_equal(pipe(fds), 0);
	pid_t pid = fork();
	if (pid == 0) {
		struct store *s;
		struct store_error e;
		if (setgid(65534) || setuid(65534))
			_exit(1);
		if (store_open(dir, &(struct store_options){.read_only = true}, &s, &e) < 0)
			_exit(2);
		struct profile *p = profile_new();
		struct store_answer a;
		struct store_query q = {.type = "cpu", .from_ms = from, .to_ms = to};
		if (store_scan(s, &q, p, &a) < 0 || a.damaged)
			_exit(3);
		sum = (int64_t)a.samples;
		if (write(fds[1], &sum, sizeof(sum)) != sizeof(sum))
			_exit(4);
		_exit(0);
	}
	int status;
	waitpid(pid, &status, 0);
	assert_int_equal(status, 0);
	assert_int_equal(read(fds[0], &sum, sizeof(sum)), sizeof(sum));
	close(fds[0]);
	close(fds[1]);
	return sum;
}

static int entries(void)
{
	static const char *const folders[] = {"", "raw", "roll", "times"};
	int n = 0;

	for (size_t i = 0; i < ARRAY_SIZE(folders); i++) {
		char path[512];
		snprintf(path, sizeof(path), "%s/%s", dir, folders[i]);
		DIR *d = opendir(path);
		while (d && readdir(d))
			n++;
		if (d)
			closedir(d);
	}
	return n;
}

static void a_reader_needs_no_more_than_to_read(void **state)
{
	(void)state;
	if (geteuid() != 0)
		skip();
	struct store *s = open_with(NULL);
	struct sender d;
	uint64_t now = BEGIN;

	sender_init(&d, 23);
	for (int i = 0; i < 6 * 80; i++, now += WINDOW_MS) {
		make(&d, now, 10);
		append(s, &d, NULL, now);
		/* While the writer runs it sees what was committed, at once. */
		if (i % 100 == 99)
			assert_int_equal(total_for_nobody(BEGIN, now + WINDOW_MS),
					 (int64_t)d.w.counts.taken);
	}
	store_close(s);
	int before = entries();
	assert_int_equal(total_for_nobody(BEGIN, now), (int64_t)d.w.counts.taken);
	/* One that could write makes nothing either. */
	s = open_with(&(struct store_options){.read_only = true});
	assert_int_equal(total(s, BEGIN, now), d.w.counts.taken);
	store_close(s);
	assert_int_equal(entries(), before);
	sender_done(&d);
}

static void a_full_disk_is_said_and_got_over(void **state)
{
	(void)state;
	if (geteuid() != 0 || mount("tmpfs", dir, "tmpfs", 0, "size=400k") < 0)
		skip();
	struct store *s = open_with(NULL);
	struct sender d;
	struct store_error e;
	struct store_stats st;
	uint64_t now = BEGIN;
	int r = 0, full = 0;

	sender_init(&d, 24);
	for (int i = 0; i < 3000 && full < 20; i++) {
		make(&d, now, 200);
		r = store_append(s, d.dict, &d.w, now, &e);
		if (r) {
			/* It stays as it was, and goes on counting; the message will come again. */
			assert_int_equal(r, -ENOSPC);
			assert_non_null(strstr(e.text, dir));
			for (uint32_t k = 0; k < d.w.row_count; k++)
				d.w.counts.taken -= d.w.rows[k].count;
			full++;
		} else {
			now += WINDOW_MS;
		}
		store_tend(s, now);
	}
	assert_int_equal(full, 20);
	assert_int_equal(total(s, BEGIN, now), d.w.counts.taken);
	assert_int_equal(mount("tmpfs", dir, "tmpfs", MS_REMOUNT, "size=40m"), 0);
	for (int i = 0; i < 100; i++, now += WINDOW_MS) {
		make(&d, now, 200);
		append(s, &d, NULL, now);
	}
	settle(s, now + HOUR);
	assert_int_equal(total(s, BEGIN, now), d.w.counts.taken);
	check_sum(s, d.w.counts.taken, 0, 0);
	store_stats(s, &st);
	assert_int_equal(st.failed, 20);
	assert_int_equal(st.damaged_files, 0);
	store_close(s);

	/* A disk that cannot be written to at all. */
	assert_int_equal(mount("tmpfs", dir, "tmpfs", MS_REMOUNT | MS_RDONLY, "size=40m"), 0);
	assert_int_equal(store_open(dir, NULL, &s, &e), -EROFS);
	assert_non_null(strstr(e.text, dir));
	s = open_with(&(struct store_options){.read_only = true});
	assert_int_equal(total(s, BEGIN, now), d.w.counts.taken);
	store_close(s);
	umount(dir);
	sender_done(&d);
}

/* The writer is killed at any moment: every window that it said was stored is there. */
static void a_sudden_end_loses_nothing(void **state)
{
	(void)state;
	int rounds = getenv("SMOLDER_SOAK") ? 200 : 20;
	struct sender d;
	uint64_t now = BEGIN + DAY - HOUR, sum = 0;

	sender_init(&d, 22);
	for (int round = 0; round < rounds; round++) {
		int fds[2];
		assert_int_equal(pipe(fds), 0);
		pid_t pid = fork();
		if (pid == 0) {
			struct store *s;
			struct store_error e;
			if (store_open(dir, NULL, &s, &e) < 0)
				_exit(1);
			for (;; now += WINDOW_MS) {
				make(&d, now, 10);
				int r = store_append(s, d.dict, &d.w, now, &e);
				if (r && r != -EEXIST)
					_exit(2);
				uint64_t said[2] = {now, d.w.counts.taken};
				if (write(fds[1], said, sizeof(said)) != sizeof(said))
					_exit(3);
				store_tend(s, now);
			}
		}
		close(fds[1]);
		uint64_t said[2], last[2] = {0, 0};
		if (round % 2) /* else it may be killed while it opens the store */
			assert_int_equal(read(fds[0], last, sizeof(last)), sizeof(last));
		usleep((useconds_t)(random() % 60000) + 2000);
		kill(pid, SIGKILL);
		int status;
		waitpid(pid, &status, 0);
		assert_true(WIFSIGNALED(status));
		while (read(fds[0], said, sizeof(said)) == sizeof(said))
			memcpy(last, said, sizeof(last));
		close(fds[0]);
		if (!last[0])
			continue;

		/* The one after the last that was said may be there or not. */
		struct store *s = open_with(NULL);
		while (now <= last[0]) {
			make(&d, now, 10);
			assert_int_equal(store_append(s, d.dict, &d.w, now, NULL), -EEXIST);
			now += WINDOW_MS;
		}
		make(&d, now, 10);
		int r = store_append(s, d.dict, &d.w, now, NULL);
		assert_true(r == 0 || r == -EEXIST);
		now += WINDOW_MS;
		sum = total(s, BEGIN, now);
		assert_int_equal(sum, d.w.counts.taken);
		check_sum(s, d.w.counts.taken, 0, 0);
		struct store_stats st;
		store_stats(s, &st);
		assert_int_equal(st.damaged_files, 0);
		store_close(s);
	}
	assert_true(sum > 0);
	sender_done(&d);
}

/* For tests/golden/test_store_files.py: a store, and what is in it, on stdout. */
static int make_store(const char *path)
{
	struct sender d;
	uint64_t now = BEGIN + DAY - HOUR - 60000;

	snprintf(dir, sizeof(dir), "%s", path);
	struct store *s = open_with(NULL);
	sender_init(&d, 42);
	for (int i = 0; i < 6 * 150; i++, now += WINDOW_MS) {
		make(&d, i == 700 ? now - HOUR : now, 10);
		make_times(&d);
		append(s, &d, NULL, now);
		const uint16_t *t = d.w.times;
		for (uint32_t k = 0; k < d.w.row_count; k++) {
			const struct window_row *r = &d.w.rows[k];
			char text[4096];
			describe(d.dict, r->series, r->stack, text, sizeof(text));
			for (char *c = text; *c; c++)
				*c = *c == '|' ? ' ' : *c;
			text[strlen(text) - 1] = 0; /* the last ; */
			printf("%lu %s %lu %lu ", d.w.start_ms, text, r->count, r->value);
			for (uint64_t n = 0; n < r->count; n++)
				printf("%s%u", n ? "," : "", *t++);
			printf("\n");
		}
	}
	store_close(s);
	sender_done(&d);
	return 0;
}

int main(int argc, char **argv)
{
	if (argc == 3 && strcmp(argv[1], "make") == 0)
		return make_store(argv[2]);
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(what_is_appended_is_read, setup, teardown),
		cmocka_unit_test_setup_teardown(a_message_is_stored_once, setup, teardown),
		cmocka_unit_test_setup_teardown(late_parts_end_in_the_sums, setup, teardown),
		cmocka_unit_test_setup_teardown(sums_outlive_days_and_are_made_again, setup,
						teardown),
		cmocka_unit_test_setup_teardown(labels_select_and_group, setup, teardown),
		cmocka_unit_test_setup_teardown(a_selection_is_its_share, setup, teardown),
		cmocka_unit_test_setup_teardown(times_are_kept_for_a_day, setup, teardown),
		cmocka_unit_test_setup_teardown(beyond_the_caps_is_other, setup, teardown),
		cmocka_unit_test_setup_teardown(windows_out_of_time_are_refused, setup, teardown),
		cmocka_unit_test_setup_teardown(the_limit_of_size_takes_raw_first, setup, teardown),
		cmocka_unit_test_setup_teardown(age_takes_days_and_months, setup, teardown),
		cmocka_unit_test_setup_teardown(every_sample_is_accounted_for, setup, teardown),
		cmocka_unit_test_setup_teardown(damaged_files_are_set_aside, setup, teardown),
		cmocka_unit_test_setup_teardown(a_file_that_was_just_begun_is_none, setup,
						teardown),
		cmocka_unit_test_setup_teardown(a_store_that_is_deleted_begins_anew, setup,
						teardown),
		cmocka_unit_test_setup_teardown(there_is_one_writer, setup, teardown),
		cmocka_unit_test_setup_teardown(a_reader_needs_no_more_than_to_read, setup,
						teardown),
		cmocka_unit_test_setup_teardown(a_full_disk_is_said_and_got_over, setup, teardown),
		cmocka_unit_test_setup_teardown(a_sudden_end_loses_nothing, setup, teardown),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
