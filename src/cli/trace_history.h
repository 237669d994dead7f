/*
 * trace_history: records in order of the time at which their calls returned.
 *
 * Records of several CPUs come out of the ring in order but for some microseconds; here they wait
 * until nothing earlier can come. As a flight recorder it keeps the last so many seconds, up to
 * TRACE_HISTORY_BYTES; what does not fit is let go, oldest first, and counted.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "bpf/trace_wire.h"

#define TRACE_HISTORY_BYTES (64u << 20)

struct trace_history;

struct trace_history *trace_history_new(void);
void trace_history_free(struct trace_history *h); /* NULL is fine */

void trace_history_add(struct trace_history *h, const struct trace_record *r);

/* The first of them; NULL: there is none. Borrowed until one is added. */
const struct trace_record *trace_history_first(const struct trace_history *h);

/* Hands over, in order, those that ended before `until` (CLOCK_MONOTONIC). */
typedef void trace_history_fn(void *ctx, const struct trace_record *r);
void trace_history_take(struct trace_history *h, uint64_t until, trace_history_fn *fn, void *ctx);

/* Forgets those that ended before `from`. */
void trace_history_forget(struct trace_history *h, uint64_t from);

/* For want of room: how many, and when the last of them had ended (0: none was). */
uint64_t trace_history_dropped(const struct trace_history *h);
uint64_t trace_history_dropped_until(const struct trace_history *h);
