#include "profile/collector.h"

#include <errno.h>
#include <sys/resource.h>

#include "base/clock.h"
#include "base/mem.h"
#include "collect/cpus.h"
#include "collect/sideband.h"
#include "collect/stream.h"

#define DRAIN_MS_MIN 10
#define FILL_MAX     4  /* a ring that has a part in so many in use is drained sooner … */
#define FILL_WANTED  16 /* … so that it has one in so many */
#define DRAINS_TIMED 7  /* one in so many: a prime, or it might always, or never, end a window */

struct collector {
	struct sampler *sampler;
	struct sideband *sideband; /* NULL: mappings are read from /proc */
	int sideband_error;
	struct stream *stream;
	struct assembler *assembler;
	int priority_error;
	struct loop *loop; /* NULL: whoever owns us drains, and nothing else does */
	int hotplug_fd;    /* -1: CPUs that come later are not seen */
	int hotplug_error;
	uint64_t drained_ns;
	bool sooner; /* a drain before the next tick is due already */
	uint64_t drains;
	uint64_t untimed; /* drains since the last whose time counted */
};

int collector_new(struct profile *p, const struct sampler_options *sampler,
		  const struct assembler_options *assemble, struct collector **ret,
		  struct sampler_error *ret_err)
{
	struct collector *c = mem_alloc(sizeof(*c));
	struct assembler_options options = *assemble;
	struct sampler_maps maps;

	c->hotplug_fd = -1;
	/* Little work, but it must not wait where hundreds of threads do: rings fill meanwhile. */
	if (sampler->nice && setpriority(PRIO_PROCESS, 0, sampler->nice) != 0)
		c->priority_error = -errno;
	/* Mappings first: what starts after this is known from its beginning. */
	c->sideband_error = sideband_new(&c->sideband);
	int r = sampler_new(sampler, &c->sampler, ret_err);
	if (!r) {
		c->stream = stream_new(c->sampler, c->sideband);
		sampler_maps(c->sampler, &maps);
		options.maps = &maps;
		r = assembler_new(p, &options, &c->assembler);
		if (r)
			*ret_err = (struct sampler_error){.doing = "map the unwind tables"};
	}
	if (r) {
		collector_free(c);
		return r;
	}
	*ret = c;
	return 0;
}

void collector_free(struct collector *c)
{
	if (!c)
		return;
	assembler_free(c->assembler);
	stream_free(c->stream);
	sampler_free(c->sampler);
	sideband_free(c->sideband);
	fd_closep(&c->hotplug_fd);
	free(c);
}

static void on_sample(void *ctx, const struct wire_sample *s)
{
	struct collector *c = ctx;

	assembler_sample(c->assembler, s);
}

static void on_event(void *ctx, const struct sideband_event *e)
{
	struct collector *c = ctx;

	assembler_event(c->assembler, e);
}

static void on_lost(void *ctx)
{
	struct collector *c = ctx;

	assembler_lost(c->assembler);
}

static void on_sooner(void *ctx, int what)
{
	struct collector *c = ctx;

	(void)what;
	c->sooner = false;
	collector_drain(c);
}

/*
 * Copied stacks fill a ring much faster than samples do. One that was rather full is drained again
 * before the next tick, in time for what comes in at this rate.
 */
static void drain_sooner(struct collector *c, uint64_t since_ns)
{
	uint64_t room, used = sampler_fill(c->sampler, &room);

	if (!c->loop || c->sooner || used < room / FILL_MAX)
		return;
	uint64_t ms = since_ns / 1000000 * room / FILL_WANTED / used;
	c->sooner = loop_after(c->loop, MAX(ms, (uint64_t)DRAIN_MS_MIN), on_sooner, c) == 0;
}

static void drain(struct collector *c, bool last)
{
	struct stream_handler h = {on_sample, on_event, on_lost, c};
	uint64_t now = clock_ns(CLOCK_MONOTONIC), since = now - c->drained_ns;

	c->drained_ns = now;
	stream_drain(c->stream, &h, last);
	if (last) /* once more: events up to where the first one read mappings */
		stream_drain(c->stream, &h, last);
	assembler_settle(c->assembler, clock_ns(CLOCK_MONOTONIC));
	if (!last)
		drain_sooner(c, since);
}

void collector_drain(struct collector *c)
{
	c->untimed++;
	if (c->drains++ % DRAINS_TIMED) {
		drain(c, false);
		return;
	}
	uint64_t cpu = clock_ns(CLOCK_THREAD_CPUTIME_ID), wall = clock_ns(CLOCK_MONOTONIC);
	assembler_time(c->assembler);
	drain(c, false);
	wall = clock_ns(CLOCK_MONOTONIC) - wall;
	cpu = clock_ns(CLOCK_THREAD_CPUTIME_ID) - cpu;
	uint64_t drains = wall < cpu + cpu / 4 ? c->untimed : 0;
	assembler_time_done(c->assembler, drains);
	c->untimed -= drains;
}

void collector_stop(struct collector *c, unsigned wait_ms)
{
	sampler_stop(c->sampler);
	drain(c, true);
	assembler_finish(c->assembler, wait_ms);
}

static void on_much(void *ctx, int fd)
{
	(void)fd;
	collector_drain(ctx);
}

/* Waits for much to come from a CPU's side-band; where that fails, ticks do. */
static void watch_sideband(struct collector *c, unsigned cpu)
{
	int fd = c->sideband ? sideband_fd(c->sideband, cpu) : -1;

	if (fd >= 0)
		loop_fd(c->loop, fd, on_much, c);
}

static void on_cpu(void *ctx, unsigned cpu, bool online)
{
	struct collector *c = ctx;

	drain(c, false); /* a ring that is closed with its CPU takes nothing along */
	sampler_cpu(c->sampler, cpu, online);
	if (!c->sideband)
		return;
	loop_forget_fd(c->loop, sideband_fd(c->sideband, cpu));
	sideband_cpu(c->sideband, cpu, online);
	if (online)
		watch_sideband(c, cpu);
}

static void on_hotplug(void *ctx, int fd)
{
	struct collector *c = ctx;

	if (cpus_changes(fd, on_cpu, c))
		assembler_kernel_changed(c->assembler);
}

int collector_watch(struct collector *c, struct loop *l)
{
	c->loop = l;
	for (unsigned cpu = 0; c->sideband && sideband_fd(c->sideband, cpu) != -EINVAL; cpu++)
		watch_sideband(c, cpu);
	c->hotplug_fd = cpus_watch();
	c->hotplug_error = MIN(c->hotplug_fd, 0);
	return c->hotplug_fd >= 0 ? loop_fd(l, c->hotplug_fd, on_hotplug, c) : 0;
}

unsigned collector_pace(const struct sampler_options *s, unsigned max)
{
	uint64_t rate = s->frequency ? s->frequency : 1000;

	return (unsigned)MAX(DRAIN_MS_MIN, MIN(max, 25000 / rate));
}

struct sampler *collector_sampler(const struct collector *c)
{
	return c->sampler;
}

struct processes *collector_processes(const struct collector *c)
{
	return assembler_processes(c->assembler);
}

void collector_stats(const struct collector *c, struct collector_stats *ret)
{
	*ret = (struct collector_stats){.sideband_error = c->sideband_error,
					.priority_error = c->priority_error,
					.hotplug_error = c->hotplug_error};
	sampler_counts(c->sampler, &ret->counts);
	assembler_stats(c->assembler, &ret->assembler);
	stream_stats(c->stream, &ret->stream);
	sampler_ticks(c->sampler, &ret->ticks_due, &ret->ticks_missed);
	ret->sideband_lost = c->sideband ? sideband_lost(c->sideband) : 0;
}
