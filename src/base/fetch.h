/*
 * fetch: one HTTP request, and its answer in memory.
 *
 * http:// goes over a plain socket. https:// needs libcurl, which is loaded when it is first asked
 * for (Debian: libcurl4): linked, it would cost every run of smolder some megabytes.
 *
 * Names are looked up on a thread, which may outlive the call: a name server that does not answer
 * keeps nobody who gives up.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Asked ten times a second while waiting: false gives up with -ECANCELED. */
typedef bool fetch_wait_fn(void *ctx, uint64_t waited_ms, size_t received);

struct fetch_request {
	const char *url;
	const char *method; /* NULL: "GET" */
	const void *body;   /* borrowed; NULL: none */
	size_t body_len;
	const char *content_type;  /* of the body */
	const char *authorization; /* header; NULL: none */
	const char *ca_file;       /* PEM, of https: certificates to trust; NULL: the system's */
	uint64_t timeout_ms;       /* 0: none */
	size_t max;                /* bytes of the answer; more is -EFBIG */
	fetch_wait_fn *wait;       /* may be NULL */
	void *wait_ctx;
};

struct fetch_answer {
	unsigned status;
	char *headers; /* as they came, NUL-terminated */
	char *body;    /* NUL-terminated behind `len` */
	size_t len;
};

struct fetch_error {
	char text[256]; /* why, without the URL */
};

/* Whether it can be asked at all: http:// or https://, a host, and a port up to 65535 if any. */
bool fetch_is_url(const char *url);

/* 0 with whatever status; -errno with *ret_err when there was no answer. */
int fetch(const struct fetch_request *r, struct fetch_answer *ret, struct fetch_error *ret_err);
void fetch_answer_done(struct fetch_answer *a);

/* The value of a header of the answer as a number; 0 if it is not there. */
uint64_t fetch_header_number(const struct fetch_answer *a, const char *name);
