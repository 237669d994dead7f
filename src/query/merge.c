#include "query/merge.h"

#include "profile/remap.h"

#define NOT_THERE UINT32_MAX

/* By stack: how many functions of the site it goes through; NOT_THERE: it left it. */
static uint32_t *match(const struct profile *p, const char *const *site, size_t site_len)
{
	uint32_t *depth = mem_alloc_array(p->stack_count, sizeof(*depth));

	for (uint32_t i = 1; i < p->stack_count; i++) {
		uint32_t so_far = depth[p->stacks[i].parent];
		const char *name = profile_str(p, p->frames[p->stacks[i].frame].name);
		depth[i] = so_far == NOT_THERE || so_far == site_len ? so_far
			   : strcmp(name, site[so_far]) == 0         ? so_far + 1
								     : NOT_THERE;
	}
	return depth;
}

void merge_samples(struct profile *into, const struct profile *from, const char *const *site,
		   size_t site_len)
{
	const struct remap_caps caps = {UINT32_MAX, UINT32_MAX};
	CLEANUP(freep) uint32_t *depth = match(from, site, site_len);
	struct remap map = {};

	if (!into->sample_count) {
		into->info = from->info;
		into->info.type = profile_keep(into, from->info.type);
		into->info.unit = profile_keep(into, from->info.unit);
	}
	for (uint32_t i = 0; i < from->sample_count; i++) {
		const struct sample *s = &from->samples[i];
		if (depth[s->stack] == site_len)
			profile_add(into, remap_series(&map, from, s->series, into, &caps),
				    remap_stack(&map, from, s->stack, into, &caps), s->count,
				    s->value);
	}
	remap_done(&map);
}
