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

/* All three are borrowed and outlive it. `o` takes the events of offcpu_roster_source. `l` weighs
 * time by how few threads run; NULL: time is not weighed. The options of `o` have the same `l`. */
struct wall *wall_new(struct profile *p, struct offcpu *o, struct latency *l);
void wall_free(struct wall *w);

/* The assembler's sink: ctx is the struct wall. */
void wall_event(void *ctx, const struct assembled *a);

/* Instead of offcpu_find(). */
int wall_find(struct wall *w, struct pipeline *p, unsigned source);

/* Instead of offcpu_begin(). */
void wall_begin(struct wall *w, uint64_t begin_ns);

/*
 * At the end of the recording, once there are no more events: asks which threads there are, and
 * what each ran last. To be called before pipeline_stop(), which may take seconds, in which threads
 * end. 0, or -errno: what they ran last is missing (-ENOBUFS: only of threads beyond
 * OFFCPU_THREADS_MAX).
 */
int wall_end(struct wall *w, struct pipeline *p, uint64_t end_ns);

/* After pipeline_stop(), before offcpu_finish(). */
void wall_finish(struct wall *w, struct pipeline *p);

uint64_t wall_sampled(const struct wall *w); /* samples of the clock, since the beginning */
