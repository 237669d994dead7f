#include "unit/unit.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/bpf.h>
#include <linux/openat2.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/loop.h"
#include "base/mem.h"
#include "base/privilege.h"

/* A filter is for ever, so each test has a process of its own; 0: all was as expected. */
static int in_child(int (*fn)(void))
{
	int status;
	pid_t pid = fork();

	if (pid == 0) {
		int r = prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) ? 100 : 0;
		r = r ? r : privilege_filter_collector() ? 101 : fn();
		_exit(r);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
}

static int refuse_some(void)
{
	struct privilege_refused calls[PRIVILEGE_REFUSED_MAX];

	if (privilege_refused(calls) != 0)
		return 1;
	for (int i = 0; i < 3; i++)
		if (syscall(SYS_chroot, "/") != -1 || errno != EPERM)
			return 2;
	/* One that is newer than what libraries must have: they know what to do without it. */
	if (syscall(SYS_io_uring_setup, 1, NULL) != -1 || errno != ENOSYS)
		return 3;
	if (privilege_refused(calls) != 2)
		return 4;
	if (calls[0].call != SYS_chroot || calls[0].count != 3)
		return 5;
	if (calls[1].call != SYS_io_uring_setup || calls[1].count != 1)
		return 6;
	CLEANUP(freep) char *name = privilege_call_name(calls[1].call);
	return strcmp(name, "io_uring_setup") == 0 ? 0 : 7;
}

static void what_is_refused_is_counted(void **state)
{
	(void)state;
	assert_int_equal(in_child(refuse_some), 0);
}

static void *try_chroot(void *ctx)
{
	int *ret = ctx;

	*ret = syscall(SYS_chroot, "/") == -1 ? errno : 0;
	return NULL;
}

static int refuse_on_threads(void)
{
	struct privilege_refused calls[PRIVILEGE_REFUSED_MAX];
	pthread_t threads[8];
	int errors[8];

	for (int i = 0; i < 8; i++)
		if (loop_thread(&threads[i], try_chroot, &errors[i]) != 0)
			return 1;
	for (int i = 0; i < 8; i++)
		if (pthread_join(threads[i], NULL) != 0 || errors[i] != EPERM)
			return 2;
	if (privilege_refused(calls) != 1 || calls[0].count != 8)
		return 3; /* so starting and ending a thread was not refused anything */
	return 0;
}

static void threads_that_leave_signals_to_the_loop_live_on(void **state)
{
	(void)state;
	assert_int_equal(in_child(refuse_on_threads), 0);
}

static int refuse_many(void)
{
	struct privilege_refused calls[PRIVILEGE_REFUSED_MAX];
	uint64_t sum = 0;

	for (long call = 1000; call < 1100; call++)
		if (syscall(call) != -1 || errno != ENOSYS)
			return 1;
	if (privilege_refused(calls) != PRIVILEGE_REFUSED_MAX)
		return 2;
	for (int i = 0; i < PRIVILEGE_REFUSED_MAX; i++)
		sum += calls[i].count;
	return sum == 100 ? 0 : 3;
}

static void more_of_them_than_there_is_room_for_are_counted_too(void **state)
{
	(void)state;
	assert_int_equal(in_child(refuse_many), 0);
}

/* What names need: files in the root of another process. */
static int open_in_a_root(void)
{
	struct open_how how = {.flags = O_RDONLY, .resolve = RESOLVE_IN_ROOT};
	int dir = open("/", O_PATH | O_DIRECTORY);
	struct privilege_refused calls[PRIVILEGE_REFUSED_MAX];

	if (syscall(SYS_openat2, dir, "/proc/self/maps", &how, sizeof(how)) < 0 && errno == EPERM)
		return 1;
	return privilege_refused(calls) ? 2 : 0;
}

static void a_collector_opens_files_in_other_roots(void **state)
{
	(void)state;
	assert_int_equal(in_child(open_in_a_root), 0);
}

/* What that process does about itself: 0, or the signal that it was killed by, negative. */
static int as_bpf_reader(int (*fn)(void))
{
	int status;
	pid_t pid = fork();

	if (pid == 0) {
		int r = privilege_only_bpf_costs();
		_exit(r == -EPERM ? 77 : r ? 100 : fn());
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
}

static int ask(int command)
{
	union bpf_attr attr = {};

	return syscall(SYS_bpf, command, &attr, sizeof(attr)) < 0 ? errno : 0;
}

static int read_programs(void)
{
	int err = ask(BPF_PROG_GET_NEXT_ID);

	return err == 0 || err == ENOENT ? 0 : err;
}

static int load_program(void)
{
	return ask(BPF_PROG_LOAD);
}

static int make_map(void)
{
	return ask(BPF_MAP_CREATE);
}

static int open_a_file(void)
{
	return open("/dev/null", O_RDONLY) < 0;
}

static int start_a_process(void)
{
	return fork() < 0;
}

static void who_reads_bpf_costs_can_do_nothing_else(void **state)
{
	int (*const refused[])(void) = {load_program, make_map, open_a_file, start_a_process};

	(void)state;
	if (as_bpf_reader(read_programs) == 77)
		skip(); /* not root */
	assert_int_equal(as_bpf_reader(read_programs), 0);
	for (size_t i = 0; i < ARRAY_SIZE(refused); i++)
		assert_int_equal(as_bpf_reader(refused[i]), -SIGSYS);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_is_refused_is_counted),
		cmocka_unit_test(threads_that_leave_signals_to_the_loop_live_on),
		cmocka_unit_test(more_of_them_than_there_is_room_for_are_counted_too),
		cmocka_unit_test(a_collector_opens_files_in_other_roots),
		cmocka_unit_test(who_reads_bpf_costs_can_do_nothing_else),
	};

	return cmocka_run_group_tests_name("privilege", tests, NULL, NULL);
}
