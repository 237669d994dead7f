/*
 * file: whole files in, whole files out.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/types.h>

/*
 * Reads all of a file into memory, for files of /proc and configuration; NUL-terminated.
 * 0, -EFBIG past `max`, or the errno of what failed. Caller frees *ret.
 */
int file_read(const char *path, size_t max, char **ret, size_t *ret_len);

/* Reads exactly `len` bytes at `offset`: 0, -EIO at a short file, or -errno. */
int file_pread(int fd, void *buf, size_t len, uint64_t offset);

/*
 * A file that appears whole or not at all: it is written without a name (O_TMPFILE; under a
 * temporary one where the file system cannot) and takes its place on commit. A failed write (full
 * disk) or a sudden end leaves what stood there before. "-" is stdout. Something that is not a
 * regular file (a pipe, /dev/null) is written in place.
 */
struct file_out {
	FILE *f;    /* write here */
	char *path; /* NULL for stdout and files written in place */
	char *temp; /* the temporary name; NULL while there is none */
};

int file_out_open(struct file_out *o, const char *path);
/* 0 or -errno of a failed write, -EPIPE when a pipe's reader has gone; then done. */
int file_out_commit(struct file_out *o);
void file_out_abort(struct file_out *o); /* removes the temporary file; fine after commit */
