/* What was counted of system calls: sums, percentiles of histograms, errors and their names. */
#include "unit/unit.h"

#include "base/mem.h"
#include "syscall/calls.h"
#include "syscall/errors.h"
#include "syscall/totals.h"

static struct syscall_slot timed_slot(uint64_t ns, unsigned bucket, unsigned times)
{
	struct syscall_slot s = {
		.calls = times,
		.timed = times,
		.total_ns = ns * times,
		.min_ns = ns,
		.max_ns = ns,
	};

	s.buckets[bucket] = times;
	return s;
}

static void cpus_add_up(void **state)
{
	(void)state;
	struct syscall_totals *t = syscall_totals_new(false, true);
	struct syscall_slot a = timed_slot(100, 6, 3), b = timed_slot(5000, 12, 1),
			    none = {.calls = 2};
	size_t count;

	syscall_totals_slot(t, 0, 7, &a, "");
	syscall_totals_slot(t, 0, 7, &b, "");
	syscall_totals_slot(t, 0, 7, &none, ""); /* begun before: its 0 is no latency */
	syscall_totals_slot(t, 0, 9, &a, "");
	syscall_totals_open(t, 0, 11, 777);
	const struct syscall_row *rows = syscall_totals_rows(t, SYSCALL_ORDER_CALLS, &count);
	assert_int_equal(count, 3);
	assert_int_equal(rows[0].call, 7);
	assert_int_equal(rows[0].calls, 6);
	assert_int_equal(rows[0].timed, 4);
	assert_int_equal(rows[0].min_ns, 100);
	assert_int_equal(rows[0].max_ns, 5000);
	assert_int_equal(rows[0].total_ns, 5300);
	assert_int_equal(rows[2].call, 11);
	assert_int_equal(rows[2].unfinished, 1);
	assert_int_equal(rows[2].longest_open_ns, 777);

	/* Rows are found again after they were sorted. */
	syscall_totals_slot(t, 0, 9, &b, "");
	rows = syscall_totals_rows(t, SYSCALL_ORDER_TOTAL, &count);
	assert_int_equal(count, 3);
	const struct syscall_row *sum = syscall_totals_sum(t);
	assert_int_equal(sum->calls, 10);
	assert_int_equal(sum->unfinished, 1);
	assert_int_equal(sum->min_ns, 100);

	syscall_totals_clear(t);
	syscall_totals_rows(t, SYSCALL_ORDER_TOTAL, &count);
	assert_int_equal(count, 0);
	syscall_totals_free(t);
	syscall_totals_free(NULL);
}

static void rows_are_by_what_was_asked(void **state)
{
	(void)state;
	struct syscall_totals *t = syscall_totals_new(true, false);
	struct syscall_slot a = timed_slot(100, 6, 1), failed = a;
	size_t count;

	failed.errors = 7; /* a sum of calls, which here is of no interest */
	syscall_totals_slot(t, 1, 7, &failed, "one");
	syscall_totals_slot(t, 1, 8, &failed, "");
	syscall_totals_slot(t, 2, 7, &a, "two");
	syscall_totals_error(t, 1, 7, ENOENT, 3);
	syscall_totals_error(t, 1, 8, ENOENT, 2);
	syscall_totals_error(t, 1, 8, EBADF, 9);
	const struct syscall_row *rows = syscall_totals_rows(t, SYSCALL_ORDER_CALLS, &count);
	assert_int_equal(count, 2);
	assert_int_equal(rows[0].id, 1);
	assert_int_equal(rows[0].calls, 2);
	assert_string_equal(rows[0].comm, "one");
	assert_int_equal(rows[0].error_count, 2);
	assert_int_equal(rows[0].by_error[0].error, EBADF);
	assert_int_equal(rows[0].by_error[1].count, 5);
	syscall_totals_free(t);
}

static void more_owners_than_rows_are_others(void **state)
{
	(void)state;
	struct syscall_totals *t = syscall_totals_new(true, true);
	struct syscall_slot a = timed_slot(100, 6, 1);
	uint64_t more = 100, calls = 0;
	size_t count;

	for (uint64_t id = 1; id <= SYSCALL_ROWS_MAX + more; id++)
		syscall_totals_slot(t, id, 7, &a, "x");
	const struct syscall_row *rows = syscall_totals_rows(t, SYSCALL_ORDER_CALLS, &count);
	assert_int_equal(count, SYSCALL_ROWS_MAX + 1);
	assert_int_equal(rows[0].id, UINT64_MAX);
	assert_int_equal(rows[0].calls, more);
	for (size_t i = 0; i < count; i++)
		calls += rows[i].calls;
	assert_int_equal(calls, SYSCALL_ROWS_MAX + more);
	syscall_totals_free(t);
}

/* An owner's calls may have found room on one CPU and none on another. */
static void errors_are_where_their_calls_are(void **state)
{
	(void)state;
	struct syscall_totals *t = syscall_totals_new(true, true);
	struct syscall_slot three = {.calls = 3, .errors = 3}, nine = {.calls = 9, .errors = 9};
	size_t count;

	syscall_totals_slot(t, 1, 7, &three, "one");
	syscall_totals_slot(t, UINT64_MAX, 7, &nine, "");
	syscall_totals_error(t, 1, 7, ENOENT, 5); /* two of them on the other CPU */
	syscall_totals_error(t, 2, 7, EBADF, 4);
	const struct syscall_row *rows = syscall_totals_rows(t, SYSCALL_ORDER_CALLS, &count);
	assert_int_equal(count, 2); /* none without calls */
	assert_int_equal(rows[0].id, UINT64_MAX);
	assert_int_equal(rows[0].error_count, 2);
	assert_int_equal(rows[0].by_error[0].error, EBADF);
	assert_int_equal(rows[0].by_error[0].count, 4);
	assert_int_equal(rows[0].by_error[1].count, 2);
	assert_int_equal(rows[1].error_count, 1);
	assert_int_equal(rows[1].by_error[0].count, 3);
	syscall_totals_free(t);
}

static void percentiles_lie_where_they_must(void **state)
{
	(void)state;
	struct syscall_row r = {.timed = 100, .min_ns = 1100, .max_ns = 1000000};

	assert_int_equal(syscall_row_percentile(&(struct syscall_row){}, 0.5), 0);
	r.buckets[10] = 98; /* 1024 to 2048 ns */
	r.buckets[19] = 2;
	assert_in_range(syscall_row_percentile(&r, 0.50), 1100, 2048);
	assert_in_range(syscall_row_percentile(&r, 0.98), 2000, 2048);
	assert_in_range(syscall_row_percentile(&r, 0.99), 524288, 1000000);
	assert_int_equal(syscall_row_percentile(&r, 1.0), 1000000);

	/* All alike: no percentile is another value than that one. */
	struct syscall_row same = {.timed = 5, .min_ns = 1500, .max_ns = 1500};
	same.buckets[10] = 5;
	assert_int_equal(syscall_row_percentile(&same, 0.50), 1500);
	assert_int_equal(syscall_row_percentile(&same, 0.99), 1500);

	/* The last bucket has no end but the longest call. */
	struct syscall_row slow = {.timed = 1, .min_ns = 1ull << 45, .max_ns = 1ull << 45};
	slow.buckets[SYSCALL_BUCKETS - 1] = 1;
	assert_int_equal(syscall_row_percentile(&slow, 0.5), 1ull << 45);
}

static void errors_have_names(void **state)
{
	(void)state;
	assert_string_equal(syscall_error_name(2), "ENOENT");
	assert_string_equal(syscall_error_name(512), "ERESTARTSYS");
	assert_null(syscall_error_name(0));
	assert_null(syscall_error_name(-2));
	assert_null(syscall_error_name(4000));
	assert_int_equal(syscall_error_number("ENOENT"), 2);
	assert_int_equal(syscall_error_number("enoent"), 2);
	assert_int_equal(syscall_error_number("11"), 11);
	assert_int_equal(syscall_error_number("0"), -ENOENT);
	assert_int_equal(syscall_error_number("11x"), -ENOENT);
	assert_int_equal(syscall_error_number("5000"), -ENOENT);
	assert_int_equal(syscall_error_number("ENOWHERE"), -ENOENT);
	assert_string_equal(syscall_error_nearest("enoen"), "ENOENT");
}

static void what_is_special_about_calls(void **state)
{
	(void)state;
	struct syscall_calls *c = syscall_calls_new();
	struct syscall_choice choice = {};
	uint8_t kinds[SYSCALL_CALLS];
	bool compat;
	unsigned wanted = 0;

	syscall_calls_kinds(c, kinds, &choice);
	assert_int_equal(syscall_calls_want(c, "exit_group", kinds), 0);
	assert_int_equal(syscall_calls_want(c, "exit_grup", kinds), -ENOENT);
	assert_int_equal(syscall_calls_want(c, "%nosuch", kinds), -ENOENT);
	for (uint32_t i = 0; i < SYSCALL_CALLS; i++) {
		if (!(kinds[i] & SYSCALL_WANTED))
			continue;
		wanted++;
		assert_string_equal(syscall_calls_name(c, i, &compat), "exit_group");
		assert_int_equal(kinds[i], SYSCALL_WANTED | SYSCALL_ENDS);
		assert_int_equal(compat, wanted == 2);
	}
	assert_int_equal(wanted, 2); /* ours, and that of 32-bit programs */
	assert_string_equal(syscall_calls_name(c, choice.sigreturn, &compat), "rt_sigreturn");
	assert_string_equal(syscall_calls_name(c, 510, &compat), "syscall_0x1fe");
	assert_string_equal(syscall_calls_nearest(c, "%fiel"), "file");
	assert_int_equal(syscall_calls_want(c, NULL, kinds), 0);
	assert_true(kinds[SYSCALL_UNKNOWN] & SYSCALL_WANTED);
	syscall_calls_free(c);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(cpus_add_up),
		cmocka_unit_test(rows_are_by_what_was_asked),
		cmocka_unit_test(more_owners_than_rows_are_others),
		cmocka_unit_test(errors_are_where_their_calls_are),
		cmocka_unit_test(percentiles_lie_where_they_must),
		cmocka_unit_test(errors_have_names),
		cmocka_unit_test(what_is_special_about_calls),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
