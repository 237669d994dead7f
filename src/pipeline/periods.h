/*
 * periods: times that threads spent off the CPU of which not all is known yet.
 *
 * What is known of one comes in pieces (bpf/offcpu_wire.h): its stack, its durations, who woke it.
 * They come in any order, since an event may have to wait for an unwind table. Bounded: at the cap
 * nothing is added, which the caller counts.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

struct period {
	uint64_t began; /* with tid, which one it is */
	uint32_t tid;
	uint32_t next; /* private */
	/* From its beginning. */
	bool has_stack;
	uint8_t state; /* enum offcpu_state */
	bool is_idle;
	uint32_t stack;
	uint32_t series, runnable_series;
	/* From its end. */
	bool has_end;
	bool is_open; /* … which is only that of the recording */
	uint64_t ns, runnable_ns;
	/* Who ended it. */
	bool has_waker;
	uint32_t waker; /* a stack, with a mark at its root */
};

struct periods;

struct periods *periods_new(uint32_t max);
void periods_free(struct periods *p);

/* Finds one, or makes it with all else zero. Borrowed until the next call; NULL: there are too
 * many. */
struct period *periods_get(struct periods *p, uint32_t tid, uint64_t began);
void periods_remove(struct periods *p, struct period *x);

/* Removes all, each after it was handed over. */
typedef void period_fn(void *ctx, struct period *x);
void periods_flush(struct periods *p, period_fn *fn, void *ctx);

uint32_t periods_count(const struct periods *p);
