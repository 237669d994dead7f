/*
 * sites: the time that threads spend off their CPU, always on, becomes rows of windows.
 *
 * The kernel adds up durations by walk (bpf/sites_wire.h). At the end of each window, and when
 * somebody asks for what there is so far, all sums are read, and what a walk has more than was
 * reported before is a row: with its stack, and the labels `state` (sleeping, uninterruptible,
 * idle, runnable) and `reason` (waiting.h). A wait that is open counts up to the window's end: so
 * one that lasts is in each window, and needs no care of its own. What moves from one place to
 * another while it is read is missed, not counted twice, and comes with the next window.
 *
 * A row counts the waits that have ended, or 1 if it has only a part of one that is open.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "pipeline/source_stage.h"

/* Its second type is how long threads ran (ran.h). */
extern const struct source_stage sites_stage;

/* As `measured` (measure.h) has it. */
struct sites_stats {
	uint64_t walks;     /* known now */
	uint64_t walked;    /* ever */
	uint64_t stackless; /* waits: of threads that did not live long, and where there was no room
			     */
	uint64_t held;      /* drains after which no stacks were walked, as too many were new */
	uint64_t full;      /* times that the kernel had no room for more sites */
	uint64_t read_errors;
	int begin_error; /* -errno: threads that waited already at the beginning are missing; 0 */
};
