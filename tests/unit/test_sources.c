/*
 * Several sources at a time, one of which interrupts the other: the timer comes in the middle of a
 * system call's program, and neither harms the other's record. Skipped without the permissions.
 */
#include "unit/unit.h"

#include <signal.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include <bpf/libbpf.h>

#include "base/clock.h"
#include "base/mem.h"
#include "collect/sampler.h"
#include "symbol/kallsyms.h"
#include "syscalls.skel.h"

enum { TIMER, SYSCALLS, SOURCES };

#define PERIOD_NS   200000
#define ENOUGH      300 /* ticks inside a system call's program */
#define PLAIN_CALL  SYS_getppid
#define NESTED_CALL 4096 /* there is none such: that 16 divides it is all (syscalls.bpf.c) */

static int attach(struct source *s, const char **ret_doing)
{
	*ret_doing = "attach to the tracepoint";
	s->driver_data = bpf_program__attach(s->program);
	return s->driver_data ? 0 : -errno;
}

static void detach(struct source *s)
{
	bpf_link__destroy(TAKE_PTR(s->driver_data));
}

static const struct source_driver tracepoint = {.start = attach, .stop = detach, .free = detach};
static const struct source_kind syscalls = {
	.name = "syscalls",
	.type = "syscalls",
	.unit = "count",
	.object = syscalls__elf_bytes,
	.program = "syscall",
	.driver = &tracepoint,
};

/*
 * Does nothing but one system call from when we return on: those that it starts with are over, even
 * on a machine where it waits for a CPU longer than a sampler takes to begin.
 */
static pid_t start_caller(long number)
{
	int ready[2];
	char byte = 0;

	assert_int_equal(pipe(ready), 0);
	pid_t pid = fork();
	if (pid == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		if (write(ready[1], &byte, 1) != 1)
			_exit(1);
		for (;;)
			syscall(number);
	}
	assert_int_equal(read(ready[0], &byte, 1), 1);
	close(ready[0]);
	close(ready[1]);
	return pid;
}

struct seen {
	pid_t pid;
	uint64_t value[SOURCES]; /* that each event of the source has */
	uint64_t events[SOURCES], wrong;
	uint64_t last[SOURCES][1024]; /* time, by CPU */
	uint64_t nested;              /* ticks inside the other's program */
	struct kallsyms *names;
};

static bool is_inside_program(struct seen *seen, const struct wire_event *e)
{
	for (unsigned i = 0; i < e->kernel_frames; i++) {
		struct symbol symbol;
		const char *module;
		if (kallsyms_find(seen->names, wire_frames(e)[i], &symbol, &module) == 0 &&
		    strncmp(symbol.name, "bpf_trace_run", 13) == 0)
			return true;
	}
	return false;
}

static void on_event(void *ctx, const struct wire_event *e)
{
	struct seen *seen = ctx;

	if (e->source >= SOURCES || e->cpu >= 1024 || e->value != seen->value[e->source] ||
	    e->pid != (uint32_t)seen->pid || e->time < seen->last[e->source][e->cpu] ||
	    strcmp(e->comm, "test_sources") != 0) {
		seen->wrong++;
		return;
	}
	seen->last[e->source][e->cpu] = e->time;
	seen->events[e->source]++;
	if (e->source == TIMER)
		seen->nested += seen->names && is_inside_program(seen, e);
}

static struct sampler *start(const pid_t *target)
{
	struct sampler_options o = {
		.sources = {[TIMER] = {.kind = source_find("cpu-clock"), .period = PERIOD_NS},
			    [SYSCALLS] = {.kind = &syscalls}},
		.source_count = SOURCES,
		.cpu = -1,
		.filter = {.cgroup_subsys = -1, .by_pid = true},
		.targets = (const uint32_t *)target,
		.target_count = 1,
	};
	struct sampler *s;
	struct sampler_error why;
	int r = sampler_new(&o, &s, &why);

	if (r == -EPERM || r == -EACCES)
		skip();
	if (r)
		fail_msg("cannot %s: %s %s", why.doing, strerror(-r), why.detail);
	return s;
}

static void drain(struct sampler *s, struct seen *seen)
{
	sampler_drain(s, UINT64_MAX, on_event, seen);
	sampler_release(s);
}

static void end(pid_t pid)
{
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
}

static void a_timer_inside_a_system_calls_program_harms_neither(void **state)
{
	(void)state;
	pid_t pid = start_caller(PLAIN_CALL);
	struct sampler *s = start(&pid);
	struct seen seen = {.pid = pid, .value = {PERIOD_NS, PLAIN_CALL}};
	struct sampler_stats c[SOURCES], all;
	if (kallsyms_load(NULL, &seen.names) != 0) {
		end(pid);
		skip();
	}

	for (int i = 0; i < 2000 && seen.nested < ENOUGH; i++) {
		usleep(5000);
		drain(s, &seen);
	}
	sampler_stop(s);
	end(pid);
	drain(s, &seen);
	for (unsigned i = 0; i < SOURCES; i++) {
		sampler_stats(s, i, &c[i]);
		assert_int_equal(c[i].taken, seen.events[i] + c[i].lost);
		assert_int_equal(c[i].malformed, 0);
		assert_int_equal(c[i].nested, 0);
		assert_true(seen.events[i] > ENOUGH);
	}
	sampler_stats_sum(s, &all);
	assert_int_equal(all.taken, c[TIMER].taken + c[SYSCALLS].taken);
	assert_int_equal(all.lost, c[TIMER].lost + c[SYSCALLS].lost);
	assert_int_equal(seen.wrong, 0);
	assert_true(seen.nested >= ENOUGH);
	kallsyms_free(seen.names);
	sampler_free(s);
}

static void an_event_inside_its_own_program_is_refused_and_counted(void **state)
{
	(void)state;
	pid_t pid = start_caller(NESTED_CALL);
	struct sampler *s = start(&pid);
	struct seen seen = {.pid = pid, .value = {PERIOD_NS, 0}};
	struct sampler_stats c = {};

	for (int i = 0; i < 2000 && c.nested < ENOUGH; i++) {
		usleep(5000);
		drain(s, &seen);
		sampler_stats(s, SYSCALLS, &c);
	}
	sampler_stop(s);
	end(pid);
	sampler_stats(s, SYSCALLS, &c);
	assert_true(c.nested >= ENOUGH);
	assert_int_equal(c.taken, 0);
	assert_int_equal(seen.events[SYSCALLS], 0);
	sampler_free(s);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_timer_inside_a_system_calls_program_harms_neither),
		cmocka_unit_test(an_event_inside_its_own_program_is_refused_and_counted),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
