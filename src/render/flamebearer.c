#include "render/flamebearer.h"

#include "base/mem.h"

#define OTHER "other" /* what Pyroscope calls nodes that were left out */

/* How far a level is filled, and where the next child of its last node begins. */
struct edge {
	uint64_t left_end, right_end;
	uint64_t left, right;
};

static int64_t number(uint64_t n)
{
	return n > INT64_MAX ? INT64_MAX : (int64_t)n;
}

static void put(struct flamebearer_level *l, uint64_t n)
{
	MEM_GROW(l->values, l->count, l->cap);
	l->values[l->count++] = number(n);
}

/* A node's own share comes first, then its children, in order. */
static void put_node(struct flamebearer *f, const struct tree *t, const struct tree_node *n,
		     struct edge *edges)
{
	struct flamebearer_level *l = &f->levels[n->depth];
	struct edge none = {}, *mine = &edges[n->depth], *from = n->depth ? mine - 1 : &none;
	uint64_t left = from->left, right = from->right;

	if (t->base) {
		put(l, left - mine->left_end);
		put(l, n->base_total);
		put(l, n->base_self);
	}
	put(l, right - mine->right_end);
	put(l, n->total);
	put(l, n->self);
	put(l, n->function);
	from->left += n->base_total;
	from->right += n->total;
	*mine = (struct edge){
		.left_end = left + n->base_total,
		.right_end = right + n->total,
		.left = left + n->base_self,
		.right = right + n->self,
	};
	f->max_self = MAX(f->max_self, number(MAX(n->self, n->base_self)));
}

void flamebearer_init(struct flamebearer *f, const struct tree *t)
{
	size_t levels = (size_t)t->depth + 1;
	CLEANUP(freep) struct edge *edges = mem_alloc(levels * sizeof(*edges));

	*f = (struct flamebearer){
		.names = mem_alloc_array(MAX(t->function_count, 1u), sizeof(*f->names)),
		.name_count = MAX(t->function_count, 1u),
		.levels = mem_alloc_array(levels, sizeof(*f->levels)),
		.level_count = levels,
	};
	f->names[0] = "total";
	for (uint32_t i = 1; i < t->function_count; i++)
		f->names[i] = i == t->merged ? OTHER : t->functions[i].name;
	for (uint32_t i = 0; i < t->count; i++)
		put_node(f, t, &t->nodes[i], edges);
	if (!t->count)
		return;
	f->right_total = number(t->nodes[0].total);
	f->left_total = number(t->nodes[0].base_total);
	f->total = number(t->nodes[0].total + t->nodes[0].base_total);
}

void flamebearer_done(struct flamebearer *f)
{
	for (size_t i = 0; i < f->level_count; i++)
		free(f->levels[i].values);
	free(f->levels);
	free(f->names);
	*f = (struct flamebearer){};
}
