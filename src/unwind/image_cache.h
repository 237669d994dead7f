/*
 * image_cache: images kept in a folder, so that a restart does not read libLLVM's tables again.
 *
 * A file is named by the build id of the program it is about. A build id is what a program says of
 * itself, so it only leads to the file: whether the image in it was made from these very tables is
 * told by the inode and its time of change, which no program can set; and where those differ (a
 * copy in a container) by a hash of the tables, from a random start that only this folder knows.
 * That costs a tenth of building the image.
 *
 * The folder stays below a number of bytes: what was not used for longest is removed. It must be
 * ours alone, since what is in it ends up in everybody's stacks. Embedded; not thread-safe.
 */
#pragma once

#include <stdint.h>

#include "unwind/image.h"

struct image_cache {
	char *dir; /* NULL: nothing is kept */
	uint64_t max, bytes;
	struct image_cache_stats {
		uint64_t loaded, built, stored, removed;
		uint64_t refused; /* files damaged, of another version, or of other tables */
		uint64_t failed;  /* could not be written, or the program changed meanwhile */
	} stats;
};

/*
 * Makes the folder if it is not there (not its parents). 0; -EPERM when others could write to it;
 * or -errno. On error the cache works as one that keeps nothing.
 */
int image_cache_init(struct image_cache *c, const char *dir, uint64_t max_bytes);
void image_cache_done(struct image_cache *c);

/* The image of a file, from the folder, or built and then kept there. Returns as image_build(). */
int image_cache_get(struct image_cache *c, const struct elf_file *e, struct rules *rules,
		    struct image **ret, struct cfi_stats *stats);
