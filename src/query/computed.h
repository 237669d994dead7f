/*
 * computed: types of profiles that are not stored, but computed from those that are.
 *
 * There is one, `wall`: all the time of threads, by what they did with it (wall_parts.h). Stored
 * types make it up: `cpu`, the samples of what they ran; `oncpu`, how long they ran, which is
 * exact; and `offcpu`, what they waited for, exact again. Where `oncpu` is not stored, the samples
 * tell that.
 *
 * These functions do what those of the same name in store/store.h do, for every type.
 */
#pragma once

#include "store/store.h"

#define COMPUTED_WALL "wall"
#define COMPUTED_PART "part" /* as the label of a timeline of `wall`: its parts */

int computed_sum(struct store *s, const struct store_query *q, struct profile *into,
		 struct store_answer *ret, struct store_error *ret_err);

/* Whether single samples of that type have times; others are sums over windows. */
bool computed_has_times(const char *type);

/*
 * Of `wall`, without a label or with COMPUTED_PART: a line for each part, always in one order. What
 * a process ran in a step is divided by its samples of that step, or if there are none, by those of
 * the whole range.
 */
int computed_timeline(struct store *s, const struct store_query *q, struct store_timeline *ret,
		      struct store_error *ret_err);

/*
 * How much there was in each window, of a type without times of samples; its only line is "".
 * -ENODATA if of some of it only sums over more than a window are kept.
 */
int computed_windows(struct store *s, const struct store_query *q, struct store_timeline *ret,
		     struct store_error *ret_err);

/* A range that has `offcpu` has `wall`, too. */
int computed_names(struct store *s, const struct store_query *q, enum store_names_of of,
		   struct store_names *ret, struct store_error *ret_err);
