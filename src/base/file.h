/*
 * file: reads files into memory, and writes files that appear complete or not at all.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/types.h>

/*
 * Reads a whole file, such as one of /proc, into memory; NUL-terminated, caller frees *ret.
 * 0; -EFBIG: more than `max` bytes; or -errno.
 */
int file_read(const char *path, size_t max, char **ret, size_t *ret_len);

/* Reads exactly `len` bytes at `offset`: 0; -EIO: the file is too short; or -errno. */
int file_pread(int fd, void *buf, size_t len, uint64_t offset);

/*
 * A file that appears complete or not at all: it is written without a name (O_TMPFILE; with a
 * temporary name on file systems without that) and renamed to `path` by commit. A failed write
 * (disk full) or a crash leaves the previous file. "-" is stdout. What is not a regular file (a
 * pipe, /dev/null) is written in place.
 */
struct file_out {
	FILE *f;    /* write here */
	char *path; /* NULL for stdout and files written in place */
	char *temp; /* the temporary name; NULL: none yet */
};

int file_out_open(struct file_out *o, const char *path);
/* 0, or -errno of a failed write (-EPIPE: a pipe's reader is gone). Ends the use of `o`. */
int file_out_commit(struct file_out *o);
void file_out_abort(struct file_out *o); /* discards the file; does nothing after commit */
