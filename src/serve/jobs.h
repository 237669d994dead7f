/*
 * jobs: work that takes long, on threads of its own, so that the loop goes on.
 *
 * Few run at once and few wait; beyond that a job is not taken. Each has a deadline, and whoever it
 * is for may go away: the work asks now and then whether to go on. Threads begin with the first
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
	void (*done)(struct job *j); /* afterwards, in the loop; frees it */
	int fd;               /* of the client: -1: none; the job ends when it hangs up */
	uint64_t deadline_ms; /* CLOCK_MONOTONIC */
	enum job_end end;     /* why it was not to go on; JOB_DONE: it was */
	/* Private. */
	struct jobs *jobs;
	struct job *next;
};

struct jobs *jobs_new(struct loop *l, unsigned threads, unsigned waiting);
void jobs_free(struct jobs *js); /* ends what runs, and calls `done` of every job; NULL is fine */

int jobs_add(struct jobs *js, struct job *j); /* 0, -EAGAIN when there are too many */

/* Whether the work is still wanted; called by `run`, as often as it likes. */
bool job_goes_on(struct job *j);

struct jobs_stats {
	uint64_t done, late, gone, refused;
	uint32_t running, waiting;
};

void jobs_stats(struct jobs *js, struct jobs_stats *ret);
