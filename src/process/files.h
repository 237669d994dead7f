/*
 * files: every mapped file once, whoever maps it.
 *
 * A file is known by its build id; one without is known by device, inode and modification time.
 * Ids are dense and start at 1. A file is opened when it is first seen, while it can still be
 * reached, and its fd is handed on to whoever reads symbols.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/strs.h"
#include "process/maps.h"

struct file {
	const char *path; /* as mapped */
	const char *name; /* its last part */
	uint8_t build_id[20];
	uint8_t build_id_len;
	uint64_t device, inode, mtime_ns, size; /* 0 where it could not be opened */
	int fd;                                 /* -1: could not be opened, or taken */
};

struct files;

struct files *files_new(void);
void files_free(struct files *f);

/*
 * The file behind a mapping of a process, opened through the process (map_files, then its root),
 * or, when it is gone, by path if the build id is the same. Never fails: what cannot be opened is a
 * file with a name only.
 */
uint32_t files_of_mapping(struct files *f, uint32_t pid, const struct mapping *m, const char *path);

const struct file *files_get(const struct files *f, uint32_t id);
uint32_t files_count(const struct files *f);     /* ids are 1 … count */
int files_take_fd(struct files *f, uint32_t id); /* the caller closes it; -1 if there is none */
