/*
 * running: when each thread of a recording was on a CPU.
 *
 * The events of offcpu_source say when a thread leaves its CPU, and when its time off it before
 * that had ended: what lies between it ran. Threads that ran all the time, from before the
 * beginning or to after the end, tell nothing by themselves: an iterator lists them
 * (offcpu_source_roster()). Where events were lost, how long a thread ran is what the kernel counts
 * (se.sum_exec_runtime), and when it did so is taken to be just before it was heard of again.
 *
 *	running_new()
 *	running_roster()  of each thread there is …
 *	running_begin()   … once all of them are known: no time before that counts
 *	running_event()   in order of time, from the first on
 *	running_back()    of each thread in the kernel's map, at the end
 *	running_end()     of each thread, at the end
 */
#pragma once

#include <stdint.h>

#include "bpf/offcpu_wire.h"

enum running_kind {
	RUNNING_RAN,
	RUNNING_NOT_YET, /* it was new, and waited for its first turn */
	RUNNING_LOST,    /* events were lost: what it did is not known */
};

/* A part of a thread's time, CLOCK_MONOTONIC; `who` is borrowed for the call. */
typedef void running_fn(void *ctx, const struct wire_event *who, enum running_kind kind,
			uint64_t from, uint64_t to);

struct running;

struct running *running_new(running_fn *fn, void *ctx);
void running_free(struct running *r);

void running_begin(struct running *r, uint64_t begin_ns);

/* e: an event of offcpu_source, or of its iterators. */
void running_roster(struct running *r, const struct wire_event *e);
void running_event(struct running *r, const struct wire_event *e);
void running_back(struct running *r, const struct offcpu_thread *in_kernel);
void running_end(struct running *r, const struct wire_event *e, uint64_t end_ns);
