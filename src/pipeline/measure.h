/*
 * measure: what an always-on collector tells of itself: the values behind the names of metrics.h,
 * and, once for each kind, a line in the log about what it has to do without (trouble.h).
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/mem.h"
#include "pipeline/findings.h"
#include "pipeline/pipeline.h"
#include "pipeline/sender.h"
#include "pipeline/sites.h"
#include "pipeline/trouble.h"
#include "pipeline/windows.h"

#define MEASURE_MAX 224

/* Zero-initialised, embedded. */
struct measure {
	struct window_metric metrics[MEASURE_MAX]; /* as of the last measure_all() */
	uint32_t count;
	struct arena names;
	size_t refused; /* how many refused system calls have been logged already */
	bool said[TROUBLES];
};

/* What the stages counted, as of now. */
struct measured {
	uint64_t frequency; /* of sampling */
	uint64_t uptime_ns;
	struct pipeline_stats pipeline;
	const struct sampler_stats *first; /* the kernel's counters at the beginning, by source */
	struct windows_stats windows;
	struct sender_stats sender;
	uint64_t drain_ns, window_ns, send_ns; /* CPU time */
	uint64_t dictionary_bytes;
	unsigned missing_capabilities;
	bool no_control_groups;
	uint64_t state_files;            /* of container runtimes that could not be read */
	uint64_t kubelet_failures;       /* where the collector itself asks it */
	bool no_offcpu;                  /* asked for, but this kernel cannot */
	const struct sites_stats *sites; /* NULL: time off the CPU is not kept */
	const struct findings *findings; /* NULL: nothing is looked for */
};

void measure_all(struct measure *m, const struct measured *now);

/* Logs which system calls were refused since the last time; nothing else is measured. */
void measure_refused(struct measure *m);
void measure_done(struct measure *m);
