/*
 * source_stage: what a source of the always-on collector has of its own between events and windows.
 *
 * Most sources have none: their events are added to windows as they come. A source that adds up in
 * the kernel has one: its events only tell what the sums are of, and at the end of each window the
 * sums become rows. A stage is a table of functions; collecting.c lists those that there are.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "collect/source.h"
#include "pipeline/assemble.h"
#include "pipeline/pipeline.h"
#include "pipeline/waiting.h"
#include "pipeline/windows.h"

struct measured;

/* All are borrowed, and outlive the stage. */
struct source_stage_options {
	struct profile *dict;
	struct windows *windows, *second;    /* of type and second_type; the latter may be NULL */
	unsigned source;                     /* its number in the sampler */
	const struct waiting_options *waits; /* which functions decide that a thread is idle */
};

struct source_stage {
	const struct source_kind *of;
	const char *what; /* "off-CPU time": named in messages if the source cannot run */
	/* The type of a second profile, in nanoseconds, that it makes rows of; NULL: none. The
	 * kernel does not count these rows: they count as taken when they are sent. */
	const char *second_type;

	void *(*new)(const struct source_stage_options *o); /* `self` of the others */
	void (*free)(void *self);

	/* Once, before the first drain: what there is already. */
	void (*begin)(void *self, struct pipeline *p);
	/* An event of the source. */
	void (*event)(void *self, struct processes *ps, const struct assembled *a);
	/* After each drain. */
	void (*settle)(void *self, struct pipeline *p);
	/* Adds all there is up to `end_ns` (CLOCK_MONOTONIC, not after now) to the window that ends
	 * then. `is_last`: report even time whose owner is still unknown. */
	void (*report)(void *self, struct pipeline *p, uint64_t end_ns, bool is_last);
	/* Its part of what the collector tells of itself (measure.h); borrowed by *ret. */
	void (*measure)(void *self, struct measured *ret);
};
