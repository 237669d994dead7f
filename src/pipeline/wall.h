/*
 * wall: all the time of threads, of a recording: what they ran, and what they waited for.
 *
 * It is the sink of an assembler for two sources: a clock, whose samples say what runs, and
 * offcpu_roster_source, which tells exactly how long threads ran (running.h) and waited (offcpu.h).
 * What comes of it are samples of the profile, told apart by the label `state`:
 *
 *	none                  samples of the clock
 *	WALL_RUNNING          how long a thread ran: without a stack
 *	WALL_LOST             how long a thread did what is not known, as events were lost
 *	all others            time off the CPU
 *
 * query/parts.h makes one profile of them.
 */
#pragma once

#include "pipeline/latency.h"
#include "pipeline/offcpu.h"

#define WALL_RUNNING "running"
#define WALL_LOST    "lost"

struct wall;

/* The profile, and what takes the events of the second source, are borrowed and outlive it; so is
 * what weighs time, which may be NULL, and which the options of `o` name as well. */
struct wall *wall_new(struct profile *p, struct offcpu *o, struct latency *l);
void wall_free(struct wall *w);

/* The assembler's sink: ctx is the struct wall. */
void wall_event(void *ctx, const struct assembled *a);

/* Instead of offcpu_begin(). */
int wall_begin(struct wall *w, struct pipeline *p, unsigned source, uint64_t begin_ns);

/* Instead of offcpu_begin_anew(). */
void wall_begin_anew(struct wall *w, uint64_t begin_ns);

/* Before offcpu_finish(). 0, or -errno: what threads ran last is missing. */
int wall_finish(struct wall *w, struct pipeline *p, uint64_t end_ns);
