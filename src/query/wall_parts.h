/*
 * wall_parts: wall-clock time, divided into its parts.
 *
 * What threads ran and what they waited for, of one range of time, becomes one profile: all time of
 * all threads. How long they ran is known exactly, or only by samples. Where it is known exactly,
 * the samples of an owner (a thread, or a process) only decide how that time is divided. The
 * root of each stack is a mark that says which part it belongs to: [running: user], [running:
 * kernel], [running: not sampled], [waiting for a CPU], [blocked: disk] …, [idle], and [lost],
 * time of which events were lost.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "profile/profile.h"

enum wall_part {
	WALL_PART_USER,
	WALL_PART_KERNEL,
	WALL_PART_UNSAMPLED,
	WALL_PART_RUNNABLE,
	WALL_PART_BLOCKED, /* … by reason: "blocked: disk" */
	WALL_PART_IDLE,
	WALL_PART_LOST,
	WALL_PARTS,
};

extern const char *const wall_parts_names[WALL_PARTS]; /* without the brackets */

struct wall_parts_list { /* some samples of a profile; borrowed */
	const struct profile *of;
	const struct sample *samples;
	uint32_t count;
};

struct wall_parts {
	struct wall_parts_list ran;     /* how long, exactly; empty: the samples have to tell it */
	struct wall_parts_list sampled; /* where */
	struct wall_parts_list off;     /* with the labels `state` and `reason` */
	struct wall_parts_list lost;
	const char *owner[2];  /* keys of labels: whose samples divide what ran */
	const char *const *by; /* keys of the labels to keep */
	size_t by_count;
};

/* Adds all of it to `into`, another profile. */
void wall_parts_sum(const struct wall_parts *p, struct profile *into);
