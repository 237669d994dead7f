/*
 * debug_cache: separate debug files by build id, in a directory beside the store's files.
 *
 *	ID.debug    was downloaded; the least recently used ones make room for others
 *	ID.added    somebody put it there ('smolder symbols add'), and only somebody takes it away
 *	ID.missing  empty: nobody had that file when it was last changed, or it had to make room
 *
 * ID is the build id in hex. A file is taken in only if it is an ELF file of just that build id,
 * with a symbol table. Other processes may put files there meanwhile: the directory is read again
 * when it has changed. Threads may share a cache.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/mem.h"
#include "process/elf_file.h"

#define DEBUG_CACHE_DIR     "symbols" /* in the store's */
#define DEBUG_CACHE_GIB     2         /* of files, unless it is said otherwise */
#define DEBUG_CACHE_ENTRIES 16384u    /* known at a time, missing ones included */
#define DEBUG_CACHE_ID      (2 * ELF_BUILD_ID_MAX + 1)

enum debug_cache_state {
	DEBUG_CACHE_UNKNOWN, /* or it was missing for so long that it is worth asking again */
	DEBUG_CACHE_MISSING, /* or more are known than DEBUG_CACHE_ENTRIES */
	DEBUG_CACHE_DOWNLOADED,
	DEBUG_CACHE_ADDED,
};

struct debug_cache;

/*
 * The cache of the store in the directory `store`. Nothing is read yet, and nothing is made until
 * something is put in. New files belong to the store's owner if we are root. max_bytes 0:
 * DEBUG_CACHE_GIB. One that `tidies` removes marks that no longer hold, and parts of files whose
 * process has died.
 */
struct debug_cache *debug_cache_new(const char *store, uint64_t max_bytes, bool tidies);
void debug_cache_free(struct debug_cache *c); /* NULL is fine */
DEFINE_CLEANUP(struct debug_cache *, debug_cache_free)

/* Whether it is a build id as it can be here: 4 to 40 lower-case hex digits, two for each byte. */
bool debug_cache_is_id(const char *id);

enum debug_cache_state debug_cache_find(struct debug_cache *c, const char *id);

/* Opens the file for reading, and notes that it was used: the descriptor, -ENOENT or -errno. */
int debug_cache_open(struct debug_cache *c, const char *id);

/* The largest file that is taken in: a quarter of the cache. */
uint64_t debug_cache_file_max(const struct debug_cache *c);

struct debug_cache_part { /* a file on its way in; embedded */
	int fd;           /* to be written */
	char name[48];
};

/* 0; -ENOSPC if the disk has no room for the largest file; or -errno. */
int debug_cache_part(struct debug_cache *c, struct debug_cache_part *ret);
void debug_cache_drop(struct debug_cache *c, struct debug_cache_part *part);

/*
 * Takes in a file that is complete, which ends the use of `part` in any case. `id` NULL: whichever
 * it has, which is then returned in ret_id. 0; -EBADMSG: not an ELF file with a symbol table;
 * -ESTALE: it has another build id, or none; -EFBIG, -ENOSPC: there is no room for it; or -errno.
 */
int debug_cache_take(struct debug_cache *c, struct debug_cache_part *part, const char *id,
		     enum debug_cache_state as, char ret_id[static DEBUG_CACHE_ID]);

/* As take() checks it, of any open file: 0 with its build id, -EBADMSG or -ESTALE. */
int debug_cache_check(int fd, char ret_id[static DEBUG_CACHE_ID]);

void debug_cache_set_missing(struct debug_cache *c, const char *id);
int debug_cache_remove(struct debug_cache *c, const char *id); /* 0, -ENOENT or -errno */

struct debug_cache_file {
	char id[DEBUG_CACHE_ID];
	enum debug_cache_state state;
	uint64_t bytes;
	int64_t used_s; /* since 1970: last used; of a missing one, when that was noted */
};

/* All, in no particular order: caller frees. */
struct debug_cache_file *debug_cache_list(struct debug_cache *c, size_t *ret_count);

struct debug_cache_stats {
	uint64_t files, bytes, missing;
	uint64_t made_room; /* files removed to keep under the cap */
	uint64_t unlisted;  /* files over DEBUG_CACHE_ENTRIES */
};

void debug_cache_stats(struct debug_cache *c, struct debug_cache_stats *ret);
