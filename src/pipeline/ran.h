/*
 * ran: how long threads ran, always on, becomes rows of windows: the type `oncpu`.
 *
 * The kernel adds up what each thread runs between two waits (bpf/sites_wire.h). Each time the
 * threads are read, what a thread ran since the last report, up to the window's end, becomes one
 * row without a stack (count 1). With the type `offcpu` that is all the time of a thread;
 * query/wall_parts.h puts them together.
 *
 * The kernel has no counter of these rows, so they count as taken when they are sent:
 * sender_uncounted().
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "bpf/sites_wire.h"
#include "pipeline/windows.h"

#define RAN_TYPE "oncpu"

struct ran;

/* The windows are borrowed, and of this type alone. */
struct ran *ran_new(struct windows *ws);
void ran_free(struct ran *r);

/*
 * A thread, by its place in the kernel's map; `back`: since when it is on a CPU; 0: it is not.
 * `who`: whose it is; NULL: what was said before, and if nothing was, it waits until it is known,
 * or until `is_last`. `end_ns`: CLOCK_MONOTONIC, as for a report (source_stage.h).
 */
void ran_thread(struct ran *r, uint32_t place, const struct site_thread *t, uint64_t back,
		const struct owner *who, uint64_t end_ns, bool is_last);

/* One that has ended and is in no map: all that it ran. */
void ran_ended(struct ran *r, const struct owner *who, uint64_t at_ns, uint64_t ns);
