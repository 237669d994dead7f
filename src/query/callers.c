#include "query/callers.h"

#include "base/mem.h"
#include "profile/remap.h"

struct cutting {
	const struct profile *in;
	struct profile *out;
	uint8_t *is_function; /* by frame of in */
	struct remap_from from;
	struct remap map; /* of in -> of out */
	uint32_t *path;   /* scratch: frames of a stack, the leaf first */
	uint32_t path_cap;
};

static uint32_t copy_frame(struct cutting *c, uint32_t id)
{
	return remap_frame(&c->map, &c->from, id, c->out, NULL);
}

static void cut_sample(struct cutting *c, const struct sample *s, enum callers_side side)
{
	uint32_t depth = 0, at = UINT32_MAX, stack = 0;

	for (uint32_t id = s->stack; id; id = c->in->stacks[id].parent) {
		MEM_GROW(c->path, depth, c->path_cap);
		c->path[depth] = c->in->stacks[id].frame;
		if (c->is_function[c->path[depth]])
			at = depth; /* the last one found is the outermost */
		depth++;
	}
	if (at == UINT32_MAX)
		return;
	if (side != CALLERS_CALLEES)
		for (uint32_t i = at; i < (side == CALLERS_DIRECT ? MIN(at + 2, depth) : depth);
		     i++)
			stack = profile_stack(c->out, stack, copy_frame(c, c->path[i]));
	else
		for (uint32_t i = at + 1; i-- > 0;)
			stack = profile_stack(c->out, stack, copy_frame(c, c->path[i]));
	profile_add(c->out, remap_series(&c->map, c->in, s->series, c->out, NULL), stack, s->count,
		    s->value);
}

struct profile *callers_new(const struct profile *p, const char *function, enum callers_side side)
{
	struct cutting c = {
		.in = p,
		.out = profile_new(),
		.is_function = mem_alloc_array(p->frame_count, sizeof(*c.is_function)),
		.from = remap_from_profile(p),
	};

	c.out->info = p->info;
	c.out->info.type = profile_keep(c.out, p->info.type);
	c.out->info.unit = profile_keep(c.out, p->info.unit);
	for (uint32_t i = 1; i < p->frame_count; i++)
		c.is_function[i] = strcmp(profile_str(p, p->frames[i].name), function) == 0;
	for (uint32_t i = 0; i < p->sample_count; i++)
		cut_sample(&c, &p->samples[i], side);
	free(c.is_function);
	remap_done(&c.map);
	free(c.path);
	return c.out;
}

uint32_t callers_suggest(const struct profile *p, const char *part, const char **ret, uint32_t max)
{
	uint32_t count = 0;

	for (uint32_t i = 1; i < p->frame_count && count < max; i++) {
		const char *name = profile_str(p, p->frames[i].name);
		bool known = !strcasestr(name, part);
		for (uint32_t k = 0; k < count; k++)
			known |= ret[k] == name;
		if (!known)
			ret[count++] = name;
	}
	return count;
}
