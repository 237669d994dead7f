/*
 * json: the tree for other programs.
 *
 *	{
 *	  "version": 1, "type": "cpu", "unit": "samples",
 *	  "start_ns": 0, "duration_ns": 0, "period": 0,            what is not known is 0
 *	  "lost": 0, "truncated": 0, "capped": 0, "pruned": 0,
 *	  "functions": [{"name": "main", "module": "app", "kind": "user"}, …],
 *	  "nodes": [{"function": 0, "parent": 0, "depth": 0, "self": 0, "total": 12}, …]
 *	}
 *
 * Nodes stand depth first: a parent before its children, children by name. nodes[0] is the root,
 * of functions[0], which has no name. A difference has "base" (start_ns, duration_ns, lost,
 * normalised) beside the head, and base_self and base_total in each node. `function` and
 * `parent` are places in those arrays: flat, since parsers have limits of nesting and stacks
 * have none.
 */
#include <inttypes.h>

#include "render/describe.h"
#include "render/escape.h"
#include "render/render.h"

static void write_text(FILE *out, const char *key, const char *value)
{
	fprintf(out, "\"%s\":", key);
	escape_json(out, value, strlen(value));
}

static void write_info(FILE *out, const struct profile *p, const struct tree *t)
{
	const struct profile_info *i = &p->info;
	const struct {
		const char *key;
		uint64_t n;
	} numbers[] = {
		{"start_ns", i->start_ns}, {"duration_ns", i->duration_ns}, {"period", i->period},
		{"lost", i->lost},         {"truncated", i->truncated},     {"capped", i->capped},
		{"pruned", t->pruned},
	};

	fputs("{\"version\":1,", out);
	write_text(out, "type", i->type);
	fputc(',', out);
	write_text(out, "unit", t->unit);
	for (size_t k = 0; k < ARRAY_SIZE(numbers); k++)
		fprintf(out, ",\"%s\":%" PRIu64, numbers[k].key, numbers[k].n);
}

static void write_base(FILE *out, const struct tree *t, bool normalised)
{
	const struct profile_info *i = &t->base->info;

	fprintf(out,
		",\n\"base\":{\"start_ns\":%" PRIu64 ",\"duration_ns\":%" PRIu64
		",\"lost\":%" PRIu64 ",\"normalised\":%s}",
		i->start_ns, i->duration_ns, i->lost, normalised ? "true" : "false");
}

static void write_node(FILE *out, const struct tree_node *n, bool has_base)
{
	fputs_unlocked("{\"function\":", out);
	escape_number(out, n->function);
	fputs_unlocked(",\"parent\":", out);
	escape_number(out, n->parent);
	fputs_unlocked(",\"depth\":", out);
	escape_number(out, n->depth);
	fputs_unlocked(",\"self\":", out);
	escape_number(out, n->self);
	fputs_unlocked(",\"total\":", out);
	escape_number(out, n->total);
	if (has_base) {
		fputs_unlocked(",\"base_self\":", out);
		escape_number(out, n->base_self);
		fputs_unlocked(",\"base_total\":", out);
		escape_number(out, n->base_total);
	}
	putc_unlocked('}', out);
}

int render_json(const struct profile *p, const struct render_options *o, FILE *out)
{
	CLEANUP(tree_freep) struct tree *t = tree_new(p, &o->tree);

	write_info(out, p, t);
	if (t->base)
		write_base(out, t, o->tree.normalised);
	fputs(",\n\"functions\":[", out);
	for (uint32_t i = 0; i < t->function_count; i++) {
		const struct tree_function *f = &t->functions[i];

		fputs(i ? ",\n{" : "\n{", out);
		write_text(out, "name", f->name);
		fputc(',', out);
		write_text(out, "module", f->module);
		fputc(',', out);
		write_text(out, "kind", describe_kind(f->kind));
		fputc('}', out);
	}
	fputs("],\n\"nodes\":[", out);
	for (uint32_t i = 0; i < t->count; i++) {
		fputs_unlocked(i ? ",\n" : "\n", out);
		write_node(out, &t->nodes[i], t->base);
	}
	fputs("]}\n", out);
	return 0;
}
