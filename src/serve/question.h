/*
 * question: a request that a job answers from the store.
 *
 * In the loop it is parsed (a wrong one is answered at once) and handed over; on a thread its
 * `read` writes the body; in the loop again `answer` sends that, unless something failed: then
 * question sends why. Embedded, as the first member of what a route knows beside it; a route sets
 * all above the answer.
 */
#pragma once

#include "serve/http.h"
#include "serve/jobs.h"
#include "serve/server_internal.h"
#include "store/store.h"

#define QUESTION_HEADERS 5

struct question {
	struct job job; /* private */
	struct http_request *request;
	struct server *server;
	void (*read)(struct question *q, struct store *s, FILE *out);
	void (*finish)(struct question *q); /* on the thread, with the whole body; NULL: nothing */
	void (*answer)(struct question *q);
	void (*free)(struct question *q); /* what it is embedded in; calls question_done() */
	/* The answer. */
	struct store_error store_error; /* for the store to write to */
	unsigned status;                /* 0: all is well */
	char error[640];
	char *body;
	size_t len;
	char numbers[QUESTION_HEADERS][24]; /* private */
};

void question_done(struct question *q);

/* A parameter that is there and not empty, or NULL. */
const char *question_given(const struct question *q, const char *name);

/* Says what is wrong; returns false. */
__attribute__((format(printf, 3, 4))) bool question_wrong(struct question *q, unsigned status,
							  const char *fmt, ...);

/* A parameter that is a whole number, or the fallback; false after saying what it should be. */
bool question_number(struct question *q, const char *name, uint64_t least, uint64_t most,
		     uint64_t fallback, uint64_t *ret);

/* Whether the store did what it was asked (0 or -errno); the answer is its sentence otherwise. */
bool question_went_well(struct question *q, int err);

/*
 * Hands it over: 0; -EAGAIN when too many wait: it is the caller's still, and says so when it is
 * refused.
 */
int question_start(struct question *q);

/* Answers what is wrong with it, and frees it. */
void question_refuse(struct question *q);

/*
 * Tells in headers of what the store answered, and of one more number. They are the first
 * QUESTION_HEADERS of *ret, and borrowed from q.
 */
void question_headers(struct question *q, const struct store_answer *a, const char *more,
		      uint64_t number, struct http_answer *ret);
