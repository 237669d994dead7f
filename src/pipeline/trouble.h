/*
 * trouble: what a collector has to do without, by kind: calls and capabilities that it is denied,
 * files that it cannot read, and second choices that it falls back to. Each has a counter that
 * reaches /metrics, a sentence that is said once, and advice; `doctor --server` prints those that
 * are not 0. One table for all of them, so that what is counted is also explained.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "pipeline/pipeline.h"

enum trouble {
	TROUBLE_REFUSED_CALLS,
	TROUBLE_CAPABILITIES,
	TROUBLE_NO_SIDEBAND,
	TROUBLE_SIDEBAND_LOST,
	TROUBLE_KERNEL_NAMES,
	TROUBLE_NO_MODULES,
	TROUBLE_KERNEL_ASKED,
	TROUBLE_KERNEL_DIFFERENT,
	TROUBLE_FILES_UNREADABLE,
	TROUBLE_FILES_OTHER,
	TROUBLE_SYMBOLS_DROPPED,
	TROUBLE_DEBUG_FILES,
	TROUBLE_PERF_MAPS_REFUSED,
	TROUBLE_PERF_MAPS_CUT,
	TROUBLE_DEBUG_INFO,
	TROUBLE_TABLES_FAILED,
	TROUBLE_TABLES_NO_ROOM,
	TROUBLE_TABLE_CACHE,
	TROUBLE_FRAME_POINTERS,
	TROUBLE_STACKS_NOT_COPIED,
	TROUBLE_STACKS_GIVEN_UP,
	TROUBLE_MAPPINGS_CHANGED,
	TROUBLE_PROCESSES_CAPPED,
	TROUBLE_MAPPINGS_DROPPED,
	TROUBLE_TICKS_MISSED,
	TROUBLE_LATE,
	TROUBLE_CPUS_FAILED,
	TROUBLE_NO_HOTPLUG,
	TROUBLE_NO_CONTROL_GROUPS,
	TROUBLE_STATE_FILES,
	TROUBLE_KUBELET,
	TROUBLE_NO_OFFCPU,
	TROUBLE_THREADS_CAPPED,
	TROUBLE_SITES_NEW,
	TROUBLE_SITES_FULL,
	TROUBLE_SITES_UNREAD,
	TROUBLE_THREADS_UNLISTED,
	TROUBLE_NO_PRIORITY,
	TROUBLES,
};

enum trouble_counter { /* what the counter of a kind is */
		       TROUBLE_COUNT,
		       TROUBLE_ERROR, /* an errno */
		       TROUBLE_FLAG,  /* not 0: it is so */
};

struct trouble_kind {
	const char *name; /* of the label: "files_unreadable" */
	/* A sentence. It goes on from the number of a TROUBLE_COUNT: "files of programs could not
	 * be read: …"; a TROUBLE_ERROR is put into brackets before its colon, or its end. */
	const char *means;
	const char *help; /* what to do; "" if nothing can be done */
	bool ordinary;    /* small numbers are normal: told, but not as a warning */
	enum trouble_counter counter;
	bool is_said_elsewhere; /* in the log, with its reason: only counted and explained here */
};

extern const struct trouble_kind trouble_kinds[TROUBLES];

/* What the stages counted. Those that only a command knows (calls, capabilities, control groups,
 * threads that wait) are left as they are. */
void trouble_count(const struct pipeline_stats *s, uint64_t ret[static TROUBLES]);

#define TROUBLE_TEXT 256

/* The sentence of a kind: "12 files …", "unwind tables are not cached (Permission denied): …". */
void trouble_sentence(enum trouble which, uint64_t count, char ret[static TROUBLE_TEXT]);

/* Of a kind that is about files, which was the first: " (the first: /usr/bin/x)". Else "". */
void trouble_first(enum trouble which, const struct pipeline_stats *s, char *ret, size_t size);

int trouble_find(const char *name, size_t len); /* -1: no such kind */
