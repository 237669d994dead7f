/* The type `wall`, computed from windows of cpu, oncpu and offcpu in a store. */
#include "unit/store.h"

#include "query/computed.h"

#define SECOND 1000000000ull

struct fact { /* one row of a window */
	const char *type, *comm, *pid, *state, *reason;
	const char *frames; /* from the root, "main;read;*ksys_read": * is a kernel frame */
	uint64_t count, value;
	uint32_t window; /* from BEGIN on */
};

static void put(struct store *s, struct profile *dict, const struct fact *f)
{
	static uint64_t sequence;
	struct window w = {.epoch = 1, .start_ms = BEGIN, .length_ms = WINDOW_MS, .row_count = 1};
	const char *const labels[][2] = {
		{"comm", f->comm}, {"pid", f->pid}, {"state", f->state}, {"reason", f->reason}};
	struct label l[4];
	size_t n = 0;
	uint32_t at = 0;
	char frames[256], *save, *name;

	w.sequence = ++sequence;
	w.start_ms += f->window * (uint64_t)WINDOW_MS;
	for (size_t i = 0; i < ARRAY_SIZE(labels); i++)
		if (labels[i][1])
			l[n++] = (struct label){str(dict, labels[i][0]), str(dict, labels[i][1])};
	snprintf(frames, sizeof(frames), "%s", f->frames);
	for (name = strtok_r(frames, ";", &save); name; name = strtok_r(NULL, ";", &save)) {
		struct frame frame = {.name = str(dict, name + (*name == '*')),
				      .kind = *name == '*'   ? FRAME_KERNEL
					      : *name == '[' ? FRAME_MARK
							     : FRAME_USER};
		at = profile_stack(dict, at, profile_frame(dict, &frame));
	}
	struct window_row row = {profile_series(dict, l, n), at, f->count, f->value};
	w.rows = &row;
	snprintf(w.type, sizeof(w.type), "%s", f->type);
	snprintf(w.unit, sizeof(w.unit), "nanoseconds");
	w.counts.taken = f->count;
	assert_int_equal(store_append(s, dict, &w, w.start_ms + WINDOW_MS, NULL), 0);
}

/* Two threads of api for 10 s, and one of db. */
static const struct fact facts[] = {
	{"oncpu", "api", "7", NULL, NULL, "", 4, 3 * SECOND, 0},
	{"cpu", "api", "7", NULL, NULL, "main;parse", 200, 2020202000, 0},
	{"cpu", "api", "7", NULL, NULL, "main;read;*ksys_read", 100, 1010101000, 0},
	{"offcpu", "api", "7", "uninterruptible", "disk", "main;read;*ksys_read;*io_schedule", 9,
	 5 * SECOND, 0},
	{"offcpu", "api", "7", "runnable", "cpu", "[runnable];main;parse", 3, 2 * SECOND, 0},
	{"offcpu", "api", "7", "idle", "poll", "[idle];main;wait;*ep_poll", 1, 10 * SECOND, 0},
	{"oncpu", "db", "8", NULL, NULL, "", 1, SECOND, 0},
	{"offcpu", "db", "8", "sleeping", "lock", "main;lock;*futex_wait", 1, 9 * SECOND, 0},
};

static struct store *filled(struct profile **ret_dict)
{
	struct store *s;

	assert_int_equal(store_open(dir, NULL, &s, NULL), 0);
	*ret_dict = profile_new();
	for (size_t i = 0; i < ARRAY_SIZE(facts); i++)
		put(s, *ret_dict, &facts[i]);
	return s;
}

static uint64_t value_of(const struct profile *p, const char *want)
{
	uint64_t sum = 0;

	for (uint32_t i = 0; i < p->sample_count; i++) {
		char text[4096];
		describe(p, p->samples[i].series, p->samples[i].stack, text, sizeof(text));
		if (strcmp(text, want) == 0)
			sum += p->samples[i].value;
	}
	return sum;
}

static uint64_t total_of(const struct profile *p)
{
	uint64_t sum = 0;

	for (uint32_t i = 0; i < p->sample_count; i++)
		sum += p->samples[i].value;
	return sum;
}

static const struct store_query everything = {.type = COMPUTED_WALL,
					      .from_ms = BEGIN,
					      .to_ms = BEGIN + WINDOW_MS,
					      .step_ms = WINDOW_MS,
					      .max = 100};

static void parts_sum_to_the_time_of_the_threads(void **state)
{
	(void)state;
	struct profile *dict, *p = profile_new();
	struct store *s = filled(&dict);
	struct store_answer answer;

	assert_int_equal(computed_sum(s, &everything, p, &answer, NULL), 0);
	assert_string_equal(p->info.type, "wall");
	assert_int_equal(p->info.duration_ns, 10 * SECOND);
	/* The samples divide what ran, however many of them there were. */
	assert_int_equal(value_of(p, "||[running: user]@;main@;parse@;"), 2 * SECOND);
	assert_int_equal(value_of(p, "||[running: kernel]@;main@;read@;ksys_read@;"), SECOND);
	assert_int_equal(value_of(p, "||[running: not sampled]@;"), SECOND);
	assert_int_equal(value_of(p, "||[waiting for a CPU]@;main@;parse@;"), 2 * SECOND);
	assert_int_equal(value_of(p, "||[blocked: disk]@;main@;read@;ksys_read@;io_schedule@;"),
			 5 * SECOND);
	assert_int_equal(value_of(p, "||[blocked: lock]@;main@;lock@;futex_wait@;"), 9 * SECOND);
	assert_int_equal(value_of(p, "||[idle]@;main@;wait@;ep_poll@;"), 10 * SECOND);
	assert_int_equal(total_of(p), 30 * SECOND);
	profile_free(p);
	profile_free(dict);
	store_close(s);
}

static void matchers_and_labels_are_those_of_the_query(void **state)
{
	(void)state;
	struct profile *dict, *p = profile_new();
	struct store *s = filled(&dict);
	struct store_answer answer;
	struct matcher m[2];
	const char *by[] = {"comm"};
	struct store_query q = everything;

	assert_int_equal(matcher_init(&m[0], "comm", MATCHER_EQUAL, "api", NULL), 0);
	assert_int_equal(matcher_init(&m[1], "state", MATCHER_NOT_EQUAL, "idle", NULL), 0);
	q.matchers = m;
	q.matcher_count = 2;
	q.by = by;
	q.by_count = 1;
	assert_int_equal(computed_sum(s, &q, p, &answer, NULL), 0);
	assert_int_equal(total_of(p), 10 * SECOND);
	assert_int_equal(value_of(p, "api||[running: user]@;main@;parse@;"), 2 * SECOND);
	for (uint32_t i = 0; i < p->sample_count; i++)
		assert_int_equal(p->series[p->samples[i].series].count, 1);
	q.exact = true;
	struct store_error why;
	assert_int_equal(computed_sum(s, &q, p, &answer, &why), -EINVAL);
	assert_non_null(strstr(why.text, "whole windows"));
	matcher_done(&m[0]);
	matcher_done(&m[1]);
	profile_free(p);
	profile_free(dict);
	store_close(s);
}

static void a_timeline_has_a_line_for_each_part(void **state)
{
	(void)state;
	struct profile *dict;
	struct store *s = filled(&dict);
	static const struct {
		const char *name;
		uint64_t seconds;
	} want[] = {{"running: user", 2},
		    {"running: kernel", 1},
		    {"running: not sampled", 1},
		    {"waiting for a CPU", 2},
		    {"blocked: lock", 9},
		    {"blocked: disk", 5},
		    {"idle", 10}};
	struct store_timeline t = {};
	struct store_query q = everything;
	const char *by[] = {"comm"};

	assert_int_equal(computed_timeline(s, &q, &t, NULL), 0);
	assert_int_equal(t.line_count, ARRAY_SIZE(want));
	for (size_t i = 0; i < ARRAY_SIZE(want); i++) {
		assert_string_equal(t.lines[i].value, want[i].name);
		assert_int_equal(t.lines[i].total, want[i].seconds * SECOND);
		assert_int_equal(t.lines[i].values[0], want[i].seconds * SECOND);
	}
	store_timeline_done(&t);

	q.by = by;
	q.by_count = 1;
	assert_int_equal(computed_timeline(s, &q, &t, NULL), 0);
	assert_int_equal(t.line_count, 2);
	assert_string_equal(t.lines[0].value, "api");
	assert_int_equal(t.lines[0].total, 20 * SECOND);
	assert_int_equal(t.lines[1].total, 10 * SECOND);
	store_timeline_done(&t);
	profile_free(dict);
	store_close(s);
}

/* The same process in three more windows: all user, all kernel, and too brief for a sample. */
static const struct fact later[] = {
	{"oncpu", "api", "7", NULL, NULL, "", 1, 4 * SECOND, 1},
	{"cpu", "api", "7", NULL, NULL, "main;parse", 100, 1010101000, 1},
	{"oncpu", "api", "7", NULL, NULL, "", 1, 5 * SECOND, 2},
	{"cpu", "api", "7", NULL, NULL, "main;read;*ksys_read", 100, 1010101000, 2},
	{"oncpu", "api", "7", NULL, NULL, "", 1, 5 * SECOND, 3},
	{"oncpu", "db", "8", NULL, NULL, "", 1, SECOND, 3},
	/* Known by samples alone; and one of two that share a pid, but not a name. */
	{"cpu", "web", "9", NULL, NULL, "main;*ksys_read", 7, SECOND, 3},
	{"oncpu", "sh", "8", NULL, NULL, "", 1, 2 * SECOND, 3},
	{"cpu", "sh", "8", NULL, NULL, "main;*do_exit", 1, 10101010, 3},
	/* A second by three samples. */
	{"oncpu", "odd", "5", NULL, NULL, "", 1, SECOND, 3},
	{"cpu", "odd", "5", NULL, NULL, "main;a", 1, 10101010, 3},
	{"cpu", "odd", "5", NULL, NULL, "main;b", 1, 10101010, 3},
	{"cpu", "odd", "5", NULL, NULL, "main;c", 1, 10101010, 3},
};

static void what_ran_is_divided_in_each_step(void **state)
{
	(void)state;
	struct profile *dict;
	struct store *s = filled(&dict);
	static const struct {
		const char *name;
		uint64_t seconds[4];
	} want[] = {{"running: user", {2, 4, 0, 3 + 1}},
		    {"running: kernel", {1, 0, 5, 2 + 1 + 2}},
		    {"running: not sampled", {1, 0, 0, 1}},
		    {"waiting for a CPU", {2}}};
	struct store_timeline t = {};
	struct store_query q = everything;

	for (size_t i = 0; i < ARRAY_SIZE(later); i++)
		put(s, dict, &later[i]);
	q.to_ms = BEGIN + 4 * WINDOW_MS;
	assert_int_equal(computed_timeline(s, &q, &t, NULL), 0);
	assert_int_equal(t.steps, 4);
	for (size_t i = 0; i < ARRAY_SIZE(want); i++) {
		uint64_t total = 0;
		assert_string_equal(t.lines[i].value, want[i].name);
		for (int j = 0; j < 4; j++) {
			assert_int_equal(t.lines[i].values[j], want[i].seconds[j] * SECOND);
			total += t.lines[i].values[j];
		}
		assert_int_equal(t.lines[i].total, total);
	}
	/* The flame graph of all four has the same sum, to the nanosecond. */
	struct profile *p = profile_new();
	struct store_answer answer;
	uint64_t all = 0;
	for (uint32_t i = 0; i < t.line_count; i++)
		all += t.lines[i].total;
	assert_int_equal(computed_sum(s, &q, p, &answer, NULL), 0);
	assert_int_equal(total_of(p), all);
	profile_free(p);
	store_timeline_done(&t);
	profile_free(dict);
	store_close(s);
}

static void types_that_are_sums_are_known_by_window(void **state)
{
	(void)state;
	struct profile *dict;
	struct store *s = filled(&dict);
	struct store_timeline t = {};
	struct store_query q = everything;
	struct matcher m;

	for (size_t i = 0; i < ARRAY_SIZE(later); i++)
		put(s, dict, &later[i]);
	q.to_ms = BEGIN + 5 * WINDOW_MS;
	q.step_ms = 60000; /* says nothing: it is of windows */
	assert_int_equal(computed_windows(s, &q, &t, NULL), 0);
	assert_int_equal(t.step_ms, WINDOW_MS);
	assert_int_equal(t.steps, 5);
	assert_int_equal(t.line_count, 1);
	static const uint64_t all[] = {30, 4, 5, 10, 0};
	for (int i = 0; i < 5; i++) {
		assert_int_equal(t.lines[0].values[i], all[i] * SECOND);
		assert_int_equal(t.covered[i], i < 4);
	}
	store_timeline_done(&t);

	assert_int_equal(matcher_init(&m, "state", MATCHER_NOT_EQUAL, "idle", NULL), 0);
	q.type = "offcpu";
	q.matchers = &m;
	q.matcher_count = 1;
	assert_int_equal(computed_windows(s, &q, &t, NULL), 0);
	assert_string_equal(t.unit, "nanoseconds");
	assert_int_equal(t.lines[0].values[0], 16 * SECOND);
	assert_int_equal(t.lines[0].total, 16 * SECOND);
	store_timeline_done(&t);
	matcher_done(&m);

	/* Nothing there is a line of nothing. */
	q = everything;
	q.type = "offcpu";
	q.from_ms -= 3600000;
	q.to_ms -= 3600000;
	assert_int_equal(computed_windows(s, &q, &t, NULL), 0);
	assert_int_equal(t.line_count, 1);
	assert_int_equal(t.lines[0].total, 0);
	store_timeline_done(&t);

	/* And of less than a window nothing is known, of whichever of them. */
	static const char *const types[] = {"offcpu", "oncpu", "wall"};
	for (size_t i = 0; i < ARRAY_SIZE(types); i++) {
		struct store_answer answer;
		struct store_error why;
		assert_false(computed_has_times(types[i]));
		q.type = types[i];
		q.exact = true;
		assert_int_equal(computed_sum(s, &q, dict, &answer, &why), -EINVAL);
		assert_non_null(strstr(why.text, types[i]));
		assert_non_null(strstr(why.text, "whole windows"));
	}
	assert_true(computed_has_times("cpu"));
	profile_free(dict);
	store_close(s);
}

static void wall_is_a_type_where_its_parts_are_stored(void **state)
{
	(void)state;
	struct profile *dict;
	struct store *s = filled(&dict);
	struct store_names n = {};
	struct store_query q = everything;

	q.type = NULL;
	assert_int_equal(computed_names(s, &q, STORE_TYPES, &n, NULL), 0);
	assert_int_equal(n.count, 4);
	assert_string_equal(n.names[3], "wall");
	store_names_done(&n);
	q.type = COMPUTED_WALL;
	assert_int_equal(computed_names(s, &q, STORE_LABELS, &n, NULL), 0);
	assert_int_equal(n.count, 4);
	store_names_done(&n);
	profile_free(dict);
	store_close(s);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(parts_sum_to_the_time_of_the_threads, setup,
						teardown),
		cmocka_unit_test_setup_teardown(matchers_and_labels_are_those_of_the_query, setup,
						teardown),
		cmocka_unit_test_setup_teardown(a_timeline_has_a_line_for_each_part, setup,
						teardown),
		cmocka_unit_test_setup_teardown(what_ran_is_divided_in_each_step, setup, teardown),
		cmocka_unit_test_setup_teardown(types_that_are_sums_are_known_by_window, setup,
						teardown),
		cmocka_unit_test_setup_teardown(wall_is_a_type_where_its_parts_are_stored, setup,
						teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
