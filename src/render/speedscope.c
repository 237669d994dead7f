/*
 * speedscope: https://www.speedscope.app/file-format-schema.json, profiles of type "sampled".
 *
 * The first profile is everything; when samples name their processes (or, if asked, threads) and
 * there is more than one, each follows with a profile of its own. The format has no kinds of
 * frames: what was inlined says so in its name.
 */
#include <errno.h>

#include "base/mem.h"
#include "render/describe.h"
#include "render/escape.h"
#include "render/render.h"

/* The subtree of nodes[root], whose own frame is not shown. */
struct part {
	const struct tree *tree;
	uint32_t root;
	uint32_t *path; /* scratch, by depth: function of each frame above the root */
};

static const char *unit(const struct tree *t)
{
	static const char *const known[] = {"nanoseconds", "microseconds", "milliseconds",
					    "seconds", "bytes"};

	for (size_t i = 0; i < ARRAY_SIZE(known); i++)
		if (strcmp(t->unit, known[i]) == 0)
			return known[i];
	return "none";
}

static void write_stacks(const struct part *part, FILE *out)
{
	const struct tree *t = part->tree;
	uint32_t base = t->nodes[part->root].depth;
	const char *comma = "";

	for (uint32_t i = part->root; i < t->nodes[part->root].next; i++) {
		const struct tree_node *n = &t->nodes[i];
		uint32_t depth = n->depth - base;

		if (depth)
			part->path[depth - 1] = n->function;
		if (!n->self)
			continue;
		fprintf(out, "%s\n[", comma);
		for (uint32_t d = 0; d < depth; d++) {
			if (d)
				putc_unlocked(',', out);
			escape_number(out, part->path[d] - 1);
		}
		putc_unlocked(']', out);
		comma = ",";
	}
}

static void write_part(const struct part *part, const char *name, FILE *out)
{
	const struct tree *t = part->tree;
	const char *comma = "";

	fputs("{\"type\":\"sampled\",\"name\":", out);
	escape_json(out, name, strlen(name));
	fprintf(out, ",\"unit\":\"%s\",\"startValue\":0,\"endValue\":", unit(t));
	escape_number(out, t->nodes[part->root].total);
	fputs(",\"samples\":[", out);
	write_stacks(part, out);
	fputs("],\n\"weights\":[", out);
	for (uint32_t i = part->root; i < t->nodes[part->root].next; i++) {
		if (!t->nodes[i].self)
			continue;
		fputs_unlocked(comma, out);
		escape_number(out, t->nodes[i].self);
		comma = ",";
	}
	fputs("]}", out);
}

static void write_frames(const struct tree *t, FILE *out)
{
	for (uint32_t i = 1; i < t->function_count; i++) {
		const struct tree_function *f = &t->functions[i];

		CLEANUP(freep)
		char *inlined =
			f->kind == FRAME_INLINED ? mem_printf("%s (inlined)", f->name) : NULL;
		const char *name = inlined ? inlined : f->name;

		fputs(i > 1 ? ",\n{\"name\":" : "\n{\"name\":", out);
		escape_json(out, name, strlen(name));
		if (*f->module) {
			fputs(",\"file\":", out);
			escape_json(out, f->module, strlen(f->module));
		}
		fputc('}', out);
	}
}

static bool has_processes(const struct profile *p)
{
	for (uint32_t i = 1; i < p->series_count; i++)
		if (profile_label(p, i, "comm"))
			return true;
	return false;
}

int render_speedscope(const struct profile *p, const struct render_options *o, FILE *out)
{
	if (o->tree.base)
		return -EOPNOTSUPP;

	struct tree_options options = o->tree;
	options.by_process = !options.by_thread && has_processes(p);
	options.by_comm = false;
	CLEANUP(tree_freep) struct tree *t = tree_new(p, &options);
	CLEANUP(freep) uint32_t *path = mem_alloc_array((size_t)t->depth + 1, sizeof(*path));
	struct part part = {.tree = t, .path = path};
	char title[TEXT_MAX + 1];

	describe_title(p, o, title);

	fputs("{\"$schema\":\"https://www.speedscope.app/file-format-schema.json\",\n"
	      "\"exporter\":\"smolder " SMOLDER_VERSION "\",\"name\":",
	      out);
	escape_json(out, title, strlen(title));
	fputs(",\"activeProfileIndex\":0,\n\"shared\":{\"frames\":[", out);
	write_frames(t, out);
	fputs("]},\n\"profiles\":[\n", out);
	write_part(&part, title, out);
	if ((options.by_process || options.by_thread) && t->count > 1 &&
	    t->nodes[1].next < t->count)
		for (uint32_t i = 1; i < t->count; i = t->nodes[i].next) {
			const struct tree_function *f = &t->functions[t->nodes[i].function];
			if (f->kind != FRAME_MARK)
				continue;
			part.root = i;
			fputs(",\n", out);
			write_part(&part, f->name, out);
		}
	fputs("]}\n", out);
	return 0;
}
