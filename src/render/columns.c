/*
 * tree: the tree as columns of integers, names once: what the API answers and the web page reads.
 * docs/api.md describes it.
 */
#include <inttypes.h>

#include "base/index.h"
#include "render/describe.h"
#include "render/escape.h"
#include "render/render.h"

#define OTHER "(other)" /* what the page calls nodes that were left out */

static void write_text(FILE *out, const char *key, const char *value)
{
	fprintf(out, "\"%s\":", key);
	escape_json(out, value, strlen(value));
}

static uint64_t samples_of(const struct profile *p)
{
	uint64_t sum = 0;

	for (uint32_t i = 0; i < p->sample_count; i++)
		sum += p->samples[i].count;
	return sum;
}

static void write_range(FILE *out, const struct profile *p, uint64_t total)
{
	const struct profile_info *i = &p->info;

	fprintf(out,
		"\"from\":%" PRIu64 ",\"to\":%" PRIu64 ",\"samples\":%" PRIu64 ",\"lost\":%" PRIu64
		",\"truncated\":%" PRIu64 ",\"capped\":%" PRIu64 ",\"total\":%" PRIu64,
		i->start_ns / 1000000, (i->start_ns + i->duration_ns) / 1000000, samples_of(p),
		i->lost, i->truncated, i->capped, total);
}

static void write_head(FILE *out, const struct profile *p, const struct tree *t,
		       const struct render_options *o)
{
	fputc('{', out);
	write_text(out, "type", p->info.type);
	fputc(',', out);
	write_text(out, "unit", t->unit);
	fprintf(out, ",\"period\":%" PRIu64 ",", p->info.period);
	write_range(out, p, t->nodes[0].total);
	fprintf(out, ",\"pruned\":%" PRIu64 ",\"least\":%" PRIu64 ",\"other\":%u", t->pruned,
		t->pruned ? t->least : 0, t->merged);
	if (o->tree.base) {
		fputs(",\n\"base\":{", out);
		write_range(out, o->tree.base, t->nodes[0].base_total);
		fprintf(out, ",\"normalised\":%s}", o->tree.normalised ? "true" : "false");
	}
}

/* Functions stand in order of name, so modules are numbered by a small index. */
static void write_functions(FILE *out, const struct tree *t)
{
	CLEANUP(freep) uint32_t *modules = mem_alloc_array(t->function_count, sizeof(*modules));
	CLEANUP(freep)
	const char **names = mem_alloc_array((size_t)t->function_count + 1, sizeof(*names));
	struct index by_name = {};
	uint32_t count = 1;

	names[0] = "";
	for (uint32_t f = 0; f < t->function_count; f++) {
		const char *name = t->functions[f].module;
		uint32_t hash = index_hash_bytes(name, strlen(name)), id = 0;
		if (*name) {
			INDEX_EACH(&by_name, hash, id)
				if (strcmp(names[id], name) == 0)
					break;
			if (!id) {
				id = count++;
				names[id] = name;
				index_put(&by_name, hash, id);
			}
		}
		modules[f] = id;
	}
	index_done(&by_name);

	fputs(",\n\"functions\":{\"name\":[\"\"", out);
	for (uint32_t f = 1; f < t->function_count; f++) {
		const char *name = f == t->merged ? OTHER : t->functions[f].name;
		fputs_unlocked(",\n", out);
		escape_json(out, name, strlen(name));
	}
	fputs("],\n\"module\":[", out);
	for (uint32_t f = 0; f < t->function_count; f++) {
		fputs_unlocked(f ? "," : "", out);
		escape_number(out, modules[f]);
	}
	fputs("],\n\"kind\":[", out);
	for (uint32_t f = 0; f < t->function_count; f++) {
		fputs_unlocked(f ? "," : "", out);
		escape_number(out, t->functions[f].kind);
	}
	fputs("]},\n\"modules\":[", out);
	for (uint32_t m = 0; m < count; m++) {
		fputs_unlocked(m ? "," : "", out);
		escape_json(out, names[m], strlen(names[m]));
	}
	fputs("],\n\"kinds\":[", out);
	for (unsigned k = 0; k < FRAME_KINDS; k++)
		fprintf(out, "%s\"%s\"", k ? "," : "", describe_kind(k));
	fputs("]", out);
}

enum column { FUNCTION, DEPTH, TOTAL, SELF, BASE_TOTAL, BASE_SELF };

static uint64_t number(const struct tree_node *n, enum column c)
{
	switch (c) {
	case FUNCTION:
		return n->function;
	case DEPTH:
		return n->depth;
	case TOTAL:
		return n->total;
	case SELF:
		return n->self;
	case BASE_TOTAL:
		return n->base_total;
	default:
		return n->base_self;
	}
}

static void write_column(FILE *out, const struct tree *t, const char *name, enum column c)
{
	fprintf(out, "%s\"%s\":[", c == FUNCTION ? "" : ",\n", name);
	for (uint32_t i = 0; i < t->count; i++) {
		if (i)
			putc_unlocked(',', out);
		escape_number(out, number(&t->nodes[i], c));
	}
	fputs("]", out);
}

int render_tree(const struct profile *p, const struct render_options *o, FILE *out)
{
	CLEANUP(tree_freep) struct tree *t = tree_new(p, &o->tree);

	write_head(out, p, t, o);
	write_functions(out, t);
	fputs(",\n\"nodes\":{", out);
	write_column(out, t, "function", FUNCTION);
	write_column(out, t, "depth", DEPTH);
	write_column(out, t, "total", TOTAL);
	write_column(out, t, "self", SELF);
	if (o->tree.base) {
		write_column(out, t, "base_total", BASE_TOTAL);
		write_column(out, t, "base_self", BASE_SELF);
	}
	fputs("}}\n", out);
	return 0;
}
