/*
 * jobs: long work on threads of its own, so that the event loop is not held up.
 *
 * A few run at once and a few wait; beyond that a job is refused. Each has a deadline, and its
 * client may hang up: the work asks now and then whether to go on. Threads start with the first
 * job.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/loop.h"

struct jobs;

enum job_end { JOB_DONE, JOB_LATE, JOB_GONE, JOB_STOPPED };

struct job {
	void (*run)(struct job *j);  /* on a thread */
	void (*done)(struct job *j); /* afterwards, in the loop; frees the job */
	int fd;                      /* of the client: -1: none; the job ends when it hangs up */
	uint64_t deadline_ms;        /* CLOCK_MONOTONIC */
	enum job_end end;            /* why it had to stop; JOB_DONE: it did not */
	/* Private. */
	struct jobs *jobs;
	struct job *next;
};

struct jobs *jobs_new(struct loop *l, unsigned threads, unsigned waiting);
void jobs_free(struct jobs *js); /* stops all jobs and calls their `done`; NULL is fine */

int jobs_add(struct jobs *js, struct job *j); /* 0; -EAGAIN: too many are waiting */

/* Whether the result is still wanted; `run` may ask as often as it likes. */
bool job_goes_on(struct job *j);

struct jobs_stats {
	uint64_t done, late, gone, refused;
	uint32_t running, waiting;
};

void jobs_stats(struct jobs *js, struct jobs_stats *ret);
