/*
 * trace_summary: `smolder trace -c`: counts system calls in the kernel, and prints strace's table
 * of them at the end and at each interval, or a histogram of their latencies.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "cli/syscall_session.h"

struct trace_summary {
	struct syscall_session_options session; /* report and ctx are set here */
	const struct syscall_calls *calls;
	bool histogram;
	FILE *out;
	uint64_t counted; /* calls, in all that was reported */
	unsigned reports;
};

/* The exit code: the program's, if one is started; or after reporting why it failed. */
int trace_summary_run(struct trace_summary *s);
