#include "query/idle.h"

#include <string.h>

#include "base/mem.h"
#include "query/sums.h"

bool idle_is_apart(const struct profile *p)
{
	return strcmp(p->info.type, "wall") == 0 || strcmp(p->info.type, "latency") == 0;
}

static bool is_mark(const struct profile *p, uint32_t frame)
{
	const struct frame *f = &p->frames[frame];

	/* The files of other tools do not tell that it is a mark. */
	return strcmp(profile_str(p, f->name), FRAME_IDLE) == 0;
}

bool *idle_stacks(const struct profile *p)
{
	CLEANUP(freep) bool *is_idle = mem_alloc_array(p->stack_count, sizeof(*is_idle));
	bool any = false;

	for (uint32_t id = 1; id < p->stack_count; id++) { /* parents have lesser ids */
		uint32_t parent = p->stacks[id].parent;
		is_idle[id] = parent ? is_idle[parent] : is_mark(p, p->stacks[id].frame);
		any |= is_idle[id];
	}
	return any ? TAKE_PTR(is_idle) : NULL;
}

uint64_t idle_time(const struct profile *p)
{
	CLEANUP(freep) bool *is_idle = idle_stacks(p);
	uint64_t sum = 0;

	for (uint32_t i = 0; is_idle && i < p->sample_count; i++)
		if (is_idle[p->samples[i].stack])
			sum = sums_add(sum, p->samples[i].value);
	return sum;
}
