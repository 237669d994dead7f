/* The sample path on this machine's own kernel; skipped without the permissions for it. */
#include "unit/unit.h"

#include <sys/wait.h>
#include <time.h>

#include "collect/sampler.h"
#include "collect/sideband.h"
#include "collect/stream.h"

static struct sampler_options options(void)
{
	struct sampler_options o = {.frequency = 2000, .cpu = -1, .filter.cgroup_subsys = -1};

	sampler_event("cpu-clock", &o.event);
	return o;
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

static void on_sample(void *ctx, const struct wire_sample *w, const uint64_t *frames)
{
	struct seen *seen = ctx;

	(void)frames;
	seen->samples++;
	seen->frames += (uint64_t)w->kernel_frames + w->user_frames;
	seen->mine += w->pid == (uint32_t)getpid();
	seen->out_of_order += w->time < seen->last;
	seen->last = w->time;
}

static void on_event(void *ctx, const struct sideband_event *e)
{
	struct seen *seen = ctx;

	seen->out_of_order += e->time < seen->last;
	seen->last = e->time;
}

static void spin_until_taken(struct sampler *s, uint64_t wanted)
{
	struct sampler_counts c;

	do {
		for (volatile int i = 0; i < 1000000; i++)
			;
		sampler_counts(s, &c);
	} while (c.taken < wanted);
}

static void a_full_ring_is_counted_to_the_sample(void **state)
{
	(void)state;
	struct sampler_options o = options();
	uint32_t self = (uint32_t)getpid();
	o.ring_bytes = 64 << 10; /* room for a few samples, which bring their stacks along */
	o.filter.by_pid = true;
	o.targets = &self;
	o.target_count = 1;
	struct sampler *s = start(&o);
	struct seen seen = {};
	struct sampler_counts c;

	spin_until_taken(s, 200);
	sampler_drain(s, on_sample, &seen);
	spin_until_taken(s, 400);
	sampler_stop(s);
	sampler_drain(s, on_sample, &seen);
	sampler_counts(s, &c);
	assert_true(c.lost > 0);
	assert_true(seen.samples > 0);
	assert_int_equal(c.taken, seen.samples + c.lost);
	assert_int_equal(seen.mine, seen.samples); /* the filter is the kernel's */
	assert_int_equal(c.malformed, 0);
	assert_true(c.run_ns > 0);
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
	struct stream_handler h = {on_sample, on_event, &seen};

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
	struct sampler_counts c;
	sampler_counts(s, &c);
	assert_int_equal(seen.out_of_order, 0);
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

static void on_life(void *ctx, const struct sideband_event *e)
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

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_full_ring_is_counted_to_the_sample),
		cmocka_unit_test(samples_and_events_come_in_order),
		cmocka_unit_test(a_life_of_milliseconds_is_told_whole),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
