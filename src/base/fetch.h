/*
 * fetch: sends one HTTP request and returns the answer in memory.
 *
 * http:// uses a plain socket. https:// needs libcurl (curl.h).
 *
 * Host names are resolved on a thread that may outlive the call, so that a name server that does
 * not answer does not keep the caller from giving up.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Called ten times a second while waiting; false gives up with -ECANCELED. */
typedef bool fetch_wait_fn(void *ctx, uint64_t waited_ms, size_t received);

struct fetch_request {
	const char *url;
	const char *method; /* NULL: "GET" */
	const void *body;   /* borrowed; NULL: none */
	size_t body_len;
	const char *content_type;  /* of the body */
	const char *authorization; /* header; NULL: none */
	const char *headers;       /* more of them, each a line that ends in CRLF; NULL: none */
	const char *ca_file;       /* for https: CA certificates in PEM; NULL: the system's */
	const char *ca_pem;        /* the same, as text, for who may not read the file; or NULL */
	uint64_t timeout_ms;       /* 0: none */
	size_t max;                /* most bytes of the answer; more is -EFBIG */
	fetch_wait_fn *wait;       /* may be NULL */
	void *wait_ctx;
};

struct fetch_answer {
	unsigned status;
	char *headers; /* as received, NUL-terminated */
	char *body;    /* followed by a NUL */
	size_t len;
};

struct fetch_error {
	char text[256]; /* why, without the URL */
};

/* Whether it is a valid URL: http:// or https://, a host, and a port up to 65535 if any. */
bool fetch_is_url(const char *url);

/* 0 for an answer of any status; -errno with *ret_err if there was no answer. */
int fetch(const struct fetch_request *r, struct fetch_answer *ret, struct fetch_error *ret_err);
void fetch_answer_done(struct fetch_answer *a);

/* The value of a header as a number; 0 if it is missing. */
uint64_t fetch_header_number(const struct fetch_answer *a, const char *name);

/* How long Retry-After asks to wait, which is a number of seconds or a date; 0: it does not. */
uint64_t fetch_retry_after_ms(const struct fetch_answer *a, uint64_t now_ms);
