/*
 * debuginfod: asks debuginfod servers for the debug files of stripped programs, and puts what they
 * have into the debug cache.
 *
 * Each build id is asked for once, of one server after the other: four at a time, on a thread of
 * its own. A file that nobody has is remembered as missing for a day. What a server sends is
 * checked before it is used (debug_cache.h): a file of another build id, or one that is too large,
 * counts as not having it. A server that fails three times in a row rests for five minutes, and so
 * does a build id that could not be asked for.
 *
 * As for other clients of debuginfod, the environment's DEBUGINFOD_TIMEOUT is how many seconds a
 * server may be silent.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "symbol/debug_cache.h"

#define DEBUGINFOD_SERVERS 16

struct debuginfod;

struct debuginfod_options {
	const char *const *urls; /* copied; at most DEBUGINFOD_SERVERS */
	size_t count;
	const char *ca_file;       /* borrowed; NULL: the system's */
	struct debug_cache *cache; /* borrowed */
};

struct debuginfod *debuginfod_new(const struct debuginfod_options *o);
void debuginfod_free(struct debuginfod *d); /* ends what is under way; NULL is fine */

/* A stored_names_wanted_fn whose context is a struct debuginfod; from any thread. Never blocks. */
void debuginfod_want(void *ctx, const char *build_id);

struct debuginfod_stats {
	uint64_t requests; /* to servers, and how they ended: */
	uint64_t found, absent, failed, wrong, too_large;
	uint64_t unwritten; /* files that could not be put into the cache */
	uint64_t bytes;     /* received */
	uint64_t dropped;   /* build ids that were not asked for, since too many were waiting */
	uint32_t waiting;   /* build ids */
	uint32_t servers, resting;
};

void debuginfod_stats(struct debuginfod *d, struct debuginfod_stats *ret);
