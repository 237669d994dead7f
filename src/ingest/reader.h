/*
 * reader: what the readers of ingest/ share. Private to this folder.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "ingest/ingest.h"
#include "ingest/input.h"

struct reader {
	struct input input;
	struct profile *p;
	const struct ingest_options *o;
	struct ingest_caps caps;
	struct ingest_report *report;
	uint64_t line;            /* the number of the line read last */
	uint64_t sum;             /* of all values in the profile */
	struct profile_info info; /* of this file, joined with the profile's at the end */
};

int folded_read(struct reader *r);
int pprof_read(struct reader *r);
int pprof_read_types(struct reader *r, ingest_type_fn *fn, void *ctx);
int perfscript_read(struct reader *r);

/* Whether the input begins like pprof, or perf script; to guess its format. */
bool pprof_looks_like(const char *data, size_t len);
bool perfscript_looks_like(const char *data, size_t len);

/* Report an error and return `err`; the first does so for the current line. */
__attribute__((format(printf, 3, 4))) int reader_fail(struct reader *r, int err, const char *fmt,
						      ...);
__attribute__((format(printf, 4, 5))) int reader_fail_at(struct reader *r, int err,
							 const char *where, const char *fmt, ...);

/* The next line: 1, 0 at the end, or an error that has been reported. */
int reader_line(struct reader *r, const char **ret, size_t *ret_len);
/* The rest of the input: 0, or an error that has been reported. */
int reader_rest(struct reader *r, size_t max, const char **ret, size_t *ret_len);
void reader_skip(struct reader *r); /* counts the current line as not understood */

/* profile_add() that keeps sums within 63 bits and the profile's tables within their caps. */
int reader_add(struct reader *r, uint32_t series, uint32_t stack, uint64_t count, uint64_t value);

/* `stack` with a mark for the frames that were cut off. */
uint32_t reader_truncated(struct reader *r, uint32_t stack);

/* A piece of the input, made printable and short, for an error message. Valid in its block. */
#define READER_QUOTE(s, len) reader_quote((s), (len), (char[64]){})
const char *reader_quote(const char *s, size_t len, char ret[static 64]);
