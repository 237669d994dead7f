/*
 * pipeline: the stages from the kernel to stacks of functions, joined: sampler, side-band, stream,
 * assembler. Whoever owns it calls pipeline_drain() on a timer. While the loop runs it is drained
 * sooner as well, when rings fill up before the next tick.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/loop.h"
#include "collect/sampler.h"
#include "pipeline/stream.h"
#include "pipeline/assemble.h"
#include "profile/profile.h"

struct pipeline;

/*
 * Samples flow from here on, and become stacks of `profile`, which is borrowed. `assemble.maps` is
 * set here. The calling thread gets sampler.nice. 0, or -errno with what failed in *ret_err.
 */
int pipeline_new(struct profile *profile, const struct sampler_options *sampler,
		 const struct assembler_options *assemble, struct pipeline **ret,
		 struct sampler_error *ret_err);
void pipeline_free(struct pipeline *p);

/* CPUs that come and go are followed, and rings watched, while the loop runs. 0 or -errno. */
int pipeline_watch(struct pipeline *p, struct loop *l);

void pipeline_drain(struct pipeline *p);

/* Whether the last drain, by the timer or sooner, was about `every_ms` ago or longer. */
bool pipeline_is_due(const struct pipeline *p, unsigned every_ms);

/* No more samples; what was taken is drained. `wait_ms`: how long unwind tables are waited for. */
void pipeline_stop(struct pipeline *p, unsigned wait_ms);

/*
 * How often the caller is to drain, in ms, at most every `max`: so that samples of ordinary length
 * alone never fill half of a ring. If the last drain suggests that a ring will be a quarter full
 * before the next, because its samples are longer, it is drained in between.
 */
unsigned pipeline_pace(struct pipeline *p, const struct sampler_options *s, unsigned max);

/* Calls fn with each event, too, in order of time, before its stack is known. */
void pipeline_tap(struct pipeline *p, event_fn *fn, void *ctx);

/* Takes an event that does not come from a ring. */
void pipeline_event(struct pipeline *p, const struct wire_event *e);

struct sampler *pipeline_sampler(const struct pipeline *p);
struct processes *pipeline_processes(const struct pipeline *p);

struct pipeline_stats {
	struct sampler_stats counts; /* of all sources */
	struct {
		const struct source_kind *kind;
		struct sampler_stats counts;
	} sources[SOURCES_MAX];
	unsigned source_count;
	struct assembler_stats assembler;
	uint64_t sideband_lost;
	struct stream_stats stream;
	uint64_t ticks_due, ticks_missed; /* see sampler_ticks() */
	int sideband_error;               /* 0, or why there is none: -errno */
	int modules_error;                /* 0, or why kernel modules have no names: -errno */
	int hotplug_error;                /* 0, or why CPUs that come later are not seen: -errno */
	int priority_error;               /* 0, or why we wait for our turn like all others */
};

void pipeline_stats(const struct pipeline *p, struct pipeline_stats *ret);
