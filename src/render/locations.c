#include "render/locations.h"

#include "base/mem.h"

/* Whether a stack's frame was inlined into its parent's, at the same place. */
static bool shares_location(const struct profile *p, uint32_t stack)
{
	const struct frame *f = &p->frames[p->stacks[stack].frame];
	uint32_t parent = p->stacks[stack].parent;

	if (f->kind != FRAME_INLINED || !parent)
		return false;
	const struct frame *outer = &p->frames[p->stacks[parent].frame];
	return outer->addr == f->addr && outer->module == f->module;
}

static uint32_t location(struct locations *l, uint32_t outer, uint32_t frame)
{
	uint32_t hash = index_hash2(outer, frame);
	uint32_t id;

	INDEX_EACH(&l->index, hash, id)
		if (l->all[id].outer == outer && l->all[id].frame == frame)
			return id;

	MEM_GROW(l->all, l->count + 1, l->cap);
	id = ++l->count;
	l->all[id] = (struct location){.outer = outer, .frame = frame};
	index_put(&l->index, hash, id);
	return id;
}

/* Parents come before children, so one pass numbers them all. */
void locations_number(struct locations *l, const struct profile *p)
{
	l->p = p;
	l->of = mem_alloc_array(p->stack_count, sizeof(*l->of));
	for (uint32_t s = 1; s < p->stack_count; s++) {
		uint32_t outer = shares_location(p, s) ? l->of[p->stacks[s].parent] : 0;
		l->of[s] = location(l, outer, p->stacks[s].frame);
	}
}

void locations_done(struct locations *l)
{
	free(l->all);
	free(l->of);
	index_done(&l->index);
	*l = (struct locations){};
}

uint32_t locations_next(struct locations *l, uint32_t *stack)
{
	uint32_t at = *stack, id = l->of[at];

	if (!at)
		return 0;
	l->all[id].used = true;
	while (shares_location(l->p, at))
		at = l->p->stacks[at].parent;
	*stack = l->p->stacks[at].parent;
	return id;
}
