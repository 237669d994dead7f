/*
 * fold: merges a profile by function, with its stacks in the shape that a tree asks for.
 *
 * The result has no labels: its frames are functions (name, module, kind), and its stacks are the
 * nodes of a flame tree. With a base (tree_options) it holds both profiles, and the base's samples
 * are those of the series FOLD_BASE. Source lines, of which a function has many, are returned
 * separately. Idle time that stands apart (idle.h) is under the mark FRAME_IDLE at the root.
 */
#pragma once

#include <stdbool.h>

#include "profile/profile.h"
#include "query/hot_lines.h"
#include "query/tree.h"

#define FOLD_BASE 1

/* Whether the profile's own stacks do not have that shape yet. */
bool fold_is_needed(const struct profile *p, const struct tree_options *o);

/*
 * Caller frees both. *ret_lines is indexed by frame of the result, with strings of the result; NULL
 * if no source line is known. *ret_idle is the stack that idle time was folded into; 0: none was.
 */
struct profile *fold(const struct profile *p, const struct tree_options *o,
		     struct hot_line **ret_lines, uint32_t *ret_idle);
