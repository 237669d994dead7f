/*
 * changes: what changed between two ranges of time, by more than chance and ordinary variation
 * explain (block_test.h says how that is told).
 *
 * Of processes (all of one name), how much CPU they take is compared: CPU time by time. Of
 * functions it is their share of their process' CPU time, so that a process which has more to do is
 * a change of the process and not of each of its functions.
 *
 * If one function of a process becomes slower, the shares of all others sink, though nothing
 * happened to them. So the share is compared with what it would be if the function had done what
 * most functions of the process did: the median of the ratios now to before of all functions that
 * have enough samples. A change must be one by both comparisons, as it is and against that, and
 * `change` is the latter: how much more it takes for the same work, as far as the process' other
 * functions are a measure of that.
 *
 * A function is listed for what it did itself; for what it did with all that it called only where
 * functions already listed do not explain at least half of that, and the innermost such function.
 *
 * False alarms: of two ranges that do not differ, CHANGES_RATE (one in a hundred) or fewer have
 * anything listed, as measured in docs/changes.md. Differences smaller than CHANGES_LEAST (5 %), or
 * than CHANGES_SECONDS a day, are not listed even if they are certain.
 */
#pragma once

#include "query/block_table.h"

#define CHANGES_RATE    0.01
#define CHANGES_LEVEL   0.001 /* of the tests: with a margin, as variances are estimates */
#define CHANGES_LEAST   0.05
#define CHANGES_SECONDS 60.0 /* of CPU time a day */
#define CHANGES_MAX     100  /* listed at most: the largest */

enum change_kind {
	CHANGE_SELF,  /* of a function by itself */
	CHANGE_TOTAL, /* of a function with all it called */
	CHANGE_PROCESS,
};

struct change {
	enum change_kind kind;
	const char *process;
	const char *function, *module; /* "" of a process */
	enum frame_kind frame;
	double before, now;   /* share of the process' time; of a process: CPUs */
	double change;        /* 0.2: 20 % more; INFINITY: it is new; -1: it is gone */
	double seconds_a_day; /* of CPU time: how much more that is */
	double probability;   /* of a difference as large by chance alone */
	const char **path;    /* callers, the outermost first, the function last: where it grew (or
				 shrank) most; of a process NULL */
	uint32_t path_len;
};

struct changes {
	struct change *list; /* largest change in seconds a day first, functions before processes */
	uint32_t count;
	uint32_t functions;           /* of those in the list: functions */
	uint32_t tested;              /* how many were compared */
	uint32_t unlisted;            /* changed too, but beyond CHANGES_MAX */
	uint32_t blocks[BLOCK_SIDES]; /* that have a recording */
	double cpus[BLOCK_SIDES];     /* all processes together */
	/* Private. */
	struct arena arena;
	uint32_t cap;
};

/* 0; -ENODATA if one side has fewer than BLOCK_TEST_LEAST blocks. Release with changes_done(). */
int changes_find(const struct block_side *base, const struct block_side *now, struct changes *ret);
void changes_done(struct changes *c);
