/*
 * offcpu: the time that threads spend off the CPU becomes samples of a profile, in nanoseconds.
 *
 * It is the sink of an assembler, for events of offcpu_source: it puts together what they say of a
 * period (bpf/offcpu_wire.h). A period becomes two samples, each a series with the labels `state`
 * and `reason` (waiting.h): the time it was blocked (sleeping or uninterruptible; or idle, under
 * the mark [idle]), and the time after that it was runnable, under the mark [runnable].
 *
 *	offcpu_new(), pipeline_new() with its sink
 *	offcpu_find()    threads that are off their CPU already
 *	offcpu_begin()   once they are known: no time before that counts
 *	… events …
 *	offcpu_finish()  after pipeline_stop(): what is still open
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "pipeline/assemble.h"
#include "pipeline/pipeline.h"
#include "pipeline/waiting.h"
#include "profile/profile.h"

struct offcpu;

/* A part of a period, CLOCK_MONOTONIC, as a sample would have it. */
typedef void offcpu_span_fn(void *ctx, uint32_t series, uint32_t stack, uint64_t from, uint64_t to);

struct offcpu_options {
	uint64_t min_ns, max_ns; /* of a whole period; max 0: any */
	unsigned states;         /* 1 << enum offcpu_state, or'ed; 0: all */
	/* As BCC's offcputime has it: a period is one sample, in whole microseconds, of the state
	   it began with, and a thread is shown by its own name and tid. */
	bool as_bcc;
	bool user_threads, kernel_threads; /* only these; neither: all */
	bool no_idle;                      /* without the time that threads wait for work */
	struct waiting_options waits;      /* which functions decide that they do */
	bool wakers;                       /* who woke them, and who held the lock */
	offcpu_span_fn *span;              /* gets what would be samples; NULL: they are samples */
	void *span_ctx;
};

/* The profile is borrowed and outlives it. */
struct offcpu *offcpu_new(struct profile *p, const struct offcpu_options *o);
void offcpu_free(struct offcpu *o);

/* The assembler's sink: ctx is the struct offcpu. */
void offcpu_event(void *ctx, const struct assembled *a);

/* `source`: its number in the sampler. 0, or -errno: those that are off the CPU now are missing. */
int offcpu_find(struct pipeline *p, unsigned source);

/* All time counts from `begin_ns` on (CLOCK_MONOTONIC). To find threads takes a while, in which
 * they come and go: it is no part of the recording, so all that lived at its beginning have all of
 * it. */
void offcpu_begin(struct offcpu *o, uint64_t begin_ns);

/* What is open ends with the recording, at `end_ns` (CLOCK_MONOTONIC). */
void offcpu_finish(struct offcpu *o, struct pipeline *p, unsigned source, uint64_t end_ns);

struct offcpu_stats {
	uint64_t periods;    /* that are in the profile … */
	uint64_t open;       /* … of them, still open at its end */
	uint64_t stackless;  /* of which no stack came */
	uint64_t left_out;   /* too short, too long, or of another state or kind of thread */
	uint64_t unfinished; /* of which no duration came */
	uint64_t capped;     /* pieces of too many at a time; always 0 */
	uint64_t lost_ns;    /* of those still open whose event was lost */
};

void offcpu_stats(const struct offcpu *o, struct offcpu_stats *ret);
