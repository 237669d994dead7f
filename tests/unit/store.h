/*
 * For tests of the store: senders of windows, the truth about what they sent, and a directory for
 * each test.
 */
#pragma once

#include "unit/unit.h"

#include <ftw.h>
#include <sys/mount.h>

#include "base/mem.h"
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
	const char *name; /* that of programs begins with */
};

static inline uint64_t next(struct sender *s)
{
	s->seed ^= s->seed << 13;
	s->seed ^= s->seed >> 7;
	s->seed ^= s->seed << 17;
	return s->seed >> 11;
}

static inline void sender_init(struct sender *s, uint64_t seed)
{
	*s = (struct sender){.dict = profile_new(),
			     .seed = seed,
			     .programs = 5,
			     .functions = 40,
			     .name = "prog"};
	for (size_t i = 0; i < sizeof(s->w.instance); i++)
		s->w.instance[i] = (uint8_t)(next(s) >> 3);
	s->w.epoch = 1;
	s->w.length_ms = WINDOW_MS;
	s->w.period = PERIOD;
	strcpy(s->w.type, "cpu");
	strcpy(s->w.unit, "nanoseconds");
}

static inline uint32_t str(struct profile *p, const char *s)
{
	return profile_string(p, s, strlen(s));
}

static inline uint32_t series(struct sender *s, int program)
{
	char comm[32], pid[32];

	snprintf(comm, sizeof(comm), "%s%d", s->name, program);
	snprintf(pid, sizeof(pid), "%d", 100 + program);
	struct label l[] = {
		{str(s->dict, "comm"), str(s->dict, comm)},
		{str(s->dict, "pid"), str(s->dict, pid)},
	};
	return profile_series(s->dict, l, 2);
}

static inline uint32_t stack(struct sender *s, int depth)
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

static inline int row_order(const void *a, const void *b)
{
	const struct window_row *x = a, *y = b;

	if (x->series != y->series)
		return x->series < y->series ? -1 : 1;
	return (x->stack > y->stack) - (x->stack < y->stack);
}

/* The next window, at `start`, with about `rows` pairs. */
static inline void make(struct sender *s, uint64_t start, int rows)
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
static inline void make_times(struct sender *s)
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

static inline void sender_done(struct sender *s)
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

static inline void describe(const struct profile *p, uint32_t series_id, uint32_t stack_id,
			    char *out, size_t room)
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

static inline void truth_add(struct truth *t, const struct profile *p, const struct window *w)
{
	char text[4096];

	for (uint32_t i = 0; i < w->row_count; i++) {
		describe(p, w->rows[i].series, w->rows[i].stack, text, sizeof(text));
		MEM_GROW(t->lines, t->count, t->cap);
		t->lines[t->count++] = (struct line){mem_strdup(text), w->start_ms,
						     w->rows[i].count, w->rows[i].value};
	}
}

static inline void truth_done(struct truth *t)
{
	for (size_t i = 0; i < t->count; i++)
		free(t->lines[i].text);
	free(t->lines);
}

static inline int line_order(const void *a, const void *b)
{
	return strcmp(((const struct line *)a)->text, ((const struct line *)b)->text);
}

static inline size_t sum_up(struct line *l, size_t count)
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
static inline void check(struct store *s, const struct truth *t, uint64_t from, uint64_t to)
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
					.by = both,
					.by_count = 2,
					.raw_only = raw_only};
		assert_int_equal(store_sum(s, &q, p, &a, NULL), 0);
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

static inline uint64_t total(struct store *s, uint64_t from, uint64_t to)
{
	struct profile *p = profile_new();
	struct store_answer a;
	struct store_query q = {.type = "cpu", .from_ms = from, .to_ms = to};

	assert_int_equal(store_sum(s, &q, p, &a, NULL), 0);
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

static inline int remove_one(const char *path, const struct stat *st, int flag, struct FTW *f)
{
	(void)st, (void)flag, (void)f;
	return remove(path);
}

static inline void remove_all(const char *path)
{
	nftw(path, remove_one, 16, FTW_DEPTH | FTW_PHYS);
}

static inline int setup(void **state)
{
	(void)state;
	snprintf(dir, sizeof(dir), "%s/smolder-store-XXXXXX",
		 getenv("TMPDIR") ? getenv("TMPDIR") : "/tmp");
	return mkdtemp(dir) ? 0 : -1;
}

static inline int teardown(void **state)
{
	(void)state;
	umount(dir); /* of a test that failed */
	remove_all(dir);
	return 0;
}

static inline struct store *open_with(const struct store_options *o)
{
	struct store *s;
	struct store_error e;

	int r = store_open(dir, o, &s, &e);
	if (r)
		fail_msg("store_open: %s", e.text);
	return s;
}

static inline void append(struct store *s, struct sender *d, struct truth *t, uint64_t now)
{
	struct store_error e;
	int r = store_append(s, d->dict, &d->w, now, &e);

	if (r)
		fail_msg("store_append: %d, %s", r, e.text);
	if (t)
		truth_add(t, d->dict, &d->w);
	while (store_maintain(s, now))
		;
}

static inline void settle(struct store *s, uint64_t now)
{
	while (store_maintain(s, now))
		;
}

static inline void check_sum(struct store *s, uint64_t taken, uint64_t lost, uint64_t died)
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
