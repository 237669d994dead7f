#include "pipeline/pipeline.h"

#include <errno.h>
#include <sys/resource.h>

#include "base/clock.h"
#include "base/mem.h"
#include "collect/cpus.h"
#include "collect/module_watch.h"
#include "collect/sideband.h"
#include "pipeline/stream.h"

#define DRAIN_MS_MIN 10
#define FILL_MAX     4  /* a ring that will have a part in so many in use is drained sooner … */
#define FILL_WANTED  16 /* … so that it has one in so many */
#define RATE_NS      25000000ull /* over less time than this nobody can tell a rate */
#define DRAINS_TIMED 7 /* one in so many: a prime, or it might always, or never, end a window */

struct pipeline {
	struct sampler *sampler;
	struct sideband *sideband; /* NULL: mappings are read from /proc */
	int sideband_error;
	struct module_watch *modules; /* NULL: they have no names */
	int modules_error;
	struct stream *stream;
	struct assembler *assembler;
	event_fn *tap; /* NULL: nobody else wants them */
	void *tap_ctx;
	int priority_error;
	struct loop *loop; /* NULL: whoever owns us drains, and nothing else does */
	int hotplug_fd;    /* -1: CPUs that come later are not seen */
	int hotplug_error;
	uint64_t drained_ns;
	uint64_t tick_ns; /* between the drains of whoever owns us; 0: not known */
	bool sooner;      /* a drain before the next tick is due already */
	uint64_t drains;
	uint64_t untimed; /* drains since the last whose time counted */
};

int pipeline_new(struct profile *profile, const struct sampler_options *sampler,
		 const struct assembler_options *assemble, struct pipeline **ret,
		 struct sampler_error *ret_err)
{
	struct pipeline *p = mem_alloc(sizeof(*p));
	struct assembler_options options = *assemble;
	struct sampler_maps maps;

	/* First: a CPU that comes online while we start is told of later, and not missed. */
	p->hotplug_fd = cpus_watch();
	p->hotplug_error = MIN(p->hotplug_fd, 0);
	/* Little work, but it must not wait where hundreds of threads do: rings fill meanwhile. */
	if (sampler->nice && setpriority(PRIO_PROCESS, 0, sampler->nice) != 0)
		p->priority_error = -errno;
	/* Mappings first: what starts after this is known from its beginning. */
	p->sideband_error = sideband_new(&p->sideband);
	p->modules_error = module_watch_new(&p->modules);
	if (p->modules) {
		options.names.modules_changed_ns = module_watch_changed_ns;
		options.names.modules = p->modules;
	}
	int r = sampler_new(sampler, &p->sampler, ret_err);
	if (!r) {
		p->stream = stream_new(p->sampler, p->sideband);
		sampler_maps(p->sampler, &maps);
		options.maps = &maps;
		r = assembler_new(profile, &options, &p->assembler);
		if (r)
			*ret_err = (struct sampler_error){.doing = "map the unwind tables"};
	}
	if (r) {
		pipeline_free(p);
		return r;
	}
	*ret = p;
	return 0;
}

void pipeline_free(struct pipeline *p)
{
	if (!p)
		return;
	assembler_free(p->assembler);
	stream_free(p->stream);
	sampler_free(p->sampler);
	sideband_free(p->sideband);
	module_watch_free(p->modules);
	fd_closep(&p->hotplug_fd);
	free(p);
}

void pipeline_event(struct pipeline *p, const struct wire_event *e)
{
	if (p->tap)
		p->tap(p->tap_ctx, e);
	assembler_event(p->assembler, e);
}

static void on_event(void *ctx, const struct wire_event *e)
{
	pipeline_event(ctx, e);
}

void pipeline_tap(struct pipeline *p, event_fn *fn, void *ctx)
{
	p->tap = fn;
	p->tap_ctx = ctx;
}

static void on_record(void *ctx, const struct sideband_record *r)
{
	struct pipeline *p = ctx;

	assembler_record(p->assembler, r);
}

static void on_lost(void *ctx)
{
	struct pipeline *p = ctx;

	assembler_lost(p->assembler);
}

static void on_sooner(void *ctx, int what)
{
	struct pipeline *p = ctx;

	(void)what;
	p->sooner = false;
	pipeline_drain(p);
}

/*
 * Copied stacks, and deep ones, fill a ring much faster than most samples do. One that would be
 * rather full at the next tick is drained before that, in time for what comes in at this rate.
 */
static void drain_sooner(struct pipeline *p, uint64_t since_ns)
{
	uint64_t room, used = sampler_fill(p->sampler, &room);

	since_ns = MAX(since_ns, RATE_NS);
	if (!p->loop || p->sooner || !used ||
	    used * MAX(p->tick_ns, since_ns) / since_ns < room / FILL_MAX)
		return;
	uint64_t ms = since_ns / 1000000 * room / FILL_WANTED / used;
	p->sooner = loop_after(p->loop, MAX(ms, (uint64_t)DRAIN_MS_MIN), on_sooner, p) == 0;
}

static void drain(struct pipeline *p, bool last)
{
	struct stream_handler h = {on_event, on_record, on_lost, p};
	uint64_t now = clock_ns(CLOCK_MONOTONIC), since = now - p->drained_ns;

	p->drained_ns = now;
	stream_drain(p->stream, &h, last);
	if (last) /* once more: events up to where the first one read mappings */
		stream_drain(p->stream, &h, last);
	assembler_settle(p->assembler, clock_ns(CLOCK_MONOTONIC));
	if (!last)
		drain_sooner(p, since);
}

void pipeline_drain(struct pipeline *p)
{
	p->untimed++;
	if (p->drains++ % DRAINS_TIMED) {
		drain(p, false);
		return;
	}
	uint64_t cpu = clock_ns(CLOCK_THREAD_CPUTIME_ID), wall = clock_ns(CLOCK_MONOTONIC);
	assembler_time(p->assembler);
	drain(p, false);
	wall = clock_ns(CLOCK_MONOTONIC) - wall;
	cpu = clock_ns(CLOCK_THREAD_CPUTIME_ID) - cpu;
	uint64_t drains = wall < cpu + cpu / 4 ? p->untimed : 0;
	assembler_time_done(p->assembler, drains);
	p->untimed -= drains;
}

bool pipeline_is_due(const struct pipeline *p, unsigned every_ms)
{
	return clock_ns(CLOCK_MONOTONIC) - p->drained_ns >= every_ms * 1000000ull / 5 * 4;
}

void pipeline_stop(struct pipeline *p, unsigned wait_ms)
{
	sampler_stop(p->sampler);
	drain(p, true);
	assembler_finish(p->assembler, wait_ms);
}

static void on_much(void *ctx, int fd)
{
	(void)fd;
	pipeline_drain(ctx);
}

/* Waits for much to come from a CPU's side-band; where that fails, ticks do. */
static void watch_sideband(struct pipeline *p, unsigned cpu)
{
	int fd = p->sideband ? sideband_fd(p->sideband, cpu) : -1;

	if (fd >= 0)
		loop_fd(p->loop, fd, on_much, p);
}

static void on_cpu(void *ctx, unsigned cpu, bool online)
{
	struct pipeline *p = ctx;

	drain(p, false); /* a ring that is closed with its CPU takes nothing along */
	sampler_cpu(p->sampler, cpu, online);
	if (!p->sideband)
		return;
	loop_remove_fd(p->loop, sideband_fd(p->sideband, cpu));
	sideband_cpu(p->sideband, cpu, online);
	if (online)
		watch_sideband(p, cpu);
}

static void on_hotplug(void *ctx, int fd)
{
	struct pipeline *p = ctx;

	cpus_changes(fd, on_cpu, p);
}

int pipeline_watch(struct pipeline *p, struct loop *l)
{
	p->loop = l;
	for (unsigned cpu = 0; p->sideband && sideband_fd(p->sideband, cpu) != -EINVAL; cpu++)
		watch_sideband(p, cpu);
	return p->hotplug_fd >= 0 ? loop_fd(l, p->hotplug_fd, on_hotplug, p) : 0;
}

unsigned pipeline_pace(struct pipeline *p, const struct sampler_options *s, unsigned max)
{
	uint64_t rate = 1;

	for (unsigned i = 0; i < s->source_count; i++)
		rate = MAX(rate, s->sources[i].frequency ? s->sources[i].frequency : 1000);
	unsigned ms = (unsigned)MAX(DRAIN_MS_MIN, MIN(max, 40000 / rate));
	p->tick_ns = ms * 1000000ull;
	return ms;
}

struct sampler *pipeline_sampler(const struct pipeline *p)
{
	return p->sampler;
}

struct processes *pipeline_processes(const struct pipeline *p)
{
	return assembler_processes(p->assembler);
}

void pipeline_stats(const struct pipeline *p, struct pipeline_stats *ret)
{
	*ret = (struct pipeline_stats){.sideband_error = p->sideband_error,
				       .modules_error = p->modules_error,
				       .priority_error = p->priority_error,
				       .hotplug_error = p->hotplug_error};
	sampler_stats_sum(p->sampler, &ret->counts);
	const struct source_kind *kind;
	for (unsigned i = 0; (kind = sampler_kind(p->sampler, i)); i++) {
		ret->sources[i].kind = kind;
		sampler_stats(p->sampler, i, &ret->sources[i].counts);
		ret->source_count++;
	}
	assembler_stats(p->assembler, &ret->assembler);
	stream_stats(p->stream, &ret->stream);
	sampler_ticks(p->sampler, &ret->ticks_due, &ret->ticks_missed);
	ret->sideband_lost = p->sideband ? sideband_lost(p->sideband) : 0;
}
