/*
 * folded: "a;b;c 12", root first, one line a stack, sorted. What BCC's -f prints and flamegraph.pl
 * reads. A ';' inside a name becomes ':', so that a line splits where frames end. Of two profiles
 * each line has two counts, the base's first, as difffolded.pl prints them.
 */
#include "base/mem.h"
#include "render/describe.h"
#include "render/escape.h"
#include "render/render.h"

struct line {
	char *bytes;
	size_t cap;
	size_t *ends; /* by depth: where the frames up to there end in bytes */
};

/* Puts a frame behind its callers, which earlier nodes have left in the line. */
static void put_frame(struct line *l, uint32_t depth, const struct tree_function *f,
		      const char *suffix)
{
	size_t at = l->ends[depth - 1], suffix_len = strlen(suffix);
	size_t need = at + 1 + f->name_len + suffix_len;

	if (!l->bytes || need > l->cap) {
		l->cap = MAX(need, l->cap * 2);
		l->bytes = mem_resize_array(l->bytes, l->cap, 1);
	}
	if (depth > 1)
		l->bytes[at++] = ';';
	for (uint32_t i = 0; i < f->name_len; i++)
		l->bytes[at++] = f->name[i] == ';' ? ':' : f->name[i];
	memcpy(l->bytes + at, suffix, suffix_len);
	l->ends[depth] = at + suffix_len;
}

static void write_line(FILE *out, const char *stack, size_t len, const struct tree_node *n,
		       bool has_base)
{
	fwrite_unlocked(stack, 1, len, out);
	putc_unlocked(' ', out);
	if (has_base) {
		escape_number(out, n->base_self);
		putc_unlocked(' ', out);
	}
	escape_number(out, n->self);
	putc_unlocked('\n', out);
}

int render_folded(const struct profile *p, const struct render_options *o, FILE *out)
{
	struct tree_options options = describe_lines(p, o);
	CLEANUP(tree_freep) struct tree *t = tree_new(p, &options);
	struct line l = {.ends = mem_alloc_array((size_t)t->depth + 1, sizeof(*l.ends))};
	static const char none[] = "[no stack]";

	if (t->nodes[0].self || t->nodes[0].base_self)
		write_line(out, none, strlen(none), &t->nodes[0], t->base);
	for (uint32_t i = 1; i < t->count; i++) {
		const struct tree_node *n = &t->nodes[i];
		const struct tree_function *f = &t->functions[n->function];

		put_frame(&l, n->depth, f, o->annotations ? describe_annotation(f->kind) : "");
		if (n->self || n->base_self)
			write_line(out, l.bytes, l.ends[n->depth], n, t->base);
	}
	free(l.bytes);
	free(l.ends);
	return 0;
}
