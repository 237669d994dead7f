/*
 * download: fetches files over HTTP and HTTPS into descriptors or memory, several at once
 * (libcurl's multi interface).
 *
 * The far side may do anything: each download has a cap in bytes, a time for all of it, and a time
 * for which it may be silent; it is decompressed by nobody, follows at most five redirects, and
 * those only to HTTP and HTTPS. What is in memory has a cap for all together: beyond it, the
 * largest is given up (-ENOBUFS). All functions but downloads_wake() and downloads_release() are
 * for one thread.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct downloads;

struct download_access { /* how to get in; all may be NULL, and are borrowed until its end */
	const char *user, *password; /* of basic authentication */
	const char *bearer;          /* a token */
	const char *ca_file;         /* CA certificates in PEM; NULL: the system's */
	const char *cert_file, *key_file;
	bool unverified; /* any certificate will do */
	bool stay;       /* follows no redirects */
	bool direct;     /* uses no proxy, whatever the environment says */
};

struct download_request {
	const char *url;        /* copied */
	const char *connect_to; /* "HOST:PORT" in place of the URL's; NULL: that */
	struct download_access access;
	int fd;       /* gets the bytes, from its beginning; borrowed until its end. -1: memory */
	uint64_t max; /* bytes; a larger one ends with -EFBIG */
	uint64_t connect_ms; /* until the connection stands */
	uint64_t silent_ms;  /* with less than 1 KB/s; 0: for as long as it likes */
	uint64_t total_ms;   /* for all of it */
	void *ctx;           /* for the caller */
};

struct download_end {
	void *ctx;
	int error;       /* 0: there is an answer; -EFBIG; -ETIMEDOUT; -EIO: `fd` cannot be written;
			    or another -errno */
	unsigned status; /* of the answer; its body was written only if it is 200 */
	uint64_t bytes;  /* received */
	char *body;      /* of one into memory that is good, NUL-terminated; NULL: empty */
	uint64_t body_cap; /* for downloads_release() */
	char why[256];     /* of an error, for people */
};

/* 0; -ENOENT, with *ret_why as of library_open(): there is no libcurl. `memory_max`: bytes of those
 * that are in memory, all together. */
int downloads_new(uint64_t memory_max, struct downloads **ret, const char **ret_why);
void downloads_free(struct downloads *d); /* drops what is under way; NULL is fine */

int downloads_add(struct downloads *d, const struct download_request *r); /* 0 or -errno */
bool downloads_next(struct downloads *d, struct download_end *ret);       /* one that has ended */
void *downloads_drop(struct downloads *d); /* one that has not: its ctx; NULL: there is none */

/* Does what can be done; waits until there is more to do, or download_wake(), or the time is over.
 */
void downloads_wait(struct downloads *d, uint64_t ms);
void downloads_wake(struct downloads *d); /* from any thread */

/* Frees a body, which counts until then; from any thread. NULL is fine. */
void downloads_release(struct downloads *d, char *body, uint64_t bytes);
