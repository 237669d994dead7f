/* loop: signals that come together with what stops it. */
#include "unit/unit.h"

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/loop.h"

static void on_signal(void *ctx, int signo)
{
	(void)signo;
	++*(unsigned *)ctx;
}

static void stop_and_raise(void *ctx, int what)
{
	(void)what;
	raise(SIGINT);
	loop_stop(ctx);
}

/* The exit code of a child that stops its loop when a SIGINT has just come, and ends in order. */
static int end_with_signal(bool again)
{
	unsigned seen = 0;
	struct loop *l = loop_new();

	assert_int_equal(loop_end_signals(l, 0, on_signal, &seen), 0);
	assert_int_equal(loop_after(l, 1, stop_and_raise, l), 0);
	assert_int_equal(loop_run(l), 0);
	if (again)
		raise(SIGINT);
	loop_free(l);
	return 7;
}

static int status_of(bool again)
{
	int status;
	pid_t pid = fork();

	if (pid == 0)
		signal(SIGINT, SIG_DFL); /* a shell has it ignored for what runs behind it */
	if (pid == 0)
		_exit(end_with_signal(again));
	assert_int_equal(waitpid(pid, &status, 0), pid);
	return status;
}

static void a_signal_that_came_when_it_stopped_is_taken(void **state)
{
	(void)state;
	int status = status_of(false);

	assert_true(WIFEXITED(status));
	assert_int_equal(WEXITSTATUS(status), 7);
}

static void one_that_comes_later_is_delivered(void **state)
{
	(void)state;
	int status = status_of(true);

	assert_true(WIFSIGNALED(status));
	assert_int_equal(WTERMSIG(status), SIGINT);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_signal_that_came_when_it_stopped_is_taken),
		cmocka_unit_test(one_that_comes_later_is_delivered),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
