/* The sample path on this machine's own kernel; skipped without the permissions for it. */
#include "unit/unit.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>

#include "base/clock.h"
#include "base/mem.h"
#include "collect/orc.h"
#include "collect/sampler.h"
#include "collect/sideband.h"
#include "pipeline/stream.h"

static struct sampler_options options(void)
{
	return (struct sampler_options){
		.sources = {{.kind = source_find("cpu-clock"), .frequency = 2000}},
		.source_count = 1,
		.cpu = -1,
		.filter.cgroup_subsys = -1,
	};
}

static struct sampler *start(const struct sampler_options *o)
{
	struct sampler *s;
	struct sampler_error why;
	int r = sampler_new(o, &s, &why);

	if (r == -EPERM || r == -EACCES)
		skip();
	if (r)
		fail_msg("cannot %s: %s %s", why.doing, strerror(-r), why.detail);
	return s;
}

struct seen {
	uint64_t samples, frames, mine, last, out_of_order;
	uint32_t pid;
};

static void on_sample(void *ctx, const struct wire_event *w)
{
	struct seen *seen = ctx;

	seen->samples++;
	seen->frames += (uint64_t)w->kernel_frames + w->user_frames;
	seen->mine += w->pid == (uint32_t)getpid();
	seen->out_of_order += w->time < seen->last;
	seen->last = w->time;
}

static void drain(struct sampler *s, struct seen *seen)
{
	sampler_drain(s, UINT64_MAX, on_sample, seen);
	sampler_release(s);
}

static void on_event(void *ctx, const struct sideband_record *e)
{
	struct seen *seen = ctx;

	seen->out_of_order += e->time < seen->last;
	seen->last = e->time;
}

static void spin_until_taken(struct sampler *s, uint64_t wanted)
{
	struct sampler_stats c;

	do {
		for (volatile int i = 0; i < 1000000; i++)
			;
		sampler_stats(s, 0, &c);
	} while (c.taken < wanted);
}

static void a_full_ring_is_counted_to_the_sample(void **state)
{
	(void)state;
	struct sampler_options o = options();
	uint32_t self = (uint32_t)getpid();
	o.ring_bytes = 16 << 10; /* room for some samples */
	o.filter.by_pid = true;
	o.targets = &self;
	o.target_count = 1;
	struct sampler *s = start(&o);
	struct seen seen = {};
	struct sampler_stats c;

	spin_until_taken(s, 500);
	drain(s, &seen);
	spin_until_taken(s, 1000);
	sampler_stop(s);
	drain(s, &seen);
	sampler_stats(s, 0, &c);
	assert_true(c.lost > 0);
	assert_true(seen.samples > 0);
	assert_int_equal(c.taken, seen.samples + c.lost);
	assert_int_equal(seen.mine, seen.samples); /* the filter is the kernel's */
	assert_int_equal(c.malformed, 0);
	assert_true(c.run_ns > 0);
	sampler_free(s);
}

/* Some samples are always left: the ring is never begun anew, and wraps around. */
static void a_ring_that_is_never_empty_goes_round(void **state)
{
	(void)state;
	enum { WANTED = 3000 };
	struct sampler_options o = options();
	o.ring_bytes = 16 << 10;
	o.sources[0].frequency = 4000;
	struct sampler *s = start(&o);
	struct seen seen = {};
	struct sampler_stats c;
	uint64_t until = 0;

	do {
		for (volatile int i = 0; i < 300000; i++)
			;
		sampler_drain(s, until, on_sample, &seen);
		sampler_release(s);
		until = clock_ns(CLOCK_MONOTONIC) - 1000000;
		sampler_stats(s, 0, &c);
	} while (c.taken < WANTED);
	sampler_stop(s);
	drain(s, &seen);
	sampler_stats(s, 0, &c);
	assert_int_equal(c.malformed, 0);
	assert_int_equal(c.taken, seen.samples + c.lost);
	assert_true(seen.samples > 10 * o.ring_bytes / WIRE_PLAIN_MAX);
	sampler_free(s);
}

static void samples_and_events_come_in_order(void **state)
{
	(void)state;
	struct sampler_options o = options();
	struct sampler *s = start(&o);
	struct sideband *b;
	assert_int_equal(sideband_new(&b), 0);
	struct stream *stream = stream_new(s, b);
	struct seen seen = {};
	struct stream_handler h = {on_sample, on_event, NULL, &seen};

	for (int i = 0; i < 50; i++) {
		pid_t pid = fork();
		if (pid == 0) {
			execl("/bin/true", "true", NULL);
			_exit(1);
		}
		waitpid(pid, NULL, 0);
		stream_drain(stream, &h, false);
	}
	sampler_stop(s);
	stream_drain(stream, &h, true);
	struct sampler_stats c;
	sampler_stats(s, 0, &c);
	/* What is late, as a host had the CPU, is counted. */
	struct stream_stats late;
	stream_stats(stream, &late);
	assert_true(seen.out_of_order <= late.late_events + late.late_records);
	assert_int_equal(c.taken, seen.samples + c.lost);
	stream_free(stream);
	sideband_free(b);
	sampler_free(s);
}

struct life { /* of the one process that is watched */
	uint32_t pid, parent;
	unsigned forks, execs, exits, maps, libc;
	bool inodes;
};

static void on_life(void *ctx, const struct sideband_record *e)
{
	struct life *l = ctx;

	if (e->pid != l->pid)
		return;
	l->forks += e->type == SIDEBAND_FORK && e->parent == l->parent;
	l->execs += e->type == SIDEBAND_EXEC && strcmp(e->name, "true") == 0;
	l->exits += e->type == SIDEBAND_EXIT;
	l->maps += e->type == SIDEBAND_MAP;
	l->libc += e->type == SIDEBAND_MAP && strstr(e->name, "libc.so.6");
	l->inodes |= e->type == SIDEBAND_MAP && e->inode && e->device;
}

static void a_life_of_milliseconds_is_told_whole(void **state)
{
	(void)state;
	struct sideband *b;
	int r = sideband_new(&b);
	if (r == -EPERM || r == -EACCES)
		skip();
	assert_int_equal(r, 0);

	struct life life = {.parent = (uint32_t)getpid()};
	pid_t pid = fork();
	if (pid == 0) {
		execl("/bin/true", "true", NULL);
		_exit(1);
	}
	life.pid = (uint32_t)pid;
	waitpid(pid, NULL, 0);
	sideband_drain(b, on_life, &life);
	assert_int_equal(life.forks, 1);
	assert_int_equal(life.execs, 1);
	assert_int_equal(life.exits, 1);
	assert_true(life.maps >= 3); /* the program, the loader, libc */
	assert_true(life.libc >= 1);
	assert_true(life.inodes);
	assert_int_equal(sideband_lost(b), 0);
	sideband_free(b);
}

/* A child that is in the kernel most of the time, in many places of it. */
static pid_t start_syscalls(void)
{
	pid_t pid = fork();
	if (pid)
		return pid;

	int echo[2];
	if (pipe(echo) < 0)
		_exit(1);
	for (;;) {
		char buf[4096];
		int fd = open("/proc/self/maps", O_RDONLY);
		while (read(fd, buf, sizeof(buf)) > 0)
			;
		close(fd);
		for (int i = 0; i < 50; i++)
			if (write(echo[1], buf, 512) != 512 || read(echo[0], buf, 512) != 512)
				_exit(1);
		size_t size = 1 << 20;
		char *p = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1,
			       0);
		for (size_t at = 0; p != MAP_FAILED && at < size; at += 4096)
			p[at] = 1;
		if (p != MAP_FAILED)
			munmap(p, size);
		pid_t child = fork();
		if (child == 0) {
			execl("/bin/true", "true", NULL);
			_exit(1);
		}
		waitpid(child, NULL, 0);
	}
}

static void kernel_stacks_are_what_the_kernel_says(void **state)
{
	(void)state;
	enum { WANTED = 3000, SECONDS_MAX = 60 };
	struct sampler_options o = options();
	o.filter.check_kernel = true;
	o.filter.by_pid = o.filter.follow =
		true; /* what else runs here may be in modules, or BPF */
	o.sources[0].frequency = 5000;
	struct sampler *s = start(&o);
	struct seen seen = {};
	struct sampler_stats c = {};
	pid_t children[2] = {start_syscalls(), start_syscalls()};
	for (size_t i = 0; i < ARRAY_SIZE(children); i++)
		assert_int_equal(sampler_add_target(s, (uint32_t)children[i]), 0);
	time_t began = time(NULL);

	while (c.kernel_walked + c.kernel_asked < WANTED && time(NULL) - began < SECONDS_MAX) {
		usleep(50000);
		drain(s, &seen);
		sampler_stats(s, 0, &c);
	}
	for (size_t i = 0; i < ARRAY_SIZE(children); i++) {
		kill(children[i], SIGKILL);
		waitpid(children[i], NULL, 0);
	}
	sampler_free(s);
	assert_true(c.kernel_walked + c.kernel_asked >= WANTED);
	struct wire_orc orc;
	if (orc_locate(&orc) != 0 || c.kernel_walked == 0)
		skip(); /* a kernel before 6.4, or of another kind: it is asked for each stack */
	assert_int_equal(c.kernel_different, 0);
	assert_int_equal(c.kernel_compared, c.kernel_walked);
	assert_true(c.kernel_walked > 9 * c.kernel_asked);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_full_ring_is_counted_to_the_sample),
		cmocka_unit_test(a_ring_that_is_never_empty_goes_round),
		cmocka_unit_test(samples_and_events_come_in_order),
		cmocka_unit_test(a_life_of_milliseconds_is_told_whole),
		cmocka_unit_test(kernel_stacks_are_what_the_kernel_says),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
