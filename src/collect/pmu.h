/*
 * pmu: the units of this machine that count (PMUs: of the cores, of the memory controllers, of the
 * power supply), as sysfs describes them, and their events, as perf writes them:
 *
 *	msr/tsc/                   an event that the unit has a name for
 *	cpu/event=0x3c,umask=0/    the fields of its configuration
 *
 * These files are the kernel's own; what they say is taken as it is, except for sizes.
 */
#pragma once

#include <linux/perf_event.h>
#include <stddef.h>

#include "collect/cpus.h"

#define PMU_NAME_MAX 64
#define PMU_UNIT_MAX 16

struct pmu_event {
	char pmu[PMU_NAME_MAX];
	struct perf_event_attr attr; /* type and config */
	double scale;                /* of a count, to be of that unit */
	char unit[PMU_UNIT_MAX];     /* "Joules"; "": it is a number */
};

/* `terms`: what stands between the slashes. 0; or, with the reason in `why` as a sentence without a
 * full stop, -errno. */
int pmu_find(const char *pmu, const char *terms, struct pmu_event *ret, char *why, size_t size);

/* Calls fn for each CPU that a unit is counted by, one for each socket, say: 0; -ENOENT: by any. */
int pmu_cpus(const char *pmu, cpus_fn *fn, void *ctx);
