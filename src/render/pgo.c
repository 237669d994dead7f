/*
 * pgo: a CPU profile for `go build -pgo`, such as default.pgo.
 *
 * It is a pprof, of which the compiler wants to know how often which call was hot. It knows a call
 * by the names of both functions, and by how many lines behind the beginning of the caller it
 * stands: so a profile without lines is of no use to it. What it does not look at is left out:
 * labels, and frames that are no code of the program, so that a file to be kept beside the source
 * stays small.
 */
#include <errno.h>
#include <string.h>

#include "base/mem.h"
#include "profile/remap.h"
#include "render/render.h"

static bool is_kept(const struct frame *f)
{
	return f->kind != FRAME_MARK && !frame_is_kernel(f->kind);
}

static bool has_starts(const struct profile *p)
{
	for (uint32_t i = 1; i < p->frame_count; i++)
		if (p->frames[i].start && p->frames[i].line)
			return true;
	return false;
}

static void reduce(const struct profile *p, struct profile *to)
{
	CLEANUP(freep) uint32_t *stacks = mem_alloc_array(p->stack_count, sizeof(*stacks));
	CLEANUP(remap_done) struct remap map = {};
	struct remap_from from = remap_from_profile(p);

	for (uint32_t id = 1; id < p->stack_count; id++) {
		uint32_t frame = p->stacks[id].frame, parent = stacks[p->stacks[id].parent];
		stacks[id] = is_kept(&p->frames[frame])
				     ? profile_stack(to, parent,
						     remap_frame(&map, &from, frame, to, NULL))
				     : parent;
	}
	for (uint32_t i = 0; i < p->sample_count; i++) {
		const struct sample *s = &p->samples[i];
		/* Where counts do not weigh the same, as of what programs push, time does. */
		if (stacks[s->stack])
			profile_add(to, 0, stacks[s->stack], p->info.period ? s->count : s->value,
				    s->value);
	}
}

int render_pgo(const struct profile *p, const struct render_options *o, FILE *out)
{
	CLEANUP(profile_freep) struct profile *to = NULL;

	if (o->tree.base)
		return -EOPNOTSUPP;
	if (p->sample_count && (strcmp(p->info.unit, "nanoseconds") != 0 || !has_starts(p)))
		return -ENODATA;
	to = profile_new();
	to->info = p->info;
	to->info.type = "cpu";
	reduce(p, to);
	return render_pprof(to, o, out);
}
