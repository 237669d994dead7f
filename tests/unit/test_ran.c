/* How long threads ran, by what the kernel's map says of them, as rows of windows. */
#include "unit/unit.h"

#include <string.h>

#include "base/mem.h"
#include "pipeline/ran.h"

#define SECOND 1000000000ull
#define WALL   (1700000000ull * SECOND) /* a multiple of ten seconds */
#define BEGIN  (1000 * SECOND)

struct fixture {
	struct profile *dict;
	struct windows *windows;
	struct processes *processes;
	struct ran *ran;
};

static struct fixture make(void)
{
	struct fixture f = {.dict = profile_new(), .processes = processes_new()};
	struct windows_options o = {
		.type = RAN_TYPE, .unit = "nanoseconds", .labels = {.host = "h"}};

	f.windows = windows_new(f.dict, &o);
	f.ran = ran_new(f.windows);
	windows_clock(f.windows, BEGIN, BEGIN, WALL);
	return f;
}

static void done(struct fixture *f)
{
	ran_free(f->ran);
	windows_free(f->windows);
	processes_free(f->processes);
	profile_free(f->dict);
}

/* All that was added since the last time; and rows, as counted. */
static uint64_t taken(struct fixture *f, uint64_t *ret_count)
{
	struct window w;
	uint64_t sum = 0;

	*ret_count = 0;
	while (windows_take(f->windows, f->processes, true, &w)) {
		for (uint32_t i = 0; i < w.row_count; i++) {
			assert_int_equal(w.rows[i].stack, 0);
			sum += w.rows[i].value;
			*ret_count += w.rows[i].count;
		}
		window_done(&w);
	}
	return sum;
}

static struct owner owner_of(uint32_t pid)
{
	return (struct owner){.pid = pid, .start = BEGIN, .comm = "api", .state = 1, .reason = 2};
}

static void what_is_more_is_reported(void **state)
{
	(void)state;
	struct fixture f = make();
	struct owner api = owner_of(7);
	struct site_thread t = {.tid = 7, .left = BEGIN, .ran = 300};
	uint64_t end = BEGIN + 2 * SECOND, count;

	ran_thread(f.ran, 5, &t, 0, NULL, end, false);
	assert_int_equal(taken(&f, &count), 0); /* nobody knows whose it is */
	ran_thread(f.ran, 5, &t, 0, &api, end, false);
	assert_int_equal(taken(&f, &count), 300);
	ran_thread(f.ran, 5, &t, 0, NULL, end, false);
	assert_int_equal(taken(&f, &count), 0);
	t.ran = 350;
	ran_thread(f.ran, 5, &t, 0, NULL, end, false);
	assert_int_equal(taken(&f, &count), 50);
	assert_int_equal(count, 1);
	done(&f);
}

static void what_it_runs_now_counts_up_to_the_end_of_the_window(void **state)
{
	(void)state;
	struct fixture f = make();
	struct owner api = owner_of(7);
	struct site_thread t = {.tid = 7, .left = BEGIN, .ran = 300};
	uint64_t back = BEGIN + SECOND, count;

	ran_thread(f.ran, 5, &t, back, &api, BEGIN + 3 * SECOND, false);
	assert_int_equal(taken(&f, &count), 2 * SECOND + 300);
	ran_thread(f.ran, 5, &t, back, &api, BEGIN + 4 * SECOND, false);
	assert_int_equal(taken(&f, &count), SECOND);
	/* It left, and all that it ran is in the sum: nothing is there twice. */
	t = (struct site_thread){.tid = 7, .left = BEGIN + 5 * SECOND, .ran = 4 * SECOND + 300};
	ran_thread(f.ran, 5, &t, 0, &api, BEGIN + 6 * SECOND, false);
	assert_int_equal(taken(&f, &count), SECOND);
	/* One that has ended runs no more. */
	t = (struct site_thread){.tid = 7 | SITES_ENDED, .ran = 4 * SECOND + 400};
	ran_thread(f.ran, 5, &t, BEGIN + 6 * SECOND, &api, BEGIN + 9 * SECOND, false);
	assert_int_equal(taken(&f, &count), 100);
	done(&f);
}

static void a_place_may_be_taken_by_another(void **state)
{
	(void)state;
	struct fixture f = make();
	struct owner api = owner_of(7), other = owner_of(8);
	struct site_thread t = {.tid = 7, .left = BEGIN, .ran = SECOND};
	uint64_t end = BEGIN + 2 * SECOND, count;

	ran_thread(f.ran, 5, &t, 0, &api, end, false);
	assert_int_equal(taken(&f, &count), SECOND);
	t = (struct site_thread){.tid = 8, .left = BEGIN, .ran = 20};
	ran_thread(f.ran, 5, &t, 0, &other, end, false);
	assert_int_equal(taken(&f, &count), 20);
	/* Of one whose name never came, at the end. */
	t = (struct site_thread){.tid = 9, .left = BEGIN, .ran = 30};
	ran_thread(f.ran, 6, &t, 0, NULL, end, true);
	assert_int_equal(taken(&f, &count), 30);
	ran_ended(f.ran, &api, end, 40);
	assert_int_equal(taken(&f, &count), 40);
	done(&f);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_is_more_is_reported),
		cmocka_unit_test(what_it_runs_now_counts_up_to_the_end_of_the_window),
		cmocka_unit_test(a_place_may_be_taken_by_another),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
