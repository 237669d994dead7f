/*
 * query_job: a request that a job answers from the store.
 *
 * In the loop it is parsed (a wrong one is answered at once) and handed over; on a thread its
 * `read` writes the body; in the loop again `answer` sends that, unless something failed: then
 * query_job sends why. Embedded, as the first member of what a route knows beside it; a route sets
 * all above the answer.
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
	void (*finish)(struct query_job *q); /* on the thread, with the whole body; NULL: nothing */
	void (*answer)(struct query_job *q);
	void (*free)(struct query_job *q); /* what it is embedded in; calls query_job_done() */
	/* The answer. */
	struct store_error store_error; /* for the store to write to */
	unsigned status;                /* 0: all is well */
	char error[640];
	char *body;
	size_t len;
	char numbers[QUERY_JOB_HEADERS][24]; /* private */
};

void query_job_done(struct query_job *q);

/* A parameter that is there and not empty, or NULL. */
const char *query_job_given(const struct query_job *q, const char *name);

/* Says what is wrong; returns false. */
__attribute__((format(printf, 3, 4))) bool query_job_wrong(struct query_job *q, unsigned status,
							   const char *fmt, ...);

/* A parameter that is a whole number, or the fallback; false after saying what it should be. */
bool query_job_number(struct query_job *q, const char *name, uint64_t least, uint64_t most,
		      uint64_t fallback, uint64_t *ret);

/* Whether the store did what it was asked (0 or -errno); the answer is its sentence otherwise. */
bool query_job_went_well(struct query_job *q, int err);

/*
 * Hands it over: 0; -EAGAIN when too many wait: it is the caller's still, and says so when it is
 * refused.
 */
int query_job_start(struct query_job *q);

/* Answers what is wrong with it, and frees it. */
void query_job_refuse(struct query_job *q);

/*
 * Tells in headers of what the store answered, and of one more number. They are the first
 * QUERY_JOB_HEADERS of *ret, and borrowed from q.
 */
void query_job_headers(struct query_job *q, const struct store_answer *a, const char *more,
		       uint64_t number, struct http_answer *ret);
