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
 * query/recorded_wall.h makes one profile of them.
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

/* Instead of offcpu_find(). */
int wall_find(struct wall *w, struct pipeline *p, unsigned source);

/* Instead of offcpu_begin(). */
void wall_begin(struct wall *w, uint64_t begin_ns);

/*
 * At the end of the recording, once there are no more events: who there is. pipeline_stop() comes
 * only then, as it may take seconds, in which threads end. 0, or -errno: what they ran last is
 * missing, of those beyond OFFCPU_THREADS_MAX if it is -ENOBUFS.
 */
int wall_end(struct wall *w, struct pipeline *p, uint64_t end_ns);

/* After pipeline_stop(), before offcpu_finish(). */
void wall_finish(struct wall *w, struct pipeline *p);

uint64_t wall_sampled(const struct wall *w); /* samples of the clock, since the beginning */
