/*
 * counter_event: the events that the kernel counts, by the names that perf has for them.
 *
 *	task-clock, page-faults, context-switches …     of the kernel itself
 *	cycles, instructions, branch-misses …           of the processor, where it has a counter
 *	L1-dcache-load-misses, LLC-loads …              of its caches
 *	r1a8                                            of the processor, by number
 *	sched:sched_switch                              a tracepoint
 *	msr/tsc/, cpu/event=0x3c/u                      of a unit of the machine: see pmu.h
 *
 * After a colon may stand where to count: u in user space, k in the kernel, h in the hypervisor
 * (these add up); G only in guests, H only outside of them. {a,b} are counted at the same time, or
 * not at all: ratios of events that share a counter in turns are exact then.
 */
#pragma once

#include <linux/perf_event.h>
#include <stdbool.h>
#include <stddef.h>

#include "collect/pmu.h"

#define COUNTER_EVENTS_MAX 256
#define COUNTER_NAME_MAX   128

struct counter_event {
	char name[COUNTER_NAME_MAX]; /* as it was asked for */
	size_t base;                 /* so many bytes of the name stand before the modifiers */
	struct perf_event_attr attr; /* type, config and what is excluded */
	size_t leader;               /* the first of its group: its own index if it is in none */
	double scale;                /* a count times this is shown, as so many … */
	char unit[PMU_UNIT_MAX];     /* … of these; "": it is a number */
	char pmu[PMU_NAME_MAX];      /* the unit of the machine, if it was named; else "" */
};

struct counter_events { /* zero-initialised is empty */
	struct counter_event *list;
	size_t count, cap;
	char error[512]; /* why counter_events_add() refused, as a sentence without a full stop */
};

void counter_events_done(struct counter_events *e);

/*
 * Adds those of a list, "cycles,{page-faults:u,cs}". 0; with the reason in e->error: -EINVAL: that
 * is wrong on any machine; else -errno of what this one refused. What was added stays.
 */
int counter_events_add(struct counter_events *e, const char *list);

/* What is counted if nothing is asked for; `detailed`: of the caches, too; of whole CPUs, or of
 * tasks. */
void counter_events_add_default(struct counter_events *e, bool of_cpus, bool detailed);

/* Whether it is the event of that type and config, wherever it counts. */
bool counter_event_is(const struct counter_event *e, __u32 type, __u64 config);

/* Whether it is a clock: counts nanoseconds. */
bool counter_event_is_clock(const struct counter_event *e);

/* The config of PERF_TYPE_HW_CACHE: which cache, and loads of it, or those that miss. */
__u64 counter_event_cache(unsigned cache, bool misses);

/* Leaves out the kernel, which needs less permission, and says so in its name: "cycles:u". False
 * if modifiers say where to count, or it is a tracepoint. */
bool counter_event_only_user(struct counter_event *e);
