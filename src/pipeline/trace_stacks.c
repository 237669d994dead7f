#include "pipeline/trace_stacks.h"

#include "base/mem.h"
#include "collect/trace_stack_source.h"
#include "pipeline/pipeline.h"

#define RING_BYTES (2u << 20)  /* of a CPU */
#define HELD_BYTES (32u << 20) /* stacks that wait for a table */
#define TABLES_MS  2000        /* that tables are waited for at the end */

struct found {
	uint64_t end; /* of the call */
	uint32_t tid, stack;
};

struct trace_stacks {
	struct profile *profile;
	struct pipeline *pipeline;
	struct found *found; /* in order of `end`, from `first` on */
	size_t first, count, cap;
};

/* Nearly in order: what was held back for a table comes later. */
static void on_stack(void *ctx, const struct assembled *a)
{
	struct trace_stacks *s = ctx;
	struct found f = {a->event->value, a->event->tid, a->stack};

	if (s->first == s->count) {
		s->first = s->count = 0;
	} else if (s->count == s->cap && s->first > s->count / 2) {
		s->count -= s->first;
		memmove(s->found, s->found + s->first, s->count * sizeof(*s->found));
		s->first = 0;
	}
	MEM_GROW(s->found, s->count, s->cap);
	size_t i = s->count++;
	for (; i > s->first && s->found[i - 1].end > f.end; i--)
		s->found[i] = s->found[i - 1];
	s->found[i] = f;
}

int trace_stacks_new(const char *cache_dir, struct trace_stacks **ret,
		     struct sampler_error *ret_err)
{
	struct trace_stacks *s = mem_alloc(sizeof(*s));
	struct sampler_options sampler = {
		.sources = {{.kind = &trace_stack_source, .period = 1}},
		.source_count = 1,
		.filter = {.cgroup_subsys = -1, .no_kernel = true},
		.cpu = -1,
		.ring_bytes = RING_BYTES,
	};
	struct assembler_options assemble = {
		.cache_dir = cache_dir,
		.held_bytes = HELD_BYTES,
		.names = {.functions = true},
		.sink = on_stack,
		.sink_ctx = s,
	};

	s->profile = profile_new();
	int err = pipeline_new(s->profile, &sampler, &assemble, &s->pipeline, ret_err);
	if (err) {
		trace_stacks_free(s);
		return err;
	}
	*ret = s;
	return 0;
}

void trace_stacks_free(struct trace_stacks *s)
{
	if (!s)
		return;
	pipeline_free(s->pipeline);
	profile_free(s->profile);
	free(s->found);
	free(s);
}

struct source *trace_stacks_source(struct trace_stacks *s)
{
	return sampler_source(pipeline_sampler(s->pipeline), 0);
}

const struct profile *trace_stacks_profile(const struct trace_stacks *s)
{
	return s->profile;
}

int trace_stacks_watch(struct trace_stacks *s, struct loop *l)
{
	return pipeline_watch(s->pipeline, l);
}

void trace_stacks_drain(struct trace_stacks *s)
{
	pipeline_drain(s->pipeline);
}

void trace_stacks_finish(struct trace_stacks *s)
{
	pipeline_stop(s->pipeline, TABLES_MS);
}

void trace_stacks_forget(struct trace_stacks *s, uint64_t from)
{
	while (s->first < s->count && s->found[s->first].end < from)
		s->first++;
}

bool trace_stacks_find(struct trace_stacks *s, const struct trace_record *r, uint32_t *ret_stack)
{
	trace_stacks_forget(s, r->end);
	for (size_t i = s->first; i < s->count && s->found[i].end == r->end; i++) {
		if (s->found[i].tid != r->tid)
			continue;
		*ret_stack = s->found[i].stack;
		return true;
	}
	return false;
}

uint64_t trace_stacks_lost(const struct trace_stacks *s)
{
	struct sampler_stats c;

	sampler_stats_sum(pipeline_sampler(s->pipeline), &c);
	return c.lost + c.malformed + c.nested;
}
