/*
 * trace_records: the records of traced calls, in order of the time at which the calls returned.
 *
 * Records of several CPUs come out of the ring in order but for some microseconds; here they wait
 * until nothing earlier can come. As a flight recorder it keeps the last so many seconds, up to
 * TRACE_RECORDS_BYTES; what does not fit is let go, oldest first, and counted.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "bpf/trace_wire.h"

#define TRACE_RECORDS_BYTES (64u << 20)

struct trace_records;

struct trace_records *trace_records_new(void);
void trace_records_free(struct trace_records *h); /* NULL is fine */

void trace_records_add(struct trace_records *h, const struct trace_record *r);

/* The first of them; NULL: there is none. Borrowed until one is added. */
const struct trace_record *trace_records_first(const struct trace_records *h);

/* Hands over, in order, those that ended before `until` (CLOCK_MONOTONIC). */
typedef void trace_records_fn(void *ctx, const struct trace_record *r);
void trace_records_take(struct trace_records *h, uint64_t until, trace_records_fn *fn, void *ctx);

/* Forgets those that ended before `from`. */
void trace_records_forget(struct trace_records *h, uint64_t from);

/* For want of room: how many, and when the last of them had ended (0: none was). */
uint64_t trace_records_dropped(const struct trace_records *h);
uint64_t trace_records_dropped_until(const struct trace_records *h);
