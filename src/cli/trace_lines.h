/*
 * trace_lines: writes records of system calls (bpf/trace_wire.h), a line each: in strace's notation
 * or as JSON.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "profile/profile.h"
#include "syscall/calls.h"
#include "syscall/decode.h"

enum trace_stamp {
	TRACE_STAMP_NONE,
	TRACE_STAMP_SECONDS,  /* 14:02:05 */
	TRACE_STAMP_MICROS,   /* 14:02:05.123456 */
	TRACE_STAMP_EPOCH,    /* 1763388125.123456 */
	TRACE_STAMP_RELATIVE, /* since the call before */
};

struct trace_lines_options {
	struct decode_options decode;
	enum trace_stamp stamp;
	bool latency; /* <0.000012> at the end of each line */
	bool json;
	bool always_pid;  /* a column with the thread, as strace writes it into a file */
	const char *path; /* only calls that touch it; NULL: all */
	unsigned column;  /* of the result; 0: 40, as strace has it */
};

struct trace_lines;

/* Borrows the calls and the options' path; writes to `out`, which the caller closes. */
struct trace_lines *trace_lines_new(const struct trace_lines_options *o,
				    const struct syscall_calls *calls, FILE *out);
void trace_lines_free(struct trace_lines *l); /* NULL is fine */

/* What is known of a call, NULL if nothing is. */
const struct decode_call *trace_lines_call(const struct trace_lines *l, uint32_t call);

void trace_lines_write(struct trace_lines *l, const struct trace_record *r);

/* The same, of a call with its stack: an id of the profile. */
void trace_lines_write_stack(struct trace_lines *l, const struct trace_record *r,
			     const struct profile *p, uint32_t stack);

/* A call that has not returned at the end of the trace; false: it is not one to be shown. */
bool trace_lines_unfinished(struct trace_lines *l, const struct trace_record *r);

/* So many records are missing here. */
void trace_lines_lost(struct trace_lines *l, uint64_t count);

uint64_t trace_lines_written(const struct trace_lines *l); /* calls */
