/*
 * query_job: a request that a job answers from the store.
 *
 * In the loop the request is parsed (a wrong one is answered at once) and handed over; on a thread
 * `read` writes the body; back in the loop `answer` sends it. If something failed, query_job sends
 * the error instead. Embedded as the first member of a route's own struct; the route sets all
 * fields above "The answer".
 */
#pragma once

#include "serve/http.h"
#include "serve/jobs.h"
#include "serve/server_internal.h"
#include "store/store.h"

#define QUERY_JOB_HEADERS 5

struct query_job {
	struct job job; /* private */
	struct http_request *request;
	struct server *server;
	void (*read)(struct query_job *q, struct store *s, FILE *out);
	void (*finish)(
		struct query_job *q); /* on the thread, once the body is complete; may be NULL */
	void (*answer)(struct query_job *q);
	void (*free)(struct query_job
			     *q); /* frees the struct it is embedded in; calls query_job_done() */
	bool packs;               /* the client takes gzip; for query_job_pack() */
	bool is_packed;           /* the body is */
	/* The answer. */
	struct store_error store_error; /* filled in by the store */
	unsigned status;                /* HTTP status of an error; 0: none */
	char error[640];
	char *body;
	size_t len;
	char numbers[QUERY_JOB_HEADERS][24]; /* private */
};

void query_job_done(struct query_job *q);

/* The value of a parameter; NULL if it is missing or empty. */
const char *query_job_given(const struct query_job *q, const char *name);

/* Sets the error to be answered; returns false. */
__attribute__((format(printf, 3, 4))) bool query_job_wrong(struct query_job *q, unsigned status,
							   const char *fmt, ...);

/* Parses a parameter as a whole number; false after setting an error that says the range. */
bool query_job_number(struct query_job *q, const char *name, uint64_t least, uint64_t most,
		      uint64_t fallback, uint64_t *ret);

/* Whether a call to the store succeeded (0); if not, its message becomes the error. */
bool query_job_went_well(struct query_job *q, int err);

/*
 * Hands it to the jobs: 0; -EAGAIN if too many wait: then it still belongs to the caller, with an
 * error set that says so.
 */
int query_job_start(struct query_job *q);

/* Hands it over, unless what was asked for is wrong (!ok) or too many wait: that is the answer. */
void query_job_begin(struct query_job *q, bool ok);

/* A `finish`: packs a body that is worth it, for clients that take that. */
void query_job_pack(struct query_job *q);

/* An answer of the body alone, of that Content-Type. */
void query_job_send(struct query_job *q, const char *type);

/* Answers with the error, and frees it. */
void query_job_refuse(struct query_job *q);

/*
 * Adds headers that describe the store's answer, and one with another number. They become the first
 * QUERY_JOB_HEADERS of *ret, and are borrowed from q.
 */
void query_job_headers(struct query_job *q, const struct store_answer *a, const char *more,
		       uint64_t number, struct http_answer *ret);
