/*
 * tracing: a session of `smolder trace`: from now on until the time is up, the target ends, a
 * condition holds or the user presses Ctrl-C.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "cli/target.h"
#include "cli/trace_condition.h"
#include "cli/trace_lines.h"
#include "collect/tracer.h"

struct tracing_options {
	struct target_options target;
	struct trace_choice choice;
	struct trace_lines_options lines;
	struct trace_condition until;  /* of the flight recorder */
	uint64_t last_ns;              /* a flight recorder that keeps so much; 0: lines at once */
	uint64_t duration_ms;          /* 0: no end */
	bool stacks;                   /* under each call */
	uint8_t wanted[SYSCALL_CALLS]; /* SYSCALL_WANTED */
	const struct syscall_calls *calls;
	size_t ring_bytes; /* 0: as needed */
	FILE *out;
};

/* The exit code: the program's, if one is started; or after reporting why it failed. */
int tracing_run(struct tracing_options *o);
