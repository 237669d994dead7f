/*
 * input: the bytes of a file, by line or all at once; gunzipped if they are gzip.
 *
 * Reads ahead in large blocks, so that a pipe works as well as a file. Embedded; not thread-safe.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <zlib.h>

struct input {
	FILE *f; /* borrowed */
	char *buf;
	size_t start, len,
		cap;    /* of what is read and not yet handed out: buf[start, start + len) */
	uint64_t total; /* bytes read in all, gunzipped */
	bool end;
	bool started;
	bool gzip;
	z_stream gz;
	unsigned char *packed;
	const char *why; /* of the latest error that is not an errno of reading; static */
};

void input_init(struct input *in, FILE *f);
void input_done(struct input *in);

/* The next bytes, at least `want` unless the input ends; the next call returns them again.
 * 0, -EINVAL if the gzip data is damaged (see why), or the errno of reading. */
int input_peek(struct input *in, size_t want, const char **ret, size_t *ret_len);

/* The next line without its end ("\n" or "\r\n"), valid until the next call: 1, 0 at the end of
 * the input, -EFBIG when it is longer than `max`, or as input_peek. */
int input_line(struct input *in, size_t max, const char **ret, size_t *ret_len);

/* All that is left, valid until input_done: 0, -EFBIG past `max`, or as input_peek. */
int input_rest(struct input *in, size_t max, const char **ret, size_t *ret_len);
