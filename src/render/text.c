/*
 * text: stacks in full, in the shape of BCC's profile: the leaf first, then the process, then how
 * often; the most frequent stack last, where the eye is. Of two profiles: how often now and before,
 * what changed most last.
 */
#include <inttypes.h>

#include "base/mem.h"
#include "render/describe.h"
#include "render/render.h"

/* Whether a node is the process that by_process put below the stack, not "[truncated]". */
static bool is_process(const struct tree_node *n, const struct tree_function *f)
{
	return n->depth == 1 && f->kind == FRAME_MARK && f->name[0] != '[';
}

/* Writes the frames of a stack; returns its process, or NULL if that is not known. */
static const char *write_frames(const struct tree *t, uint32_t i, bool annotations, FILE *out)
{
	for (; i; i = t->nodes[i].parent) {
		const struct tree_function *f = &t->functions[t->nodes[i].function];
		bool is_mark = f->kind == FRAME_MARK;

		if (is_process(&t->nodes[i], f))
			return f->name;
		fprintf(out, "    %s%s\n", is_mark && strcmp(f->name, "-") == 0 ? "--" : f->name,
			annotations ? describe_annotation(f->kind) : "");
	}
	return NULL;
}

/* By how much it changed; without a base, by how much it is. */
static uint64_t weight(const struct tree_node *n)
{
	return n->self > n->base_self ? n->self - n->base_self : n->base_self - n->self;
}

static int by_self(const void *a, const void *b, void *nodes)
{
	uint32_t i = *(const uint32_t *)a, j = *(const uint32_t *)b;
	const struct tree_node *n = nodes;
	uint64_t x = weight(&n[i]), y = weight(&n[j]);

	return x != y ? (x > y) - (x < y) : (i > j) - (i < j);
}

int render_text(const struct profile *p, const struct render_options *o, FILE *out)
{
	struct tree_options options = describe_lines(p, o);
	options.by_process = true;
	CLEANUP(tree_freep) struct tree *t = tree_new(p, &options);
	CLEANUP(freep) uint32_t *leaves = mem_alloc_array(t->count, sizeof(*leaves));
	uint32_t count = 0;

	for (uint32_t i = 0; i < t->count; i++)
		if (t->nodes[i].self || t->nodes[i].base_self)
			leaves[count++] = i;
	qsort_r(leaves, count, sizeof(*leaves), by_self, t->nodes);
	for (uint32_t i = 0; i < count; i++) {
		const char *process = write_frames(t, leaves[i], o->annotations, out);
		if (process)
			fprintf(out, "    %-16s %s\n", "-", process);
		const struct tree_node *n = &t->nodes[leaves[i]];
		fprintf(out, "        %" PRIu64, n->self);
		if (t->base)
			fprintf(out, " (%+" PRId64 ", base %" PRIu64 ")",
				(int64_t)(n->self - n->base_self), n->base_self);
		fputs("\n\n", out);
	}
	return 0;
}
