/*
 * decode: from a system call's record (bpf/trace_wire.h) to a line of text, in strace's notation.
 *
 * One table has a line for each system call: the kinds of its arguments and of its result. A kind
 * is what has to be captured for it, which makes the plan that the BPF side follows, and how it is
 * written. What was not captured is written as its address.
 *
 * Records hold other processes' memory. Whatever is in them, the line has only printable ASCII, and
 * at most DECODE_MAX bytes; what is longer ends in "...".
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "bpf/trace_wire.h"

#define DECODE_MAX        65536
#define DECODE_STRING     32 /* bytes of a buffer that are shown, unless -s says otherwise */
#define DECODE_STRING_MAX 4000

struct decode_call; /* what is known of one system call */

/* NULL: nothing is; its arguments are then written as numbers. */
const struct decode_call *decode_find(const char *name);

struct decode_options {
	unsigned string_max;
	bool descriptors; /* with their paths, where the plan had them captured */
	bool early_paths; /* captured at the beginning, too: known of calls that do not return */
};

/* What to capture of it to decode it so. `call` may be NULL. */
void decode_plan(const struct decode_call *call, const struct decode_options *o,
		 struct trace_plan *ret);

struct decode_text { /* grows up to DECODE_MAX; zero-initialised is empty */
	char *bytes; /* NUL-terminated */
	size_t len, cap;
	bool cut;
};

void decode_text_done(struct decode_text *t);

/* Whether the chunks of a record are what its length says: else it is not to be decoded. */
bool decode_is_sound(const struct trace_record *r, size_t bytes);

/*
 * Append, each on its own, what a line is made of: the arguments, without parentheses; and the
 * result, as in "3" or "-1 ENOENT (No such file or directory)".
 */
void decode_args(const struct decode_call *call, const struct trace_record *r,
		 const struct decode_options *o, struct decode_text *out);
void decode_result(const struct decode_call *call, const struct trace_record *r,
		   const struct decode_options *o, struct decode_text *out);

/* One argument alone; false: it has no more. */
bool decode_arg(const struct decode_call *call, const struct trace_record *r, unsigned arg,
		const struct decode_options *o, struct decode_text *out);

/*
 * How many seconds the call waits at most: 0 is not at all, INFINITY without end. false: it has no
 * timeout, or one that is not known, or that is a point in time.
 */
bool decode_timeout(const struct decode_call *call, const struct trace_record *r,
		    double *ret_seconds);

/* Whether it has a path or a descriptor at all. `call` may be NULL. */
bool decode_has_file(const struct decode_call *call);

/* Whether one of its paths, or of its descriptors if these were captured, is this one. */
bool decode_touches(const struct decode_call *call, const struct trace_record *r, const char *path);

/* "--- SIGCHLD {si_signo=SIGCHLD, …} ---", "+++ exited with 0 +++" */
void decode_signal(const struct trace_record *r, struct decode_text *out);
void decode_end(const struct trace_record *r, struct decode_text *out);

/* Whether a record's call failed: its errno, else 0. */
unsigned decode_failure(const struct trace_record *r);
