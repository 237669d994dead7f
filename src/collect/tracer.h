/*
 * tracer: the calls of chosen system calls, one record each (bpf/trace_wire.h), from when it is
 * made until it is stopped.
 *
 * Nothing is lost without being counted: taken = handed over + lost + lost_notes, once all is
 * drained.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "bpf/trace_wire.h"
#include "bpf/wire.h"
#include "collect/sampler.h"

struct tracer;

struct tracer_options {
	struct wire_filter filter;
	const uint32_t *targets; /* pids, or tids when filter.by_tid */
	size_t target_count;
	struct source *stacks; /* of trace_stack_source, to be taken with each record; NULL: none */
	bool from_exec; /* the target is a program yet to be run: traced from its execve on */
	struct trace_choice choice;     /* self, awaited and stacks are set here */
	const struct trace_plan *plans; /* SYSCALL_CALLS of them */
	size_t ring_bytes;              /* a power of two; 0: TRACER_RING_BYTES */
};

#define TRACER_RING_BYTES (8u << 20)

/* 0, or -errno with *ret_err filled in. */
int tracer_new(const struct tracer_options *o, struct tracer **ret, struct sampler_error *ret_err);
void tracer_free(struct tracer *t);

/*
 * Hands over waiting records for at most `max_ms`, in the order in which their calls returned, give
 * or take microseconds. They are borrowed until fn returns. True: more are waiting.
 */
typedef void tracer_fn(void *ctx, const struct trace_record *r, size_t bytes);
bool tracer_drain(struct tracer *t, uint64_t max_ms, tracer_fn *fn, void *ctx);

/* No more records from here on; what is in the ring can still be drained. */
void tracer_stop(struct tracer *t);

/* Calls in progress: once it is stopped, those that had not returned. With what was captured at
 * their entry. */
void tracer_pending(struct tracer *t, tracer_fn *fn, void *ctx);

struct tracer_counts {
	uint64_t taken;
	uint64_t lost;       /* calls: the ring was full */
	uint64_t lost_notes; /* the same of ends and signals */
	uint64_t no_thread;  /* calls not seen: more threads than there is room for */
	uint64_t no_entry;   /* records without what is read at the entry, for want of room */
	uint64_t nested;     /* dropped, as a program interrupted itself: expected to be 0 */
};

void tracer_counts(const struct tracer *t, struct tracer_counts *ret);
