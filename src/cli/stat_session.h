/*
 * stat_session: one run of `stat`: opens the counters on whom they are to count, counts until the
 * time is up, the target or the program ends or the user presses Ctrl-C, and says what was counted,
 * at each interval and at the end.
 *
 * A program that is started is what is counted, from its exec on; beside -p, -t, a control group or
 * -a it only says how long.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "cli/target.h"
#include "collect/counters.h"

struct stat_session_options {
	struct target_options target; /* but its control group */
	const char *cgroup;           /* -G; NULL: none */
	struct counter_events *events;
	enum counters_by by;
	uint64_t duration_ms; /* 0: until Ctrl-C, or the end of the target */
	uint64_t interval_ms; /* 0: one interval, of all of it */
	/* What was counted in an interval that began and ended so many seconds from the start;
	 * false: nobody reads it any more. */
	bool (*report)(void *ctx, const struct counters *c, const struct counter_value *values,
		       double from, double to);
	void *ctx;
};

struct stat_session_result {
	int exit_code;       /* of the program that was started, else 0 */
	bool is_interrupted; /* by Ctrl-C */
	double user, kernel; /* CPU seconds of the program; negative: there was none */
};

/* Whether the program is what is counted. */
bool stat_session_counts_program(const struct stat_session_options *o);

/* Whether whole CPUs are: of the machine, or of a control group. */
bool stat_session_counts_cpus(const struct stat_session_options *o);

/* 0, or an exit code after reporting why. */
int stat_session_run(const struct stat_session_options *o, struct stat_session_result *ret);
