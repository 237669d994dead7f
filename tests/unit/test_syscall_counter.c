/*
 * Counting system calls where room for details ends: every call is still counted, once. Skipped
 * without the permissions.
 */
#include "unit/unit.h"

#include <sys/syscall.h>
#include <sys/wait.h>

#include "base/mem.h"
#include "collect/syscall_counter.h"
#include "syscall/calls.h"
#include "syscall/totals.h"

#define CHILDREN 6
#define TIMES    500

static struct syscall_counter *start(struct syscall_calls *calls, enum syscall_by by,
				     uint32_t slots)
{
	static struct syscall_counter_options o;
	struct syscall_counter *c;
	struct sampler_error why;

	o = (struct syscall_counter_options){
		.filter = {.cgroup_subsys = -1, .by_comm = true, .comm = "test_syscall_co"},
		.choice = {.by = by, .timed = true},
		.slots = slots,
	};
	syscall_calls_kinds(calls, o.kinds, &o.choice);
	assert_int_equal(syscall_calls_want(calls, "getppid", o.kinds), 0);
	assert_int_equal(syscall_calls_want(calls, "dup", o.kinds), 0);
	int r = syscall_counter_new(&o, &c, &why);
	if (r == -EPERM || r == -EACCES)
		skip();
	if (r)
		fail_msg("cannot %s: %s %s", why.doing, strerror(-r), why.detail);
	return c;
}

static void call_in_children(void)
{
	for (int i = 0; i < CHILDREN; i++) {
		if (fork() != 0)
			continue;
		for (int n = 0; n < TIMES; n++) {
			syscall(SYS_getppid);
			syscall(SYS_dup, -1);
		}
		_exit(0);
	}
	while (wait(NULL) > 0)
		;
}

static void take(struct syscall_counter *c, struct syscall_totals *t)
{
	const struct syscall_sink sink = {t, syscall_totals_slot, syscall_totals_error};

	assert_int_equal(syscall_counter_take(c, &sink), 0);
}

static void owners_without_room_are_counted_as_others(void **state)
{
	(void)state;
	struct syscall_calls *calls = syscall_calls_new();
	struct syscall_totals *t = syscall_totals_new(true, true);
	struct syscall_counter *c = start(calls, SYSCALL_BY_PROCESS, 3);
	uint64_t others = 0, errors = 0, timed = 0;
	size_t count;

	call_in_children();
	syscall_counter_stop(c);
	take(c, t);
	const struct syscall_row *rows = syscall_totals_rows(t, SYSCALL_ORDER_CALLS, &count);
	for (size_t i = 0; i < count; i++) {
		if (rows[i].id == SYSCALL_COUNTER_OTHERS)
			others += rows[i].calls;
		for (size_t e = 0; e < rows[i].error_count; e++)
			errors += rows[i].by_error[e].count;
		timed += rows[i].timed;
	}
	assert_int_equal(syscall_totals_sum(t)->calls, 2 * CHILDREN * TIMES);
	assert_int_equal(syscall_totals_sum(t)->errors, CHILDREN * TIMES);
	assert_int_equal(errors, CHILDREN * TIMES);
	assert_int_equal(timed, 2 * CHILDREN * TIMES);
	assert_true(others >= CHILDREN * TIMES);
	assert_int_equal(syscall_counter_untimed(c), 0);
	syscall_counter_free(c);
	syscall_totals_free(t);
	syscall_calls_free(calls);
}

/* Taken again and again while calls are made: none is missing, none is there twice. */
static void each_call_is_taken_once(void **state)
{
	(void)state;
	struct syscall_calls *calls = syscall_calls_new();

	for (int by = SYSCALL_BY_NOBODY; by <= SYSCALL_BY_THREAD; by++) {
		struct syscall_totals *t = syscall_totals_new(false, false);
		struct syscall_counter *c = start(calls, (enum syscall_by)by, 0);
		pid_t maker = fork();
		if (maker == 0) {
			call_in_children();
			_exit(0);
		}
		while (waitpid(maker, NULL, WNOHANG) == 0)
			take(c, t);
		syscall_counter_stop(c);
		take(c, t);
		assert_int_equal(syscall_totals_sum(t)->calls, 2 * CHILDREN * TIMES);
		assert_int_equal(syscall_totals_sum(t)->timed, 2 * CHILDREN * TIMES);
		syscall_counter_free(c);
		syscall_totals_free(t);
	}
	syscall_calls_free(calls);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(owners_without_room_are_counted_as_others),
		cmocka_unit_test(each_call_is_taken_once),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
