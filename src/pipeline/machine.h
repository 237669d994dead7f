/*
 * machine: cheap facts of the kernel's own about the time between two looks (look.h): how many
 * threads want to run, how long work stood still for want of memory, how much of the time the
 * control groups that run most were held back by their quota. Those are looked up for each process:
 * the group that a sample tells may be of another controller.
 */
#pragma once

#include <stdint.h>

#include "pipeline/look.h"

#define MACHINE_GROUPS 32

struct machine_group { /* of a process */
	uint64_t start;
	uint32_t pid;
	char path[256]; /* of the group whose quota it is: a directory; "": there is none */
	uint64_t periods, throttled, throttled_ns; /* so far */
	double quota;                              /* in CPUs; 0: not known */
	unsigned rest;                             /* looks until a quota is looked for again */
	uint64_t used;                             /* the look that it was in */
	/* Between the last two looks: */
	double held_back; /* share of the periods in which it was throttled */
	double seconds;   /* that its threads stood still */
};

struct machine {         /* zero-initialised is empty */
	char mount[128]; /* of the hierarchy of the cpu controller; "": none */
	unsigned cpus;
	uint64_t looks;
	uint64_t memory_us; /* so far that some thread waited for memory */
	struct machine_group groups[MACHINE_GROUPS];
	unsigned group_count;
	/* Between the last two looks: */
	double running;       /* threads that run or want to, as of now */
	double memory_stalls; /* share of the time in which some thread waited for memory */
};

void machine_begin(struct machine *m);
void machine_look(struct machine *m, const struct look *l);

/* That of a process; two of one group have the same path. NULL: nothing is known of it. */
const struct machine_group *machine_group(const struct machine *m, const struct look_process *p);
