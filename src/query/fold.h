/*
 * fold: a profile merged by function, its stacks in the shape that was asked for.
 *
 * The result has no labels and no detail: its frames are functions (name, module, kind), its stacks
 * the nodes of a flame tree. With a base (tree_options) both are in it, and the base's samples are
 * those of the series FOLD_BASE. Source lines, which a function has many of, are beside it.
 */
#pragma once

#include <stdbool.h>

#include "profile/profile.h"
#include "query/hot_lines.h"
#include "query/tree.h"

#define FOLD_BASE 1

/* Whether the profile's own stacks are not yet of that shape. */
bool fold_is_needed(const struct profile *p, const struct tree_options *o);

/*
 * Caller frees both. *ret_lines is by frame of the result, its strings are the result's; NULL if
 * no source is known.
 */
struct profile *fold(const struct profile *p, const struct tree_options *o,
		     struct hot_line **ret_lines);
