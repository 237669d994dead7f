#include "unwind/extents.h"

#include <errno.h>

#include "base/mem.h"

void extents_init(struct extents *e, uint32_t first, uint32_t total)
{
	*e = (struct extents){};
	MEM_GROW(e->free, e->count, e->cap);
	e->free[e->count++] = (struct extent){first, total};
}

void extents_done(struct extents *e)
{
	free(e->free);
	*e = (struct extents){};
}

static void insert(struct extents *e, uint32_t at, struct extent x)
{
	MEM_GROW(e->free, e->count, e->cap);
	memmove(&e->free[at + 1], &e->free[at], (e->count - at) * sizeof(*e->free));
	e->free[at] = x;
	e->count++;
}

static void remove_at(struct extents *e, uint32_t at)
{
	e->count--;
	memmove(&e->free[at], &e->free[at + 1], (e->count - at) * sizeof(*e->free));
}

/* Cuts [start, start + count) out of a free extent. */
static void cut(struct extents *e, uint32_t at, uint32_t start, uint32_t count)
{
	struct extent *x = &e->free[at];
	uint32_t left = start - x->start, right = x->start + x->count - (start + count);

	e->taken += count;
	if (left && right) {
		x->count = left;
		insert(e, at + 1, (struct extent){start + count, right});
	} else if (left) {
		x->count = left;
	} else if (right) {
		*x = (struct extent){start + count, right};
	} else {
		remove_at(e, at);
	}
}

int extents_take(struct extents *e, uint32_t count, uint32_t boundary, uint32_t *ret_start)
{
	if (count == 0 || (boundary && count > boundary))
		return -ENOSPC;
	for (uint32_t i = 0; i < e->count; i++) {
		const struct extent *x = &e->free[i];
		uint64_t start = x->start;
		if (boundary && start / boundary != (start + count - 1) / boundary)
			start = (start / boundary + 1) * boundary;
		if (start + count <= (uint64_t)x->start + x->count) {
			cut(e, i, (uint32_t)start, count);
			*ret_start = (uint32_t)start;
			return 0;
		}
	}
	return -ENOSPC;
}

void extents_give(struct extents *e, uint32_t start, uint32_t count)
{
	if (count == 0)
		return;

	uint32_t lo = 0, hi = e->count;
	while (lo < hi) {
		uint32_t mid = lo + (hi - lo) / 2;
		if (e->free[mid].start < start)
			lo = mid + 1;
		else
			hi = mid;
	}
	e->taken -= count;

	struct extent *left = lo ? &e->free[lo - 1] : NULL;
	struct extent *right = lo < e->count ? &e->free[lo] : NULL;
	bool joins_left = left && left->start + left->count == start;
	bool joins_right = right && start + count == right->start;
	if (joins_left && joins_right) {
		left->count += count + right->count;
		remove_at(e, lo);
	} else if (joins_left) {
		left->count += count;
	} else if (joins_right) {
		right->start = start;
		right->count += count;
	} else {
		insert(e, lo, (struct extent){start, count});
	}
}
