/*
 * top: what each function took, by itself and with everything it called.
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
 * The functions of a tree, largest self first; when comparing, largest change of self first. Marks
 * such as [truncated] are left out. Caller frees.
 */
struct top_row *top_new(const struct tree *t, uint32_t *ret_count);
