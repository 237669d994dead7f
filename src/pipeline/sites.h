/*
 * sites: the time that threads spend off their CPU, always on, becomes rows of windows.
 *
 * The kernel adds up durations by walk (bpf/sites.h). At the end of each window, and when somebody
 * asks for what there is so far, all sums are read, and what a walk has more than was reported
 * before is a row: with its stack, and the labels `state` (sleeping, uninterruptible, idle,
 * runnable) and `reason` (waiting.h). A wait that is open counts up to the window's end: so one
 * that lasts is in each window, and needs no care of its own. What moves from one place to another
 * while it is read is missed, not counted twice, and comes with the next window.
 *
 * A row counts the waits that have ended, or 1 if it has only a part of one that is open.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "pipeline/assemble.h"
#include "pipeline/pipeline.h"
#include "pipeline/ran.h"
#include "pipeline/waiting.h"
#include "pipeline/windows.h"

struct sites;

/* All are borrowed. `source`: its number in the sampler; `waits`: which functions decide that a
 * thread is idle; `ran` gets what threads ran, unless it is NULL. */
struct sites *sites_new(struct profile *dict, struct windows *ws, struct ran *ran, unsigned source,
			const struct waiting_options *waits);
void sites_free(struct sites *s);

/* Once, before the first drain: threads that wait already. 0, or -errno: they are missing. */
int sites_begin(struct sites *s, struct pipeline *p);

/* An event of sites_source. */
void sites_event(struct sites *s, struct processes *ps, const struct assembled *a);

/* After each drain: how often stacks are walked is adapted to how many were. */
void sites_settle(struct sites *s, struct pipeline *p);

/*
 * Adds all there is up to `end_ns` (CLOCK_MONOTONIC, not after now) to the window that ends then.
 * `is_last`: what is not known whose it is waits no longer.
 */
void sites_report(struct sites *s, struct pipeline *p, uint64_t end_ns, bool is_last);

struct sites_stats {
	uint64_t walks;     /* known now */
	uint64_t walked;    /* ever */
	uint64_t stackless; /* waits: of threads that did not live long, and where there was no room
			     */
	uint64_t held;      /* drains after which no stacks were walked, as too many were new */
	uint64_t full;      /* times that the kernel had no room for more sites */
	uint64_t read_errors;
	int begin_error; /* of sites_begin(): 0 or -errno */
};

void sites_stats(const struct sites *s, struct sites_stats *ret);
