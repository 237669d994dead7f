/*
 * stored_names: names of frames that were stored without one, as "[gzip+0x4710]".
 *
 * What is stored of such a frame suffices to name it later: the build id of its file, and in its
 * name the virtual address at which its function begins. If the debug cache has the file's symbols
 * by now, the frame gets its function's name wherever it is shown, however old its window is.
 * Otherwise `wanted` is told which file would help. Symbol tables stay under a byte cap: the least
 * recently used ones are dropped. Debug files may be hostile, as everywhere. Threads may share it.
 */
#pragma once

#include <stdint.h>

#include "profile/profile.h"
#include "symbol/debug_cache.h"

struct stored_names;

/* Of a file that has a build id and is not in the cache, each time that a frame of it is met. */
typedef void stored_names_wanted_fn(void *ctx, const char *build_id);

/* `wanted` may be NULL. The cache is borrowed. */
struct stored_names *stored_names_new(struct debug_cache *cache, stored_names_wanted_fn *wanted,
				      void *ctx);
void stored_names_free(struct stored_names *n); /* NULL is fine */
DEFINE_CLEANUP(struct stored_names *, stored_names_free)

/* The build id of a frame's file, if the frame has no name and the file may have one; else NULL.
 * Borrowed from the profile. */
const char *stored_names_lacks(const struct profile *p, const struct frame *f, uint64_t *ret_vaddr);

/* A remap_name_fn (profile/remap.h) whose context is a struct stored_names: for store_options. */
void stored_names_frame(void *ctx, struct profile *p, struct frame *f);

/* Tells `wanted` of the frames of a profile from id `first` on, and names nothing. */
void stored_names_look(struct stored_names *n, const struct profile *p, uint32_t first);

struct stored_names_stats {
	uint64_t named;      /* frames */
	uint64_t not_there;  /* frames whose file is in the cache, but has no function there */
	uint64_t unreadable; /* files of the cache */
};

void stored_names_stats(struct stored_names *n, struct stored_names_stats *ret);
