/*
 * collector: the stages from the kernel to stacks of functions, joined: sampler, side-band, stream,
 * assembler. Whoever owns it calls collector_drain() on a timer. While the loop runs it is drained
 * sooner as well, when rings fill up before the next tick.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/loop.h"
#include "collect/sampler.h"
#include "collect/stream.h"
#include "profile/assemble.h"
#include "profile/profile.h"

struct collector;

/*
 * Samples flow from here on, and become stacks of `p`, which is borrowed. `assemble.maps` is set
 * here. The calling thread gets sampler.nice. 0, or -errno with what failed in *ret_err.
 */
int collector_new(struct profile *p, const struct sampler_options *sampler,
		  const struct assembler_options *assemble, struct collector **ret,
		  struct sampler_error *ret_err);
void collector_free(struct collector *c);

/* CPUs that come and go are followed, and rings watched, while the loop runs. 0 or -errno. */
int collector_watch(struct collector *c, struct loop *l);

void collector_drain(struct collector *c);

/* No more samples; what was taken is drained. `wait_ms`: how long unwind tables are waited for. */
void collector_stop(struct collector *c, unsigned wait_ms);

/* How often to drain, in ms, at most every `max`: so that samples alone never fill half of a ring.
 */
unsigned collector_pace(const struct sampler_options *s, unsigned max);

struct sampler *collector_sampler(const struct collector *c);
struct processes *collector_processes(const struct collector *c);

struct collector_stats {
	struct sampler_counts counts;
	struct assembler_stats assembler;
	uint64_t sideband_lost;
	struct stream_stats stream;
	uint64_t ticks_due, ticks_missed; /* see sampler_ticks() */
	int sideband_error;               /* 0, or why there is none: -errno */
	int hotplug_error;                /* 0, or why CPUs that come later are not seen: -errno */
	int priority_error;               /* 0, or why we wait for our turn like all others */
};

void collector_stats(const struct collector *c, struct collector_stats *ret);
