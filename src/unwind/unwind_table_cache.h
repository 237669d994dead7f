/*
 * unwind_table_cache: unwind tables kept in a directory, so that a restart does not parse libLLVM's
 * call frame information (CFI) again.
 *
 * A cache file is named after the build id of the ELF file it belongs to. A build id is only what
 * the ELF file claims, so it is used to find the cache file and not trusted beyond that. The cached
 * table is used if inode and ctime, which no program can forge, are those of the ELF file it was
 * built from; or, where they differ (a copy in a container), if the hash of the CFI is the same.
 * The hash has a random seed that only this directory holds. Hashing takes a tenth of building.
 *
 * The directory stays below a size limit: the files that were not used for longest are removed. No
 * other user may write to it, since its content ends up in everybody's stacks. Embedded; not
 * thread-safe.
 */
#pragma once

#include <stdint.h>

#include "unwind/unwind_table.h"

struct unwind_table_cache {
	char *dir; /* NULL: nothing is kept */
	uint64_t max, bytes;
	struct unwind_table_cache_stats {
		uint64_t loaded, built, stored, removed;
		uint64_t refused; /* damaged, another version, or built from other CFI */
		uint64_t failed;  /* could not be written, or the ELF file changed meanwhile */
	} stats;
};

/*
 * Creates the directory (not its parents) if it does not exist. 0; -EPERM when another user owns it
 * or could write to it; or -errno. After an error the cache can be used, but keeps nothing.
 */
int unwind_table_cache_init(struct unwind_table_cache *c, const char *dir, uint64_t max_bytes);
void unwind_table_cache_done(struct unwind_table_cache *c);

/* The table of a file: loaded, or else built and stored. Returns what unwind_table_build() does. */
int unwind_table_cache_get(struct unwind_table_cache *c, const struct elf_file *e,
			   struct rules *rules, struct unwind_table **ret, struct cfi_stats *stats);
