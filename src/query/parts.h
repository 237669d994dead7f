/*
 * parts: wall-clock time, divided into its parts.
 *
 * What threads ran and what they waited for, of one range of time, becomes one profile: all time of
 * all threads. How long they ran is known exactly, or only by samples; where it is, the samples of
 * an owner (a thread, or a process) only divide the time that it ran, in their proportions. The
 * root of each stack is a mark that says which part it belongs to: [running: user], [running:
 * kernel], [running: not sampled], [waiting for a CPU], [blocked: disk] …, [idle], and [lost],
 * time of which events were lost.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "profile/profile.h"

enum part {
	PART_USER,
	PART_KERNEL,
	PART_UNSAMPLED,
	PART_RUNNABLE,
	PART_BLOCKED, /* … by reason: "blocked: disk" */
	PART_IDLE,
	PART_LOST,
	PARTS,
};

extern const char *const parts_names[PARTS]; /* without the brackets */

struct parts_list { /* some samples of a profile; borrowed */
	const struct profile *of;
	const struct sample *samples;
	uint32_t count;
};

struct parts {
	struct parts_list ran;     /* how long, exactly; empty: the samples have to tell it */
	struct parts_list sampled; /* where */
	struct parts_list off;     /* with the labels `state` and `reason` */
	struct parts_list lost;
	const char *owner[2];  /* keys of labels: whose samples divide what ran */
	const char *const *by; /* keys of the labels to keep */
	size_t by_count;
};

/* Adds all of it to `into`, another profile. */
void parts_sum(const struct parts *p, struct profile *into);
