/*
 * mapped_files: every mapped file once, whoever maps it.
 *
 * A mapping tells device, inode and its generation (which a reused inode has another of). A file
 * that was seen by those before is known without a look, or by a look at its modification time
 * where generations are not kept. One that was not is opened and known by its build id,
 * so that copies of it are one file; without one, by inode and modification time.
 *
 * Ids are dense and start at 1. A file is opened when it is first seen, while it can still be
 * reached; the latest MAPPED_FILES_OPEN_MAX stay open for those who read tables from them.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/string_pool.h"
#include "process/maps.h"

#define MAPPED_FILES_OPEN_MAX 128

struct mapped_file {
	const char *path; /* as mapped */
	const char *name; /* its last part */
	uint8_t build_id[20];
	uint8_t build_id_len;
	bool is_elf;                            /* ELF: it can be read for symbols and tables */
	uint64_t device, inode, mtime_ns, size; /* 0 where it could not be opened */
	int fd;                                 /* -1: could not be opened, or closed since */
};

struct mapped_files;

struct mapped_files *mapped_files_new(void);
void mapped_files_free(struct mapped_files *f);

/*
 * The file behind a mapping of a process, opened through the process (map_files, then its root),
 * or, when it is gone, by path if the inode is the same. Never fails: what cannot be opened is a
 * file with a name only.
 */
uint32_t mapped_files_of_mapping(struct mapped_files *f, uint32_t pid, const struct mapping *m,
				 const char *path);

const struct mapped_file *mapped_files_get(const struct mapped_files *f, uint32_t id);
uint32_t mapped_files_count(const struct mapped_files *f); /* ids are 1 … count */

/* Another fd of the file; the caller closes it. -errno when it cannot be opened (any more). */
int mapped_files_open(struct mapped_files *f, uint32_t id);
