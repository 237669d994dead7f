/*
 * extents: allocates ranges of indices, first fit; freed ranges merge with their neighbours. For
 * space in the arrays that the BPF programs read.
 */
#pragma once

#include <stdint.h>

struct extent {
	uint32_t start, count;
};

struct extents {             /* embedded */
	struct extent *free; /* sorted; no two are adjacent */
	uint32_t count, cap;
	uint32_t taken; /* how many indices are allocated */
};

void extents_init(struct extents *e, uint32_t first, uint32_t total);
void extents_done(struct extents *e);

/*
 * Allocates `count` contiguous indices that do not cross a multiple of `boundary` (0: any). 0, or
 * -ENOSPC.
 */
int extents_take(struct extents *e, uint32_t count, uint32_t boundary, uint32_t *ret_start);
void extents_give(struct extents *e, uint32_t start, uint32_t count);
