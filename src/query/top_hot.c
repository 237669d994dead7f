#include "query/top_hot.h"

#include <string.h>

#include "base/mem.h"

struct summing {
	const struct profile *profile;
	bool is_wall;
	uint64_t *self, *total; /* by frame */
	uint32_t *met;          /* by frame: the last stack that it was met in */
	uint64_t *stacks;       /* by stack */
};

/* The stack's root if all below it is one part of the time: that of idle threads. */
static uint32_t fold_idle(const struct summing *s, uint32_t stack)
{
	const struct profile *p = s->profile;
	uint32_t root = stack;

	if (!s->is_wall)
		return stack;
	while (root && p->stacks[root].parent)
		root = p->stacks[root].parent;
	const char *name = profile_str(p, p->frames[p->stacks[root].frame].name);
	return root && strcmp(name, FRAME_IDLE) == 0 ? root : stack;
}

static void add_totals(struct summing *s, uint32_t stack, uint64_t value)
{
	const struct profile *p = s->profile;

	for (uint32_t at = stack; at; at = p->stacks[at].parent) {
		uint32_t frame = p->stacks[at].frame;
		bool is_mark = p->frames[frame].kind == FRAME_MARK;
		if (s->met[frame] == stack || (is_mark && !s->is_wall && at != stack))
			continue;
		s->met[frame] = stack;
		s->total[frame] += value;
	}
}

static int by_size(const void *a, const void *b)
{
	const struct hot_stack *x = a, *y = b;

	if (x->value != y->value)
		return x->value < y->value ? 1 : -1;
	return (x->stack > y->stack) - (x->stack < y->stack);
}

static int by_self(const void *a, const void *b, void *ctx)
{
	const struct hot_function *x = a, *y = b;
	const struct summing *s = ctx;
	bool x_is_part = s->is_wall && s->profile->frames[x->frame].kind == FRAME_MARK;
	bool y_is_part = s->is_wall && s->profile->frames[y->frame].kind == FRAME_MARK;

	if (x_is_part != y_is_part)
		return x_is_part ? -1 : 1;
	if (!x_is_part && x->self != y->self)
		return x->self < y->self ? 1 : -1;
	if (x->total != y->total)
		return x->total < y->total ? 1 : -1;
	return (x->frame > y->frame) - (x->frame < y->frame);
}

static void list(struct top_hot *h, struct summing *s, uint32_t max)
{
	const struct profile *p = s->profile;
	uint32_t n = 0;

	h->functions = mem_alloc_array(p->frame_count + 1, sizeof(*h->functions));
	for (uint32_t i = 1; i < p->frame_count; i++)
		if (s->total[i])
			h->functions[n++] = (struct hot_function){i, s->self[i], s->total[i]};
	qsort_r(h->functions, n, sizeof(*h->functions), by_self, s);
	h->function_count = MIN(n, max);

	n = 0;
	h->stacks = mem_alloc_array(p->stack_count + 1, sizeof(*h->stacks));
	for (uint32_t i = 0; i < p->stack_count; i++)
		if (s->stacks[i])
			h->stacks[n++] = (struct hot_stack){i, s->stacks[i]};
	qsort(h->stacks, n, sizeof(*h->stacks), by_size);
	h->stack_count = MIN(n, max);
}

void top_hot_make(struct top_hot *h, const struct profile *p, const struct sample *samples,
		  uint32_t count, const bool *wanted, bool is_wall, uint32_t max)
{
	struct summing s = {.profile = p, .is_wall = is_wall};

	*h = (struct top_hot){};
	s.self = mem_alloc_array(p->frame_count + 1, sizeof(*s.self));
	s.total = mem_alloc_array(p->frame_count + 1, sizeof(*s.total));
	s.met = mem_alloc_array(p->frame_count + 1, sizeof(*s.met));
	s.stacks = mem_alloc_array(p->stack_count + 1, sizeof(*s.stacks));
	for (uint32_t i = 0; i < count; i++) {
		if (!wanted[samples[i].series])
			continue;
		uint32_t stack = fold_idle(&s, samples[i].stack);
		h->value += samples[i].value;
		h->count += samples[i].count;
		s.stacks[stack] += samples[i].value;
	}
	for (uint32_t i = 1; i < p->stack_count; i++) {
		if (!s.stacks[i])
			continue;
		s.self[p->stacks[i].frame] += s.stacks[i];
		add_totals(&s, i, s.stacks[i]);
	}
	list(h, &s, max);
	free(s.self);
	free(s.total);
	free(s.met);
	free(s.stacks);
}

void top_hot_done(struct top_hot *h)
{
	free(h->functions);
	free(h->stacks);
	*h = (struct top_hot){};
}
