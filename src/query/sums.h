/*
 * sums: what each function took over the whole of a tree, whatever is left out of it later.
 *
 * Rows are by frame of a profile whose frames are functions (fold.h); row 0 is the root's: its self
 * is what has no frames. So all selves, `rest` included, add up to the root's total.
 *
 * Functions are listed up to a cap, the others are one row, `rest`. Its total is that of stacks in
 * which one of them is, each counted once, as the total of any function is.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "profile/profile.h"
#include "query/tree.h"

struct sums {
	struct tree_sum *rows; /* by frame */
	bool *listed;          /* by frame */
	struct tree_sum rest;
	uint32_t unlisted; /* functions that are in `rest` */
};

void sums_init(struct sums *s, const struct profile *p);
void sums_done(struct sums *s);

/* Sums that do not fit stop at the largest number that does. */
static inline uint64_t sums_add(uint64_t a, uint64_t b)
{
	uint64_t sum;

	return __builtin_add_overflow(a, b, &sum) ? UINT64_MAX : sum;
}

/*
 * Fills in rows' totals, of those of stacks (`bases` may be NULL); then, selves being there, lists
 * functions until there are `max` (0: no cap): half of the room is for the largest totals, the rest
 * for the largest selves. What the caller has listed before stays, even beyond the cap.
 */
void sums_totals(struct sums *s, const struct profile *p, const uint64_t *totals,
		 const uint64_t *bases);
void sums_list(struct sums *s, const struct profile *p, uint32_t max, const uint64_t *totals,
	       const uint64_t *bases);
