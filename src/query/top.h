/*
 * top: what each function took, itself and with all that it called.
 */
#pragma once

#include <stdint.h>

#include "query/tree.h"

struct top_row {
	uint32_t function; /* of the tree */
	uint64_t self;
	uint64_t total; /* a function that calls itself counts once */
	uint64_t base_self, base_total;
};

/*
 * The functions of a tree, largest self first, or, of two profiles, the largest change of self
 * first; marks are not functions. Caller frees.
 */
struct top_row *top_new(const struct tree *t, uint32_t *ret_count);
