/*
 * ticks: how many ticks of a clock were due on a CPU, and how many of them were missed.
 *
 * Each time that somebody asks, what is new is added up. A CPU that idles may skip ticks, and loses
 * nothing by that: as many as fit into the time that it idled are excused.
 */
#pragma once

#include <stdint.h>

#define TICKS_IDLE_GRAIN_NS 10000000 /* of /proc/stat */

struct ticks {
	uint64_t due, came; /* up to when they were last added up … */
	uint64_t idle_ns;   /* … and how long the CPU had idled then */
};

struct ticks_now {
	uint64_t clock_ns; /* for how long the clock has been running */
	uint64_t came;     /* ticks, ever */
	uint64_t
		idle_ns; /* for how long the CPU has idled, ever; in steps of TICKS_IDLE_GRAIN_NS */
};

/* A clock that begins now, on a CPU where so many came before. */
void ticks_begin(struct ticks *t, uint64_t came);

void ticks_add(struct ticks *t, uint64_t period_ns, const struct ticks_now *now, uint64_t *due,
	       uint64_t *missed);
