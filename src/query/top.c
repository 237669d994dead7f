#include "query/top.h"

#include "base/mem.h"

static uint64_t distance(uint64_t a, uint64_t b)
{
	return a > b ? a - b : b - a;
}

/* By what changed most; without a base that is what there is most of. */
static int by_self(const void *a, const void *b)
{
	const struct top_row *x = a, *y = b;
	uint64_t dx = distance(x->self, x->base_self), dy = distance(y->self, y->base_self);

	if (dx != dy)
		return dx < dy ? 1 : -1;
	dx = distance(x->total, x->base_total);
	dy = distance(y->total, y->base_total);
	if (dx != dy)
		return dx < dy ? 1 : -1;
	if (x->self != y->self)
		return x->self < y->self ? 1 : -1;
	if (x->total != y->total)
		return x->total < y->total ? 1 : -1;
	return (x->function > y->function) - (x->function < y->function);
}

struct top_row *top_new(const struct tree *t, uint32_t *ret_count)
{
	struct top_row *rows = mem_alloc_array(t->function_count, sizeof(*rows));
	/* By function: the end of the outermost subtree of it that the loop is in. */
	CLEANUP(freep) uint32_t *ends = mem_alloc_array(t->function_count, sizeof(*ends));
	uint32_t count = 0;

	for (uint32_t i = 1; i < t->count; i++) {
		const struct tree_node *n = &t->nodes[i];
		struct top_row *r = &rows[n->function];

		r->self += n->self;
		r->base_self += n->base_self;
		if (i >= ends[n->function]) {
			r->total += n->total;
			r->base_total += n->base_total;
			ends[n->function] = n->next;
		}
	}
	for (uint32_t f = 1; f < t->function_count; f++) {
		if (t->functions[f].kind == FRAME_MARK)
			continue;
		rows[count] = rows[f];
		rows[count++].function = f;
	}
	qsort(rows, count, sizeof(*rows), by_self);
	*ret_count = count;
	return rows;
}
