/*
 * windows: adds up the samples that come in into windows of wall-clock time, one series for each
 * set of labels (labeller.h).
 *
 * Samples carry CLOCK_MONOTONIC; windows_clock() says, at each drain, what the wall clock makes of
 * it. A window is closed once a drain has come past its end by a moment; what comes for it later
 * still is a window with the same start, which adds up. A wall clock that steps back by less than a
 * minute makes the window at hand longer, so none is there twice; one that steps further, or
 * forward, or a machine that slept, is followed at once.
 *
 * Times are stored in slots of 20 ms. A sample is put at the tick it belongs to (ticks are numbered
 * from the start of each second), up to one period early, so that every second has the same number
 * of ticks per slot: heatmaps divide by it.
 *
 * Samples that say which span of a trace they belong to (WIRE_SPAN) are noted beside the rows: at
 * most 16,384 pairs of a span and a row in a window.
 *
 * Bounded: beyond `rows_max` pairs or `owners_max` threads in a window, samples are added to
 * {comm="(other)"} without a stack, and counted.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "process/process.h"
#include "pipeline/assemble.h"
#include "pipeline/labeller.h"
#include "profile/window.h"

struct windows;

struct windows_options {
	const char *type, *unit; /* of the profile: "cpu", "nanoseconds" */
	uint64_t period;         /* the value of a sample; 0: it varies */
	struct labeller_options labels;
	uint32_t rows_max;   /* 0: 20,000 */
	uint32_t owners_max; /* 0: 8,192 */
};

/* The dictionary is borrowed and outlives it. */
struct windows *windows_new(struct profile *dict, const struct windows_options *o);
void windows_free(struct windows *ws);

/* Before each drain: CLOCK_MONOTONIC, CLOCK_BOOTTIME and CLOCK_REALTIME, in ns. */
void windows_clock(struct windows *ws, uint64_t monotonic, uint64_t boottime, uint64_t wall);

/* Length from the next window on: WINDOW_MS, or 1000 while someone looks. Divides a minute. */
void windows_set_length(struct windows *ws, uint32_t ms);

void windows_add(struct windows *ws, struct processes *ps, const struct assembled *a);

/* Whether the stack of an event is of use: not if rules are known to drop its series. */
bool windows_wants(struct windows *ws, const struct wire_event *s);

/* Whose an event is, to be kept and used again: see windows_add_sum(). */
void windows_owner(struct windows *ws, struct processes *ps, const struct assembled *a,
		   struct owner *ret);

/*
 * Many events at once: `count` of them, worth `value`, in the window of `at_ns` (CLOCK_MONOTONIC).
 * When in it they happened is not kept: not together with windows_add(). `who` NULL: (other).
 */
void windows_add_sum(struct windows *ws, const struct owner *who, uint64_t at_ns, uint32_t stack,
		     uint64_t count, uint64_t value);

/* Whether a window has ended since this was asked the last time: and when, CLOCK_MONOTONIC. */
bool windows_has_ended(struct windows *ws, uint64_t *ret_end_ns);

/*
 * The next window that is over, or with `flush` whatever there is; false if there is none. Its
 * type, times and rows are set; the caller frees it with window_done().
 */
bool windows_take(struct windows *ws, struct processes *ps, bool flush, struct window *ret);

struct windows_stats {
	uint64_t other;          /* samples in (other) */
	uint64_t dropped;        /* samples in (dropped): rules say so */
	uint64_t open;           /* samples not taken yet */
	uint64_t steps;          /* of the wall clock, either way */
	uint64_t spans_left_out; /* samples whose span is not told: there were too many */
	uint64_t folded;         /* samples of threads that should be a series, for threads_max */
};

/* Adds them to *sum. */
void windows_stats(const struct windows *ws, struct windows_stats *sum);
