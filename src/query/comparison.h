/*
 * comparison: what changed, asked of a store: which ranges are compared, in which blocks, and which
 * programs got a new version in between.
 *
 * Unless ranges are given, the last hour is compared with the same time yesterday, and with that of
 * a week ago, as far as those are stored; if yesterday is not, with the hour before. `at_ms`
 * compares half an hour before a moment with the half hour after it, or as much of it as there is.
 * Where a program got a new version within the last day (or within the ranges given), the time
 * before and after that is compared for that program too, without being asked.
 *
 * Blocks are as long as makes about sixty of a range, of those lengths that people count in; at
 * least a window, and five minutes where only sums over that are left.
 */
#pragma once

#include "query/changes.h"
#include "query/timerange.h"
#include "query/versions.h"
#include "store/store.h"

#define COMPARISON_SPAN_MS 1800000 /* on each side of a moment */
#define COMPARISONS_MAX    8

struct comparison_ask {       /* what is asked; borrowed */
	const char *selector; /* text; NULL: everything of type cpu */
	/* Each may be unset: 0. */
	struct timerange now, base;
	uint64_t at_ms;
	uint64_t clock_ms; /* what time it is */
	bool alone;        /* only that: no other comparisons, no versions */
};

struct comparison {
	char *against;  /* "the same time yesterday": what is compared with what */
	char *selector; /* that would show it */
	struct timerange now, base;
	uint64_t block_ms;
	uint64_t samples[BLOCK_SIDES], lost[BLOCK_SIDES];
	bool is_compared; /* if not, there was too little on one side */
	struct changes changes;
};

struct noticed { /* a new version of a program */
	struct version version;
	uint64_t at_ms;
	uint64_t sure_ms; /* to how much that is known */
};

struct comparisons {
	struct comparison list[COMPARISONS_MAX];
	uint32_t count;
	struct versions versions; /* private: has the strings of `noticed` */
	struct noticed *noticed;  /* the latest first */
	uint32_t noticed_count;
	bool is_process; /* the selector was taken for the name of one */
};

/* 0, or -errno with a sentence as of store.h. Release with comparisons_done() in any case. */
int comparisons_make(struct store *s, const struct comparison_ask *ask, struct comparisons *ret,
		     struct store_error *ret_err);
void comparisons_done(struct comparisons *c);

/*
 * Only the new versions of that range, compared with nothing, and known to five minutes: that takes
 * one pass over the range. comparison_refine() knows one to the window. The rest as above.
 */
int comparisons_notice(struct store *s, struct timerange range, struct comparisons *ret,
		       struct store_error *ret_err);
int comparison_refine(struct store *s, struct noticed *n, struct store_error *ret_err);

char *comparison_selector(const char *comm); /* of the CPU time of a program; caller frees */
