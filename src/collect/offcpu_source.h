/*
 * offcpu_source: the source of bpf/offcpu.bpf.c: threads that leave their CPU. What is under way
 * when a recording begins, and when it ends, is asked for here. bpf/offcpu_wire.h says what its
 * events mean.
 */
#pragma once

#include <stdbool.h>

#include "bpf/offcpu_wire.h"
#include "collect/source.h"

extern const struct source_kind offcpu_source;
extern const struct source_kind offcpu_roster_source; /* the same, with offcpu_source_roster() */
extern const struct source_kind offcpu_wakers_source; /* the same, with events of wakers */

/*
 * Threads that are off their CPU now and have not been seen to leave it: they are followed from now
 * on, as if they had left this moment. Each is handed over as an event, with a copy of its user
 * stack, borrowed for the call. 0 or -errno.
 */
int offcpu_source_found(struct source *s, event_fn *fn, void *ctx);

/*
 * Every thread that the filters let pass, as an event without stacks (bpf/offcpu_wire.h:
 * offcpu_found); those on a CPU are followed from now on. Also once the source was stopped. 0 or
 * -errno.
 */
int offcpu_source_roster(struct source *s, event_fn *fn, void *ctx);

/* What is not reported yet, once the source was stopped. */
typedef void offcpu_thread_fn(void *ctx, const struct offcpu_thread *t);
void offcpu_source_threads(struct source *s, offcpu_thread_fn *fn, void *ctx);
