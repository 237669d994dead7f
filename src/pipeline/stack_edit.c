#include "pipeline/stack_edit.h"

#include "base/index.h"
#include "base/mem.h"

#define CUT_MAX 16 /* frames that a tracer may have on top of what it traces */

struct joined {
	uint32_t below, above, stack;
};

struct stack_edit {
	struct profile *profile;
	struct joined *joined; /* [0] is not used: index ids start at 1 */
	uint32_t count, cap;
	struct index by_pair;
};

struct stack_edit *stack_edit_new(struct profile *p)
{
	struct stack_edit *s = mem_alloc(sizeof(*s));

	s->profile = p;
	s->count = 1;
	return s;
}

void stack_edit_free(struct stack_edit *s)
{
	if (!s)
		return;
	free(s->joined);
	index_done(&s->by_pair);
	free(s);
}

uint32_t stack_edit_mark(struct stack_edit *s, uint32_t below, const char *name)
{
	struct frame f = {.name = profile_string(s->profile, name, strlen(name)),
			  .kind = FRAME_MARK};

	return profile_stack(s->profile, below, profile_frame(s->profile, &f));
}

uint32_t stack_edit_move(struct stack_edit *s, uint32_t below, uint32_t stack, uint32_t root)
{
	uint32_t frames[PROFILE_DEPTH_MAX];
	uint32_t n = 0;

	for (; stack && stack != root; stack = s->profile->stacks[stack].parent)
		frames[n++] = s->profile->stacks[stack].frame;
	while (n > 0)
		below = profile_stack(s->profile, below, frames[--n]);
	return below;
}

uint32_t stack_edit_join(struct stack_edit *s, uint32_t below, uint32_t above)
{
	uint32_t hash = index_hash2(below, above), id;

	INDEX_EACH(&s->by_pair, hash, id)
		if (s->joined[id].below == below && s->joined[id].above == above)
			return s->joined[id].stack;

	uint32_t stack = stack_edit_move(s, below, above, 0);
	MEM_GROW(s->joined, s->count, s->cap);
	id = s->count++;
	s->joined[id] = (struct joined){below, above, stack};
	index_put(&s->by_pair, hash, id);
	return stack;
}

uint32_t stack_edit_cut(const struct stack_edit *s, uint32_t stack, uint32_t name)
{
	const struct profile *p = s->profile;
	uint32_t at = stack;

	for (int i = 0; i < CUT_MAX && at; i++, at = p->stacks[at].parent)
		if (p->frames[p->stacks[at].frame].name == name)
			return at;
	return stack;
}
