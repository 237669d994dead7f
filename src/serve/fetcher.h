/*
 * fetcher: a thread that downloads into memory (base/download.h), and tells the loop how each
 * download ended.
 */
#pragma once

#include "base/download.h"
#include "base/loop.h"

struct fetcher;

/* Called in the loop, with the ctx of the request, which needs nothing any more that it borrowed.
 * Who is told releases the body. */
typedef void fetcher_end_fn(struct download_end *end);

/* 0; -ENOENT, with *ret_why: there is no libcurl; or -errno. */
int fetcher_new(struct loop *l, uint64_t memory_max, struct fetcher **ret, const char **ret_why);

/* Gives up all that is under way: each ends with -ECANCELED. NULL is fine, here and below. */
void fetcher_stop(struct fetcher *f);
void fetcher_free(struct fetcher *f); /* after that, and the release of all bodies */

/* The request's `url` is copied; what else it borrows must last until its end. */
void fetcher_add(struct fetcher *f, const struct download_request *r, fetcher_end_fn *fn);

/* Of an end that was told: frees its body, which counts until then. From any thread. */
void fetcher_release(struct fetcher *f, struct download_end *end);
