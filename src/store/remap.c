#include "store/remap.h"

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

static uint32_t string(const struct profile *from, uint32_t id, struct profile *to)
{
	return id ? profile_string(to, profile_str(from, id), profile_str_len(from, id)) : 0;
}

static uint32_t module(struct remap *m, const struct profile *from, uint32_t id, struct profile *to)
{
	if (!id)
		return 0;
	room(&m->modules, &m->module_cap, id);
	if (!m->modules[id]) {
		struct module module = from->modules[id];
		module.name = string(from, module.name, to);
		module.path = string(from, module.path, to);
		module.build_id = string(from, module.build_id, to);
		m->modules[id] = profile_module(to, &module);
	}
	return m->modules[id];
}

static uint32_t frame(struct remap *m, const struct profile *from, uint32_t id, struct profile *to,
		      const struct remap_caps *caps)
{
	room(&m->frames, &m->frame_cap, id);
	if (m->frames[id])
		return m->frames[id];
	if (to->frame_count > caps->stacks || profile_string_count(to) > STRINGS_MAX)
		return REMAP_FULL;
	struct frame f = from->frames[id];
	f.name = string(from, f.name, to);
	f.source = string(from, f.source, to);
	f.module = module(m, from, f.module, to);
	return m->frames[id] = profile_frame(to, &f);
}

uint32_t remap_stack(struct remap *m, const struct profile *from, uint32_t id, struct profile *to,
		     const struct remap_caps *caps)
{
	uint32_t todo[PROFILE_DEPTH_MAX];
	size_t n = 0;

	room(&m->stacks, &m->stack_cap, id);
	for (; id && !m->stacks[id]; id = from->stacks[id].parent)
		todo[n++] = id;

	uint32_t at = m->stacks[id];
	profile_set_stacks_max(to, caps->stacks);
	while (n) {
		id = todo[--n];
		uint32_t f = frame(m, from, from->stacks[id].frame, to, caps);
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
	if (profile_string_count(to) > STRINGS_MAX)
		return REMAP_FULL;

	const struct series *s = &from->series[id];
	CLEANUP(freep) struct label *labels = mem_alloc_array(s->count, sizeof(*labels));
	for (uint32_t i = 0; i < s->count; i++) {
		labels[i].key = string(from, s->labels[i].key, to);
		labels[i].value = string(from, s->labels[i].value, to);
	}
	if (to->series_count > caps->series) {
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
