#include "unit/unit.h"

#include "base/mem.h"
#include "pipeline/windows.h"

#define SECOND 1000000000ull
#define WALL   (1700000000ull * SECOND) /* a multiple of ten seconds */

struct fixture {
	struct profile *dict;
	struct windows *windows;
	struct processes *processes;
	uint64_t monotonic, wall;
};

static struct fixture make_with(uint32_t rows_max, uint64_t period)
{
	struct fixture f = {.dict = profile_new(), .processes = processes_new()};
	struct windows_options o = {.type = "cpu",
				    .unit = "nanoseconds",
				    .period = period,
				    .labels = {.host = "h"},
				    .rows_max = rows_max};

	f.windows = windows_new(f.dict, &o);
	f.monotonic = 1000 * SECOND;
	f.wall = WALL;
	windows_clock(f.windows, f.monotonic, f.monotonic, f.wall);
	return f;
}

static struct fixture make(uint32_t rows_max)
{
	return make_with(rows_max, 10);
}

static void done(struct fixture *f)
{
	windows_free(f->windows);
	processes_free(f->processes);
	profile_free(f->dict);
}

/* Time passes; the wall clock may step as well. */
static void pass(struct fixture *f, double seconds, double step)
{
	f->monotonic += (uint64_t)(seconds * 1e9);
	f->wall += (uint64_t)(int64_t)((seconds + step) * 1e9);
	windows_clock(f->windows, f->monotonic, f->monotonic, f->wall);
}

/* Like the end of one drain and the beginning of the next. */
static void settle(struct fixture *f)
{
	windows_clock(f->windows, f->monotonic, f->monotonic, f->wall);
}

/* Of a process that is older than any window. */
static struct wire_event sample(uint32_t pid, const char *comm, uint64_t at)
{
	struct wire_event s = {
		.time = at, .pid = pid, .tid = pid, .value = 10, .process_start = SECOND};

	snprintf(s.comm, sizeof(s.comm), "%s", comm);
	snprintf(s.thread, sizeof(s.thread), "%s", comm);
	return s;
}

static void put(struct fixture *f, uint32_t pid, const char *comm, uint32_t stack, uint64_t at)
{
	struct wire_event s = sample(pid, comm, at);

	windows_add(f->windows, f->processes, &(struct assembled){.event = &s, .stack = stack});
}

static uint64_t sum(const struct window *w)
{
	uint64_t n = 0;

	for (uint32_t i = 0; i < w->row_count; i++)
		n += w->rows[i].count;
	assert_int_equal(n, w->time_count);
	return n;
}

/* 99 ticks a second on a CPU that begins somewhere in a tick: which slots of the second they are
 * in. */
static void slots_of_a_second(uint64_t phase, uint64_t period, uint32_t ret[static 50])
{
	struct fixture f = make_with(0, period);
	struct window w;

	memset(ret, 0, 50 * sizeof(*ret));
	pass(&f, 0.5, 0); /* in the middle of the window's first second */
	for (uint64_t tick = 0; tick < SECOND / period; tick++)
		put(&f, 1, "a", 5, f.monotonic - SECOND / 2 + phase + tick * period);
	pass(&f, 20, 0);
	settle(&f);
	assert_true(windows_take(f.windows, f.processes, false, &w));
	for (uint32_t i = 0; i < w.time_count; i++)
		if (w.times[i] < 50)
			ret[w.times[i]]++;
	window_done(&w);
	done(&f);
}

static void what_a_slot_holds_follows_from_the_rate(void **state)
{
	(void)state;
	uint32_t first[50], other[50];

	for (uint64_t hz = 19; hz <= 997; hz = hz == 19 ? 99 : hz * 10 + 7) {
		uint64_t period = SECOND / hz, sum_ = 0;
		slots_of_a_second(0, period, first);
		for (int i = 0; i < 50; i++)
			sum_ += first[i];
		assert_int_equal(sum_, hz);
		for (uint64_t phase = 1; phase < period; phase += period / 7) {
			slots_of_a_second(phase, period, other);
			assert_memory_equal(first, other, sizeof(first));
		}
	}
}

static void windows_are_aligned_and_add_up(void **state)
{
	(void)state;
	struct fixture f = make(0);
	struct window w;

	pass(&f, 3.01, 0);
	put(&f, 1, "a", 5, f.monotonic);
	put(&f, 1, "a", 5, f.monotonic);
	put(&f, 2, "b", 4, f.monotonic);
	assert_false(windows_take(f.windows, f.processes, false, &w));
	pass(&f, 7, 0); /* past the end, but a drain may still bring more */
	assert_false(windows_take(f.windows, f.processes, false, &w));
	pass(&f, 1, 0);
	assert_true(windows_take(f.windows, f.processes, false, &w));
	assert_int_equal(w.start_ms, WALL / 1000000);
	assert_int_equal(w.length_ms, 10000);
	assert_int_equal(w.row_count, 2);
	assert_int_equal(sum(&w), 3);
	assert_int_equal(w.rows[0].value, w.rows[0].count * 10);
	assert_int_equal(w.times[0], 3010 / WINDOW_STEP_MS);
	assert_string_equal(profile_label(f.dict, w.rows[0].series, "comm"), "a");
	assert_string_equal(profile_label(f.dict, w.rows[0].series, "host"), "h");
	window_done(&w);
	assert_false(windows_take(f.windows, f.processes, false, &w));

	/* Late: the same window again, to be added. */
	put(&f, 1, "a", 5, f.monotonic - 9 * SECOND);
	assert_true(windows_take(f.windows, f.processes, false, &w));
	assert_int_equal(w.start_ms, WALL / 1000000);
	assert_int_equal(sum(&w), 1);
	window_done(&w);
	done(&f);
}

static void a_clock_that_steps_back_makes_no_window_twice(void **state)
{
	(void)state;
	struct fixture f = make(0);
	struct window w;
	uint64_t last = 0, total = 0, put_in = 0;

	for (int i = 0; i < 1000; i++) {
		pass(&f, 0.1, i == 333 ? -7.5 : i == 400 ? -20 : 0);
		put(&f, 1, "a", 1, f.monotonic - SECOND / 20);
		put_in++;
		while (windows_take(f.windows, f.processes, false, &w)) {
			assert_true(w.start_ms > last);
			last = w.start_ms;
			total += sum(&w);
			window_done(&w);
		}
	}
	while (windows_take(f.windows, f.processes, true, &w)) {
		assert_true(w.start_ms > last);
		last = w.start_ms;
		total += sum(&w);
		window_done(&w);
	}
	assert_int_equal(total, put_in);
	struct windows_stats s = {};
	windows_stats(f.windows, &s);
	assert_int_equal(s.steps, 2);
	assert_int_equal(s.open, 0);
	done(&f);
}

static void sleep_and_steps_forward_leave_a_gap(void **state)
{
	(void)state;
	struct fixture f = make(0);
	struct window w;

	pass(&f, 1, 0);
	put(&f, 1, "a", 1, f.monotonic);
	pass(&f, 0.1, 3600); /* the machine slept: its monotonic clock did, too */
	put(&f, 1, "a", 1, f.monotonic - SECOND / 20); /* from before */
	settle(&f);
	pass(&f, 0.1, 0);
	put(&f, 1, "a", 1, f.monotonic);
	pass(&f, 12, 0);
	assert_true(windows_take(f.windows, f.processes, false, &w));
	assert_int_equal(w.start_ms, WALL / 1000000);
	assert_int_equal(sum(&w), 2);
	window_done(&w);
	assert_true(windows_take(f.windows, f.processes, false, &w));
	assert_int_equal(w.start_ms, WALL / 1000000 + 3600 * 1000);
	assert_int_equal(sum(&w), 1);
	window_done(&w);
	done(&f);
}

static void a_large_step_back_is_followed(void **state)
{
	(void)state;
	struct fixture f = make(0);
	struct window w;

	pass(&f, 1, 0);
	put(&f, 1, "a", 1, f.monotonic);
	pass(&f, 0.1, -7200);
	settle(&f);
	put(&f, 1, "a", 1, f.monotonic);
	pass(&f, 11, 0);
	bool old = false, new = false;
	while (windows_take(f.windows, f.processes, false, &w)) {
		old |= w.start_ms == WALL / 1000000;
		new |= w.start_ms == WALL / 1000000 - 7200 * 1000;
		assert_int_equal(sum(&w), 1);
		window_done(&w);
	}
	assert_true(old && new);
	done(&f);
}

static void too_many_rows_are_others(void **state)
{
	(void)state;
	struct fixture f = make(10);
	struct window w;

	for (uint32_t i = 1; i <= 100; i++)
		put(&f, 1, "a", i, f.monotonic);
	assert_true(windows_take(f.windows, f.processes, true, &w));
	assert_int_equal(sum(&w), 100);
	assert_true(w.row_count <= 11);
	bool found = false;
	for (uint32_t i = 0; i < w.row_count; i++)
		if (w.rows[i].stack == 0) {
			assert_string_equal(profile_label(f.dict, w.rows[i].series, "comm"),
					    "(other)");
			found = true;
		}
	assert_true(found);
	struct windows_stats s = {};
	windows_stats(f.windows, &s);
	assert_int_equal(s.other, 100 - 9);
	window_done(&w);
	done(&f);
}

static void short_lived_processes_share_a_series(void **state)
{
	(void)state;
	struct fixture f = make(0);
	struct window w;

	/* Processes that are not in the table have ended; some samples are of their very end. */
	struct process gone = {};
	for (uint32_t pid = 100; pid < 150; pid++) {
		struct wire_event s = {.time = f.monotonic,
				       .pid = pid,
				       .tid = pid,
				       .value = 10,
				       .process_start = f.monotonic + pid,
				       .flags = WIRE_IN_KERNEL | WIRE_NO_USER,
				       .comm = "ls",
				       .thread = "ls"};
		struct assembled a = {.event = &s, .process = pid % 2 ? &gone : NULL, .stack = 1};
		windows_add(f.windows, f.processes, &a);
	}
	assert_true(windows_take(f.windows, f.processes, true, &w));
	assert_int_equal(w.row_count, 1);
	assert_int_equal(w.rows[0].count, 50);
	assert_null(profile_label(f.dict, w.rows[0].series, "pid"));
	window_done(&w);
	done(&f);
}

static void threads_of_the_kernel_keep_their_pid(void **state)
{
	(void)state;
	struct fixture f = make(0);
	struct window w;

	for (uint32_t pid = 100; pid < 103; pid++) {
		struct wire_event s = {.time = f.monotonic,
				       .pid = pid,
				       .tid = pid,
				       .value = 10,
				       .process_start = f.monotonic + pid,
				       .flags = WIRE_IN_KERNEL | WIRE_NO_USER | WIRE_KTHREAD,
				       .comm = "rcu",
				       .thread = "rcu"};
		windows_add(f.windows, f.processes, &(struct assembled){.event = &s, .stack = 1});
	}
	assert_true(windows_take(f.windows, f.processes, true, &w));
	assert_int_equal(w.row_count, 3);
	for (uint32_t i = 0; i < w.row_count; i++)
		assert_non_null(profile_label(f.dict, w.rows[i].series, "pid"));
	window_done(&w);
	done(&f);
}

static void digits_in_thread_names_fold(void **state)
{
	(void)state;
	struct fixture f = make(0);
	struct window w;

	for (int i = 0; i < 20; i++) {
		struct wire_event s = {
			.time = f.monotonic, .pid = 7, .tid = 100 + i, .value = 10, .comm = "java"};
		snprintf(s.thread, sizeof(s.thread), "pool-%d-thr-%d", i, i * 7);
		windows_add(f.windows, f.processes, &(struct assembled){.event = &s, .stack = 1});
	}
	assert_true(windows_take(f.windows, f.processes, true, &w));
	assert_int_equal(w.row_count, 1);
	assert_string_equal(profile_label(f.dict, w.rows[0].series, "thread"), "pool-#-thr-#");
	window_done(&w);
	done(&f);
}

/* A number that is part of a name is no number of one among many. */
static void names_with_a_digit_stay_apart(void **state)
{
	(void)state;
	static const struct {
		const char *thread, *label;
	} t[] = {
		{"C1 CompilerThre", "C1 CompilerThre"},
		{"C2 CompilerThre", "C2 CompilerThre"},
		{"G1 Conc#12", "G1 Conc#"},
		{"GC Thread#3", "GC Thread#"},
		{"w1", "w#"},
		{"t7-io", "t#-io"},
		{"C1 ", "C# "},
	};

	for (size_t i = 0; i < ARRAY_SIZE(t); i++) {
		struct fixture f = make(0);
		struct window w;
		struct wire_event s = {.time = f.monotonic, .pid = 7, .comm = "java"};
		snprintf(s.thread, sizeof(s.thread), "%s", t[i].thread);
		windows_add(f.windows, f.processes, &(struct assembled){.event = &s, .stack = 1});
		assert_true(windows_take(f.windows, f.processes, true, &w));
		assert_string_equal(profile_label(f.dict, w.rows[0].series, "thread"), t[i].label);
		window_done(&w);
		done(&f);
	}
}

static void live_windows_are_a_second(void **state)
{
	(void)state;
	struct fixture f = make(0);
	struct window w;

	pass(&f, 2, 0);
	put(&f, 1, "a", 1, f.monotonic);
	windows_set_length(f.windows, 1000);
	assert_true(windows_take(f.windows, f.processes, false, &w)); /* cut at once */
	window_done(&w);
	assert_false(windows_take(f.windows, f.processes, false, &w));
	pass(&f, 1.5, 0);
	put(&f, 1, "a", 1, f.monotonic);
	pass(&f, 1.2, 0);
	assert_true(windows_take(f.windows, f.processes, false, &w));
	assert_int_equal(w.length_ms, 1000);
	assert_int_equal(w.start_ms, WALL / 1000000 + 3000);
	window_done(&w);
	done(&f);
}

static void put_thread(struct fixture *f, const char *comm, uint32_t tid, const char *thread)
{
	struct wire_event s = {.time = f->monotonic,
			       .pid = 7,
			       .tid = tid,
			       .value = 10,
			       .process_start = 5 * SECOND};

	snprintf(s.comm, sizeof(s.comm), "%s", comm);
	snprintf(s.thread, sizeof(s.thread), "%s", thread);
	windows_add(f->windows, f->processes, &(struct assembled){.event = &s, .stack = 1});
}

static bool has(const struct fixture *f, const struct window *w, const char *key, const char *value)
{
	for (uint32_t i = 0; i < w->row_count; i++) {
		const char *is = profile_label(f->dict, w->rows[i].series, key);
		if (is && strcmp(is, value) == 0)
			return true;
	}
	return false;
}

static void threads_that_are_asked_for_are_series(void **state)
{
	(void)state;
	static const char *const names[] = {"api", "a-name-of-15-by", NULL};
	struct fixture f = make(0);
	struct windows_options o = {.type = "cpu",
				    .unit = "nanoseconds",
				    .period = 10,
				    .labels = {.host = "h", .threads = names, .threads_max = 3}};
	struct windows_stats stats = {};
	struct window w;

	windows_free(f.windows);
	f.windows = windows_new(f.dict, &o);
	windows_clock(f.windows, f.monotonic, f.monotonic, f.wall);
	put_thread(&f, "api", 7, "api");
	put_thread(&f, "api", 8, "worker-1");
	put_thread(&f, "api", 9, "worker-2");
	put_thread(&f, "other", 10, "worker-1");
	put_thread(&f, "other", 11, "worker-2");
	assert_true(windows_take(f.windows, f.processes, true, &w));
	assert_int_equal(w.row_count, 4); /* the other one's two are one */
	assert_true(has(&f, &w, "tid", "7") && has(&f, &w, "tid", "8") && has(&f, &w, "tid", "9"));
	assert_true(has(&f, &w, "thread", "worker-2") && has(&f, &w, "thread", "worker-#"));
	assert_false(has(&f, &w, "tid", "10"));
	window_done(&w);

	/* Beyond the cap of a day threads are as all others, and counted; the known ones stay. */
	pass(&f, 10, 0);
	put_thread(&f, "api", 9, "worker-2");
	put_thread(&f, "api", 12, "worker-3");
	put_thread(&f, "api", 13, "worker-4");
	assert_true(windows_take(f.windows, f.processes, true, &w));
	assert_int_equal(w.row_count, 2);
	assert_true(has(&f, &w, "tid", "9") && has(&f, &w, "thread", "worker-#"));
	assert_false(has(&f, &w, "tid", "12") || has(&f, &w, "tid", "13"));
	window_done(&w);
	windows_stats(f.windows, &stats);
	assert_int_equal(stats.folded, 2);

	/* The next day has room again. */
	pass(&f, 86400, 0);
	settle(&f);
	put_thread(&f, "api", 12, "worker-3");
	assert_true(windows_take(f.windows, f.processes, true, &w));
	assert_true(has(&f, &w, "tid", "12"));
	window_done(&w);
	done(&f);
}

static void sums_are_rows_without_times(void **state)
{
	(void)state;
	struct fixture f = make_with(0, 0);
	struct owner who = {.pid = 7, .comm = "db"}, other;
	struct window w;
	uint64_t end = 0;

	assert_false(windows_has_ended(f.windows, &end)); /* the first one asks from here on */
	who.state = profile_string(f.dict, "sleeping", 8);
	other = who;
	other.state = profile_string(f.dict, "runnable", 8);
	windows_add_sum(f.windows, &who, f.monotonic, 5, 1000000, 40);
	windows_add_sum(f.windows, &who, f.monotonic + SECOND, 5, 2, 3);
	windows_add_sum(f.windows, &other, f.monotonic, 5, 1, 7);
	pass(&f, 10.25, 0);
	assert_true(windows_has_ended(f.windows, &end));
	assert_int_equal(end, 1010 * SECOND);
	assert_false(windows_has_ended(f.windows, &end));

	assert_true(windows_take(f.windows, f.processes, true, &w));
	assert_null(w.times);
	assert_int_equal(w.row_count, 2);
	uint64_t counts = w.rows[0].count + w.rows[1].count;
	assert_int_equal(counts, 1000003);
	assert_int_equal(w.rows[0].value + w.rows[1].value, 50);
	assert_true(has(&f, &w, "state", "sleeping"));
	assert_true(has(&f, &w, "state", "runnable"));
	window_done(&w);
	done(&f);
}

/* What is dropped: `comm` "b". */
static struct fixture make_with_rules(struct series_rules *rules)
{
	struct fixture f = make(0);
	struct windows_options o = {.type = "cpu",
				    .unit = "nanoseconds",
				    .period = 10,
				    .labels = {.host = "h", .rules = rules}};

	windows_free(f.windows);
	f.windows = windows_new(f.dict, &o);
	settle(&f);
	return f;
}

static bool is_wanted(const struct fixture *f, uint32_t pid, const char *comm)
{
	struct wire_event s = sample(pid, comm, f->monotonic);

	return windows_wants(f->windows, &s);
}

static void rules_drop_series_before_their_stacks(void **state)
{
	struct relabel *relabel = relabel_new();
	const struct relabel_rule drop = {
		.action = "drop", .source_labels = {"service"}, .regex = "b"};
	const struct relabel_rule rename = {.source_labels = {"comm"}, .target_label = "name"};
	struct relabel_error e;
	struct window w;

	(void)state;
	assert_int_equal(relabel_add(relabel, &drop, &e), 0);
	assert_int_equal(relabel_add(relabel, &rename, &e), 0);
	struct series_rules *rules = series_rules_new(relabel);
	series_rules_label(rules, "env", "test");
	struct fixture f = make_with_rules(rules);
	put(&f, 1, "a", 5, f.monotonic);
	assert_true(is_wanted(&f, 2, "b")); /* it was not met yet */
	for (uint32_t stack = 5; stack < 8; stack++)
		put(&f, 2, "b", stack, f.monotonic);
	assert_false(is_wanted(&f, 2, "b"));
	assert_true(is_wanted(&f, 1, "a"));
	pass(&f, 20, 0);
	settle(&f);
	assert_true(windows_take(f.windows, f.processes, false, &w));
	assert_int_equal(w.row_count, 2);
	assert_int_equal(sum(&w), 4);
	for (uint32_t i = 0; i < w.row_count; i++) {
		const struct window_row *r = &w.rows[i];
		const char *comm = profile_label(f.dict, r->series, "comm");
		bool is_dropped = strcmp(comm, "(dropped)") == 0;
		assert_int_equal(r->count, is_dropped ? 3 : 1);
		assert_int_equal(r->stack, is_dropped ? 0 : 5);
		if (is_dropped)
			continue;
		assert_string_equal(profile_label(f.dict, r->series, "name"), "a");
		assert_string_equal(profile_label(f.dict, r->series, "env"), "test");
		assert_string_equal(profile_label(f.dict, r->series, "service"), "a");
	}
	struct windows_stats stats = {};
	windows_stats(f.windows, &stats);
	assert_int_equal(stats.dropped, 3);
	window_done(&w);
	done(&f);
	series_rules_free(rules);
	relabel_free(relabel);
}

static void rules_about_what_is_known_late_drop_late(void **state)
{
	struct relabel *relabel = relabel_new();
	const struct relabel_rule drop = {.action = "drop", .source_labels = {"pid"}, .regex = "2"};
	struct relabel_error e;
	struct window w;

	(void)state;
	assert_int_equal(relabel_add(relabel, &drop, &e), 0);
	struct series_rules *rules = series_rules_new(relabel);
	struct fixture f = make_with_rules(rules);
	put(&f, 1, "a", 5, f.monotonic);
	put(&f, 2, "a", 5, f.monotonic);
	assert_true(is_wanted(&f, 2, "a"));
	pass(&f, 20, 0);
	settle(&f);
	assert_true(windows_take(f.windows, f.processes, false, &w));
	assert_int_equal(w.row_count, 2);
	for (uint32_t i = 0; i < w.row_count; i++)
		if (w.rows[i].stack == 5)
			assert_string_equal(profile_label(f.dict, w.rows[i].series, "pid"), "1");
		else
			assert_string_equal(profile_label(f.dict, w.rows[i].series, "comm"),
					    "(dropped)");
	window_done(&w);
	done(&f);
	series_rules_free(rules);
	relabel_free(relabel);
}

/* A sample in the n-th span of a trace; 0: in none. */
static void put_span(struct fixture *f, uint32_t stack, uint32_t n)
{
	struct {
		struct wire_event s;
		struct wire_span span;
	} e = {.s = {.time = f->monotonic - 1, .pid = 1, .tid = 1, .value = 10, .comm = "a"}};

	e.s.flags = n ? WIRE_SPAN : 0;
	memset(e.span.trace, 7, sizeof(e.span.trace));
	memcpy(e.span.span, &n, sizeof(n));
	windows_add(f->windows, f->processes, &(struct assembled){.event = &e.s, .stack = stack});
}

static void spans_stand_beside_the_rows(void **state)
{
	struct fixture f = make(0);
	struct window w;

	(void)state;
	pass(&f, 1, 0);
	put_span(&f, 6, 2);
	put_span(&f, 5, 0);
	put_span(&f, 5, 1);
	put_span(&f, 5, 2);
	put_span(&f, 5, 1);
	pass(&f, 20, 0);
	settle(&f);
	assert_true(windows_take(f.windows, f.processes, false, &w));
	assert_int_equal(sum(&w), 5); /* as without spans */
	assert_int_equal(w.row_count, 2);
	assert_int_equal(w.span_count, 2);
	assert_int_equal(w.span_row_count, 3);
	static const struct {
		uint32_t stack, count;
		uint8_t span;
	} want[] = {{5, 1, 2}, {5, 2, 1}, {6, 1, 2}};
	for (uint32_t i = 0; i < 3; i++) {
		const struct window_span_row *r = &w.span_rows[i];
		assert_int_equal(r->stack, want[i].stack);
		assert_int_equal(r->count, want[i].count);
		assert_int_equal(r->value, want[i].count * 10);
		assert_int_equal(w.spans[r->span].span[0], want[i].span);
		assert_int_equal(w.spans[r->span].trace[15], 7);
	}
	window_done(&w);
	done(&f);
}

static void too_many_spans_are_counted(void **state)
{
	struct fixture f = make(0);
	struct windows_stats stats = {};
	struct window w;

	(void)state;
	pass(&f, 1, 0);
	for (uint32_t i = 1; i <= 20000; i++)
		put_span(&f, 5, i);
	put_span(&f, 5, 1); /* is known already */
	windows_stats(f.windows, &stats);
	assert_int_equal(stats.spans_left_out, 20000 - 16384);
	pass(&f, 20, 0);
	settle(&f);
	assert_true(windows_take(f.windows, f.processes, false, &w));
	assert_int_equal(sum(&w), 20001);
	assert_int_equal(w.span_row_count, 16384);
	for (uint32_t at = 0, next; at < w.span_row_count; at = next) {
		struct window part;
		next = window_cut_spans(&w, at, &part);
		assert_int_equal(part.span_row_count, WINDOW_SPANS_MAX);
		assert_int_equal(part.span_count, WINDOW_SPANS_MAX);
		assert_string_equal(part.type, w.type);
		for (uint32_t i = 0; i < part.span_row_count; i++) {
			const struct window_span_row *r = &part.span_rows[i];
			assert_memory_equal(&part.spans[r->span],
					    &w.spans[w.span_rows[at + i].span],
					    sizeof(*part.spans));
		}
		window_done(&part);
	}
	window_done(&w);
	done(&f);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(windows_are_aligned_and_add_up),
		cmocka_unit_test(what_a_slot_holds_follows_from_the_rate),
		cmocka_unit_test(a_clock_that_steps_back_makes_no_window_twice),
		cmocka_unit_test(sleep_and_steps_forward_leave_a_gap),
		cmocka_unit_test(a_large_step_back_is_followed),
		cmocka_unit_test(too_many_rows_are_others),
		cmocka_unit_test(short_lived_processes_share_a_series),
		cmocka_unit_test(threads_of_the_kernel_keep_their_pid),
		cmocka_unit_test(digits_in_thread_names_fold),
		cmocka_unit_test(names_with_a_digit_stay_apart),
		cmocka_unit_test(live_windows_are_a_second),
		cmocka_unit_test(threads_that_are_asked_for_are_series),
		cmocka_unit_test(sums_are_rows_without_times),
		cmocka_unit_test(rules_drop_series_before_their_stacks),
		cmocka_unit_test(rules_about_what_is_known_late_drop_late),
		cmocka_unit_test(spans_stand_beside_the_rows),
		cmocka_unit_test(too_many_spans_are_counted),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
