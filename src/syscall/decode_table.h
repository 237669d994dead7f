/*
 * decode_table: what each system call's arguments are. To teach decode a call, add its line to
 * decode_calls; to teach it a kind of argument, add its printer to PRINTERS in decode_internal.h
 * and, if it points to something, what is captured to decode_kinds.
 */
#pragma once

#include "syscall/decode_internal.h"

/* As `max` of a capture: as many bytes as are shown of a buffer, and one more. */
#define DECODE_AS_LONG_AS_SHOWN 0xffff

enum decode_kind_number {
	K_none,
#define NUMBER(name) K_##name,
	PRINTERS(NUMBER)
#undef NUMBER
	/* Captured for what another argument's printer writes. */
	K_path_entry,
	K_affinity_in,
	K_message_before,
	K_tid_out,
	K_prctl_text,
	K_hidden, /* written with another argument, and nothing is captured */
	K_count,
};

struct decode_kind {
	struct trace_capture capture; /* count_arg is counted from the argument on */
	decode_printer *print;        /* NULL: another one's does */
};

enum decode_result_kind { R_INT, R_FD, R_ADDRESS, R_OCTAL, R_FCNTL, R_READY };

struct decode_call {
	const char *name;
	uint8_t kinds[TRACE_ARGS]; /* enum decode_kind_number */
	uint8_t result;            /* enum decode_result_kind */
};

extern const struct decode_kind decode_kinds[K_count];
extern const struct decode_call decode_calls[]; /* ends with a NULL name */
