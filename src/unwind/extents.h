/*
 * extents: hands out runs of a range of numbers, first fit; what is given back joins its
 * neighbours. For places in the arrays that the BPF side reads.
 */
#pragma once

#include <stdint.h>

struct extent {
	uint32_t start, count;
};

struct extents {             /* embedded */
	struct extent *free; /* sorted, never touching each other */
	uint32_t count, cap;
	uint32_t taken; /* in all */
};

void extents_init(struct extents *e, uint32_t first, uint32_t total);
void extents_done(struct extents *e);

/*
 * A run of `count` that does not cross a multiple of `boundary` (0: may). *ret_start is set only on
 * 0; -ENOSPC when there is none.
 */
int extents_take(struct extents *e, uint32_t count, uint32_t boundary, uint32_t *ret_start);
void extents_give(struct extents *e, uint32_t start, uint32_t count);
