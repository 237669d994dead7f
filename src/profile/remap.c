#include "profile/remap.h"

#include "base/mem.h"
#include "profile/entries.h"

#define STRINGS_MAX (ENTRIES_STRINGS_MAX / 2)

void remap_done(struct remap *m)
{
	free(m->stacks);
	free(m->frames);
	free(m->modules);
	free(m->series);
	*m = (struct remap){};
}

static void room(uint32_t **map, uint32_t *cap, uint32_t id)
{
	if (id < *cap)
		return;
	uint32_t new = MAX(id + 1, *cap * 2);
	*map = mem_resize_array(*map, new, sizeof(**map));
	memset(*map + *cap, 0, (new - *cap) * sizeof(**map));
	*cap = new;
}

void remap_set_stack(struct remap *m, uint32_t id, uint32_t to)
{
	room(&m->stacks, &m->stack_cap, id);
	m->stacks[id] = to;
}

static const char *string_of(const void *ctx, uint32_t id, size_t *ret_len)
{
	*ret_len = profile_str_len(ctx, id);
	return profile_str(ctx, id);
}

struct remap_from remap_from_profile(const struct profile *p)
{
	return (struct remap_from){p->modules, p->frames, string_of, p, NULL, NULL};
}

uint32_t remap_string(const struct remap_from *from, uint32_t id, struct profile *to)
{
	size_t len;

	if (!id)
		return 0;
	const char *s = from->string(from->ctx, id, &len);
	return profile_string(to, s, len);
}

uint32_t remap_module(struct remap *m, const struct remap_from *from, uint32_t id,
		      struct profile *to)
{
	if (!id)
		return 0;
	room(&m->modules, &m->module_cap, id);
	if (!m->modules[id]) {
		struct module module = from->modules[id];
		module.name = remap_string(from, module.name, to);
		module.path = remap_string(from, module.path, to);
		module.build_id = remap_string(from, module.build_id, to);
		m->modules[id] = profile_module(to, &module);
	}
	return m->modules[id];
}

uint32_t remap_frame(struct remap *m, const struct remap_from *from, uint32_t id,
		     struct profile *to, const struct remap_caps *caps)
{
	room(&m->frames, &m->frame_cap, id);
	if (m->frames[id])
		return m->frames[id];
	if (caps && (to->frame_count > caps->stacks || profile_string_count(to) > STRINGS_MAX))
		return REMAP_FULL;
	struct frame f = from->frames[id];
	f.name = remap_string(from, f.name, to);
	f.source = remap_string(from, f.source, to);
	f.module = remap_module(m, from, f.module, to);
	if (from->name)
		from->name(from->name_ctx, to, &f);
	return m->frames[id] = profile_frame(to, &f);
}

uint32_t remap_stack(struct remap *m, const struct profile *from, uint32_t id, struct profile *to,
		     const struct remap_caps *caps)
{
	struct remap_from source = remap_from_profile(from);
	uint32_t todo[PROFILE_DEPTH_MAX];
	size_t n = 0;

	room(&m->stacks, &m->stack_cap, id);
	for (; id && !m->stacks[id]; id = from->stacks[id].parent)
		todo[n++] = id;

	uint32_t at = m->stacks[id];
	profile_set_stacks_max(to, caps->stacks);
	while (n) {
		id = todo[--n];
		uint32_t f = remap_frame(m, &source, from->stacks[id].frame, to, caps);
		if (f == REMAP_FULL)
			return REMAP_FULL;
		uint64_t capped = to->info.capped;
		uint32_t stack = profile_stack(to, at, f);
		if (to->info.capped != capped)
			return REMAP_FULL;
		at = m->stacks[id] = stack;
	}
	return at;
}

uint32_t remap_series(struct remap *m, const struct profile *from, uint32_t id, struct profile *to,
		      const struct remap_caps *caps)
{
	if (!id)
		return 0;
	room(&m->series, &m->series_cap, id);
	if (m->series[id])
		return m->series[id];
	if (caps && profile_string_count(to) > STRINGS_MAX)
		return REMAP_FULL;

	struct remap_from source = remap_from_profile(from);
	const struct series *s = &from->series[id];
	CLEANUP(freep) struct label *labels = mem_alloc_array(s->count, sizeof(*labels));
	for (uint32_t i = 0; i < s->count; i++) {
		labels[i].key = remap_string(&source, s->labels[i].key, to);
		labels[i].value = remap_string(&source, s->labels[i].value, to);
	}
	if (caps && to->series_count > caps->series) {
		uint32_t there = profile_series_find(to, labels, s->count);
		if (!there)
			return REMAP_FULL;
		return m->series[id] = there;
	}
	return m->series[id] = profile_series(to, labels, s->count);
}

uint32_t remap_other(struct profile *to)
{
	struct label l = {profile_string(to, "comm", 4), profile_string(to, "(other)", 7)};

	return profile_series(to, &l, 1);
}

bool remap_row(struct remap *m, const struct profile *from, uint32_t *series, uint32_t *stack,
	       struct profile *to, const struct remap_caps *caps)
{
	uint32_t new_series = remap_series(m, from, *series, to, caps);
	uint32_t new_stack = remap_stack(m, from, *stack, to, caps);

	*series = new_series == REMAP_FULL ? remap_other(to) : new_series;
	*stack = new_stack == REMAP_FULL ? 0 : new_stack;
	return new_series != REMAP_FULL && new_stack != REMAP_FULL;
}
