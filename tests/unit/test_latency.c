/* The time of threads, weighed by how few of their process run. */
#include "unit/unit.h"

#include <string.h>

#include "base/mem.h"
#include "pipeline/latency.h"
#include "unit/sample.h"

struct fixture {
	struct profile *profile;
	struct latency *latency;
	uint32_t threads[3]; /* two of one process, one of another */
};

static uint32_t series_of(struct profile *p, const char *pid, const char *tid)
{
	struct label l[2] = {{sample_string(p, "pid"), sample_string(p, pid)},
			     {sample_string(p, "tid"), sample_string(p, tid)}};

	return profile_series(p, l, 2);
}

static struct fixture make_of(enum latency_of of, uint32_t max)
{
	struct fixture f = {.profile = profile_new()};

	f.latency = latency_new(f.profile, of, max);
	f.threads[0] = series_of(f.profile, "7", "7");
	f.threads[1] = series_of(f.profile, "7", "8");
	f.threads[2] = series_of(f.profile, "9", "9");
	return f;
}

static struct fixture make(uint32_t max)
{
	return make_of(LATENCY_OF_PROCESS, max);
}

static void done(struct fixture *f)
{
	latency_free(f->latency);
	profile_free(f->profile);
}

static uint64_t value_of(const struct fixture *f, int thread, uint32_t stack)
{
	uint64_t sum = 0;

	for (uint32_t i = 0; i < f->profile->sample_count; i++)
		if (f->profile->samples[i].series == f->threads[thread] &&
		    f->profile->samples[i].stack == stack)
			sum += f->profile->samples[i].value;
	return sum;
}

static void those_that_run_side_by_side_share_a_moment(void **state)
{
	(void)state;
	struct fixture f = make(0);

	latency_ran(f.latency, f.threads[0], 1000, 3000);
	latency_ran(f.latency, f.threads[1], 2000, 3000);
	latency_ran(f.latency, f.threads[2], 1000, 3000); /* of another: it makes no difference */
	latency_sum(f.latency);
	assert_int_equal(value_of(&f, 0, 0), 1000 + 500);
	assert_int_equal(value_of(&f, 1, 0), 500);
	assert_int_equal(value_of(&f, 2, 0), 2000);
	done(&f);
}

static void a_wait_weighs_less_while_others_run(void **state)
{
	(void)state;
	struct fixture f = make(0);

	latency_ran(f.latency, f.threads[0], 2000, 4000);
	latency_ran(f.latency, f.threads[1], 2000, 4000);
	latency_waited(f.latency, f.threads[0], 5, 1000, 2000); /* before any ran */
	latency_waited(f.latency, f.threads[0], 6, 3000, 4000); /* as if it were a third one */
	latency_waited(f.latency, f.threads[0], 7, 4000, 9000); /* none runs any more */
	latency_waited(f.latency, f.threads[2], 8, 1000, 2000); /* none of its process ever runs */
	latency_sum(f.latency);
	assert_int_equal(value_of(&f, 0, 5), 1000);
	assert_int_equal(value_of(&f, 0, 6), 500);
	assert_int_equal(value_of(&f, 0, 7), 5000);
	assert_int_equal(value_of(&f, 2, 8), 1000);
	done(&f);
}

static void those_of_all_processes_can_be_counted(void **state)
{
	(void)state;
	struct fixture f = make_of(LATENCY_OF_MACHINE, 0);

	latency_ran(f.latency, f.threads[0], 1000, 4000);
	latency_ran(f.latency, f.threads[1], 2000, 4000);
	latency_ran(f.latency, f.threads[2], 3000, 5000);
	latency_waited(f.latency, f.threads[2], 5, 1000, 3000);
	latency_sample(f.latency, f.threads[2], 6, 3500, 300);
	latency_sum(f.latency);
	assert_int_equal(value_of(&f, 0, 0), 1000 + 500 + 333);
	assert_int_equal(value_of(&f, 1, 0), 500 + 333);
	assert_int_equal(value_of(&f, 2, 0), 333 + 1000);
	assert_int_equal(value_of(&f, 2, 5), 1000 + 500);
	assert_int_equal(value_of(&f, 2, 6), 100);
	done(&f);
}

static void samples_weigh_what_their_moment_does(void **state)
{
	(void)state;
	struct fixture f = make(0);

	latency_sample(f.latency, f.threads[0], 5, 1500, 100);
	latency_sample(f.latency, f.threads[0], 6, 2500, 100);
	latency_ran(f.latency, f.threads[1], 2000, 3000); /* told in any order */
	latency_ran(f.latency, f.threads[0], 1000, 3000);
	latency_sum(f.latency);
	assert_int_equal(value_of(&f, 0, 5), 100);
	assert_int_equal(value_of(&f, 0, 6), 50);
	done(&f);
}

static void no_more_than_the_cap(void **state)
{
	(void)state;
	struct fixture f = make(3);

	for (uint64_t i = 0; i < 5; i++)
		latency_ran(f.latency, f.threads[0], 1000 * i, 1000 * i + 10);
	assert_int_equal(latency_refused(f.latency), 2);
	latency_sum(f.latency);
	assert_int_equal(value_of(&f, 0, 0), 30);
	done(&f);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(those_that_run_side_by_side_share_a_moment),
		cmocka_unit_test(a_wait_weighs_less_while_others_run),
		cmocka_unit_test(those_of_all_processes_can_be_counted),
		cmocka_unit_test(samples_weigh_what_their_moment_does),
		cmocka_unit_test(no_more_than_the_cap),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
