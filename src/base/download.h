/*
 * download: fetches files over HTTP and HTTPS into descriptors, several at once (libcurl's multi
 * interface).
 *
 * The far side may do anything: each download has a cap in bytes, a time for all of it, and a time
 * for which it may be silent; it is decompressed by nobody, follows at most five redirects, and
 * those only to HTTP and HTTPS. All functions but download_wake() are for one thread.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct downloads;

struct download_request {
	const char *url; /* copied */
	const char
		*ca_file; /* CA certificates in PEM; NULL: the system's. Borrowed until its end */
	int fd;           /* gets the bytes, from its beginning; borrowed until its end */
	uint64_t max;     /* bytes; a larger one ends with -EFBIG */
	uint64_t connect_ms; /* until the connection stands */
	uint64_t silent_ms;  /* with less than 1 KB/s */
	uint64_t total_ms;   /* for all of it */
	void *ctx;           /* for the caller */
};

struct download_end {
	void *ctx;
	int error;       /* 0: there is an answer; -EFBIG; -ETIMEDOUT; -EIO: `fd` cannot be written;
			    or another -errno */
	unsigned status; /* of the answer; its body was written only if it is 200 */
	uint64_t bytes;  /* received */
	char why[256];   /* of an error, for people */
};

/* 0; -ENOENT, with *ret_why as of library_open(): there is no libcurl. */
int downloads_new(struct downloads **ret, const char **ret_why);
void downloads_free(struct downloads *d); /* drops what is under way; NULL is fine */

int downloads_add(struct downloads *d, const struct download_request *r); /* 0 or -errno */
bool downloads_next(struct downloads *d, struct download_end *ret);       /* one that has ended */

/* Does what can be done; waits until there is more to do, or download_wake(), or the time is over.
 */
void downloads_wait(struct downloads *d, uint64_t ms);
void downloads_wake(struct downloads *d); /* from any thread */
