/*
 * pprof_file: the tables of a pprof file (all but its samples), indexed by position.
 *
 * Ids in the file can be any numbers; here each thing has a position in its table, from 1 on, and
 * position 0 means "none". Ids are usually 1, 2, 3, …, so that an id is its own position; others
 * are found through an index. References are checked when they are followed: pprof_string(),
 * pprof_place().
 */
#pragma once

#include "base/index.h"
#include "ingest/protobuf.h"
#include "ingest/reader.h"

#define PPROF_TYPES_MAX 64u

enum pprof_field { /* of the outermost message */
		   PPROF_SAMPLE_TYPE = 1,
		   PPROF_SAMPLE,
		   PPROF_MAPPING,
		   PPROF_LOCATION,
		   PPROF_FUNCTION,
		   PPROF_STRING_TABLE,
		   PPROF_TIME_NANOS = 9,
		   PPROF_DURATION_NANOS,
		   PPROF_PERIOD_TYPE,
		   PPROF_PERIOD,
		   PPROF_COMMENT,
		   PPROF_DEFAULT_SAMPLE_TYPE,
};

struct pprof_ids {
	uint64_t *id; /* by position */
	uint32_t count, cap;
	struct index index;
};

struct pprof_mapping {
	uint64_t start, limit, offset;
	int64_t filename, build_id; /* strings */
};

struct pprof_function {
	int64_t name, filename; /* strings */
	int64_t start_line;
};

struct pprof_line {
	uint64_t function; /* id */
	int64_t line;
};

struct pprof_location {
	uint64_t mapping; /* id */
	uint64_t address;
	uint32_t line, line_count; /* in lines; the innermost first */
};

struct pprof_type {
	int64_t type, unit; /* strings */
};

struct pprof_slice {
	const char *s;
	uint32_t len;
};

struct pprof_file {
	struct reader *r;
	struct protobuf_unpacker *unpacker;
	const uint8_t *data;
	size_t len;
	struct pprof_ids mapping_ids, function_ids, location_ids;
	struct pprof_mapping *mappings;
	struct pprof_function *functions;
	struct pprof_location *locations;
	struct pprof_line *lines;
	struct pprof_slice *strings;
	uint32_t mapping_cap, function_cap, location_cap;
	uint32_t line_count, line_cap, string_count, string_cap;
	struct pprof_type types[PPROF_TYPES_MAX];
	uint32_t type_count;
	struct pprof_type period_type;
	int64_t period, default_type, time_ns, duration_ns;
};

/* Reads all of the input and fills the tables: 0, or an error that has been reported. */
int pprof_file_load(struct pprof_file *f, struct reader *r);
void pprof_file_done(struct pprof_file *f);

/* Reports "WHAT N: why" and returns -EINVAL. */
int pprof_fail(struct pprof_file *f, const char *what, uint64_t n, const char *why);

/* The position of `id`, which `field` of `what` number `n` refers to; an error if there is none. */
int pprof_place(struct pprof_file *f, const struct pprof_ids *ids, uint64_t id, const char *what,
		uint64_t n, const char *field, uint32_t *ret);

/* The string that `field` of `what` number `n` refers to; likewise. */
int pprof_string(struct pprof_file *f, int64_t string, const char *what, uint64_t n,
		 const char *field, struct pprof_slice *ret);

/* A submessage of the outermost message, valid until the next call; NULL after reporting why. */
const void *pprof_unpack(struct pprof_file *f, const ProtobufCMessageDescriptor *type,
			 const struct protobuf_field *w);
