/*
 * sums: the totals of each function over a complete tree, before any node is left out of it.
 *
 * Rows are indexed by frame of a profile whose frames are functions (fold.h). Row 0 belongs to the
 * root: its self is that of samples without frames. So all selves, including `rest`, add up to the
 * root's total.
 *
 * Functions are listed up to a cap; all others share one row, `rest`. Its total is the sum of all
 * stacks that contain any of them, each counted once, as for the total of any function.
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
	uint32_t unlisted; /* functions in `rest` */
};

void sums_init(struct sums *s, const struct profile *p);
void sums_done(struct sums *s);

/* Adds with saturation. */
static inline uint64_t sums_add(uint64_t a, uint64_t b)
{
	uint64_t sum;

	return __builtin_add_overflow(a, b, &sum) ? UINT64_MAX : sum;
}

/*
 * sums_totals() fills in the rows' totals from those of stacks (`bases` may be NULL). Then, with
 * the selves filled in, sums_list() lists up to `max` functions (0: no cap): half for the largest
 * totals, half for the largest selves. What the caller listed before stays, even beyond the cap.
 */
void sums_totals(struct sums *s, const struct profile *p, const uint64_t *totals,
		 const uint64_t *bases);
void sums_list(struct sums *s, const struct profile *p, uint32_t max, const uint64_t *totals,
	       const uint64_t *bases);
