/*
 * mapped_files: the files that processes have mapped, each once, however many processes map it.
 *
 * A mapping names its file by device, inode and inode generation (which tells a reused inode from
 * the old one). If those were seen before, the file is known without opening it; on file systems
 * without generations its modification time must be unchanged, too. Otherwise the file is opened
 * and identified by its build id, so that copies count as one file, or, if it has none, by inode
 * and modification time.
 *
 * Ids are dense and start at 1. A file is opened when it is first seen, while it can still be
 * reached; the last MAPPED_FILES_OPEN_MAX stay open for those who read symbols and tables.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/string_pool.h"
#include "process/maps.h"

#define MAPPED_FILES_OPEN_MAX 128

struct mapped_file {
	const char *path; /* as mapped */
	const char *name; /* the last component of the path */
	uint8_t build_id[20];
	uint8_t build_id_len;
	bool is_elf;                            /* it can be read for symbols and unwind tables */
	uint64_t device, inode, mtime_ns, size; /* 0 where it could not be opened */
	int fd;                                 /* -1: could not be opened, or was closed since */
};

struct mapped_files;

struct mapped_files *mapped_files_new(void);
void mapped_files_free(struct mapped_files *f);

/*
 * The file of a mapping. It is opened through /proc/PID/map_files, then /proc/PID/root, then by
 * path in our own root, if the inode is the same. Never fails: a file that cannot be opened has
 * only a name.
 */
uint32_t mapped_files_of_mapping(struct mapped_files *f, uint32_t pid, const struct mapping *m,
				 const char *path);

const struct mapped_file *mapped_files_get(const struct mapped_files *f, uint32_t id);
uint32_t mapped_files_count(const struct mapped_files *f); /* ids are 1 … count */

/* A new descriptor of the file, which the caller closes; -errno when it cannot be opened. */
int mapped_files_open(struct mapped_files *f, uint32_t id);
