/*
 * tree_json: the tree as columns of integers, names once: what the API answers and the web page
 * reads. docs/api.md describes it.
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

static void write_quality(FILE *out, const struct profile *p, struct quality_help help)
{
	struct quality q;
	char hint[QUALITY_HINT];

	quality_of(p, &q);
	fprintf(out,
		",\"stacks\":%" PRIu64 ",\"incomplete\":%" PRIu64 ",\"by_frame_pointers\":%" PRIu64
		",\"frames\":%" PRIu64 ",\"unnamed\":%" PRIu64 ",",
		q.stacks, q.incomplete + q.truncated, q.by_pointers, q.frames, q.unnamed);
	write_text(out, "hint", quality_hint(&q, help, hint));
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
	fprintf(out, ",\"pruned\":%" PRIu64 ",\"least\":%" PRIu64 ",\"other\":%u,\"unlisted\":%u",
		t->pruned, t->pruned ? t->least : 0, t->merged, t->unlisted);
	write_quality(out, p, o->help);
	if (o->tree.base) {
		fputs(",\n\"base\":{", out);
		write_range(out, o->tree.base, t->nodes[0].base_total);
		fprintf(out, ",\"normalised\":%s}", o->tree.normalised ? "true" : "false");
	}
}

/* Distinct texts, numbered; 0 is "". The texts are the tree's. */
struct texts {
	const char **all;
	uint32_t count, cap;
	struct index index;
};

static uint32_t number_text(struct texts *t, const char *text)
{
	uint32_t hash = index_hash_bytes(text, strlen(text)), id;

	if (!t->count) {
		MEM_GROW(t->all, t->count, t->cap);
		t->all[t->count++] = "";
	}
	if (!*text)
		return 0;
	INDEX_EACH(&t->index, hash, id)
		if (strcmp(t->all[id], text) == 0)
			return id;
	MEM_GROW(t->all, t->count, t->cap);
	t->all[t->count] = text;
	index_put(&t->index, hash, t->count);
	return t->count++;
}

static void texts_done(struct texts *t)
{
	free(t->all);
	index_done(&t->index);
}

static void write_texts(FILE *out, const char *name, const struct texts *t)
{
	fprintf(out, ",\n\"%s\":[", name);
	for (uint32_t i = 0; i < t->count; i++) {
		fputs_unlocked(i ? "," : "", out);
		escape_json(out, t->all[i], strlen(t->all[i]));
	}
	fputs("]", out);
}

/* Numbers of one kind, out of an array of records. */
static void write_numbers(FILE *out, const char *name, const uint64_t *first, size_t record_size,
			  uint32_t count)
{
	const char *at = (const char *)first;

	fprintf(out, ",\n\"%s\":[", name);
	for (uint32_t i = 0; i < count; i++, at += record_size) {
		if (i)
			putc_unlocked(',', out);
		escape_number(out, *(const uint64_t *)at);
	}
	fputs("]", out);
}

struct function_row { /* what else there is of a function */
	uint64_t module, kind, source, line;
};

static void write_functions(FILE *out, const struct tree *t)
{
	CLEANUP(freep)
	struct function_row *rows = mem_alloc_array(t->function_count, sizeof(*rows));
	uint32_t count = t->function_count;
	CLEANUP(texts_done) struct texts modules = {};
	CLEANUP(texts_done) struct texts sources = {};

	for (uint32_t f = 0; f < count; f++)
		rows[f] = (struct function_row){
			.module = number_text(&modules, t->functions[f].module),
			.kind = t->functions[f].kind,
			.source = number_text(&sources, t->functions[f].source),
			.line = t->functions[f].line,
		};
	fputs(",\n\"functions\":{\"name\":[\"\"", out);
	for (uint32_t f = 1; f < count; f++) {
		const char *name = f == t->merged ? OTHER : t->functions[f].name;
		fputs_unlocked(",\n", out);
		escape_json(out, name, strlen(name));
	}
	fputs("]", out);
	write_numbers(out, "module", &rows->module, sizeof(*rows), count);
	write_numbers(out, "kind", &rows->kind, sizeof(*rows), count);
	write_numbers(out, "self", &t->sums->self, sizeof(*t->sums), count);
	write_numbers(out, "total", &t->sums->total, sizeof(*t->sums), count);
	if (t->base) {
		write_numbers(out, "base_self", &t->sums->base_self, sizeof(*t->sums), count);
		write_numbers(out, "base_total", &t->sums->base_total, sizeof(*t->sums), count);
	}
	bool has_sources = sources.count > 1;
	if (has_sources) {
		write_numbers(out, "source", &rows->source, sizeof(*rows), count);
		write_numbers(out, "line", &rows->line, sizeof(*rows), count);
	}
	fputs("}", out);
	write_texts(out, "modules", &modules);
	if (has_sources)
		write_texts(out, "sources", &sources);
	fputs(",\n\"kinds\":[", out);
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

int render_tree_json(const struct profile *p, const struct render_options *o, FILE *out)
{
	struct tree_options options = o->tree;
	options.sums = true; /* those over nodes miss what was left out */
	CLEANUP(tree_freep) struct tree *t = tree_new(p, &options);

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
