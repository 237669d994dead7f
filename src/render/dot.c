/*
 * dot: who calls whom, as a graph for Graphviz: a function is a node, with what it takes itself and
 * with all it calls; calls are edges. The largest functions, and the edges between them.
 */
#include <errno.h>
#include <inttypes.h>
#include <math.h>

#include "base/index.h"
#include "base/mem.h"
#include "render/describe.h"
#include "render/render.h"

#define FUNCTIONS_DEFAULT 80

struct edge {
	uint32_t from, to; /* functions */
	uint64_t total;
};

struct graph {
	const struct tree *t;
	bool *shown; /* by function */
	struct edge *edges;
	uint32_t count, cap;
	struct index index; /* of edges, from 1 on */
};

static double share(const struct tree *t, uint64_t part)
{
	return t->nodes[0].total ? 100.0 * (double)part / (double)t->nodes[0].total : 0;
}

static int largest_first(const void *a, const void *b, void *ctx)
{
	const struct tree_sum *sums = ctx;
	uint64_t x = sums[*(const uint32_t *)a].total, y = sums[*(const uint32_t *)b].total;

	return (x < y) - (x > y);
}

static void choose(struct graph *g, uint32_t most)
{
	const struct tree *t = g->t;
	CLEANUP(freep) uint32_t *order = mem_alloc_array(t->function_count + 1, sizeof(*order));
	uint32_t n = 0;

	for (uint32_t i = 1; i < t->function_count; i++)
		if (i != t->merged)
			order[n++] = i;
	qsort_r(order, n, sizeof(*order), largest_first, t->sums);
	for (uint32_t i = 0; i < MIN(n, most); i++)
		g->shown[order[i]] = t->sums[order[i]].total > 0;
}

static void add_edge(struct graph *g, uint32_t from, uint32_t to, uint64_t total)
{
	uint32_t hash = index_hash2(from, to), id;

	INDEX_EACH(&g->index, hash, id)
		if (g->edges[id - 1].from == from && /* NOLINT: what is in the index is there */
		    g->edges[id - 1].to == to) {
			g->edges[id - 1].total += total;
			return;
		}
	MEM_GROW(g->edges, g->count, g->cap);
	g->edges[g->count++] = (struct edge){from, to, total};
	index_put(&g->index, hash, g->count);
}

/* From the nearest caller that is shown; a function that calls itself has no edge for that. */
static void add_edges(struct graph *g)
{
	const struct tree *t = g->t;

	for (uint32_t i = 1; i < t->count; i++) {
		const struct tree_node *n = &t->nodes[i];
		uint32_t caller = n->parent;
		if (!g->shown[n->function])
			continue;
		while (caller && !g->shown[t->nodes[caller].function])
			caller = t->nodes[caller].parent;
		if (caller && t->nodes[caller].function != n->function)
			add_edge(g, t->nodes[caller].function, n->function, n->total);
	}
}

static void put_label(FILE *out, const struct tree *t, uint32_t function)
{
	const struct tree_sum *sum = &t->sums[function];
	char self[DESCRIBE_MAX], total[DESCRIBE_MAX];

	CLEANUP(freep)
	char *words = mem_printf("%.*s\n%s (%.2f%%)\nof %s (%.2f%%)",
				 (int)t->functions[function].name_len, t->functions[function].name,
				 describe_amount(sum->self, t->unit, self), share(t, sum->self),
				 describe_amount(sum->total, t->unit, total), share(t, sum->total));
	fputc('"', out);
	for (const char *c = words; *c; c++) {
		if (*c == '\n')
			fputs("\\n", out);
		else if (*c == '"' || *c == '\\')
			fprintf(out, "\\%c", *c);
		else
			fputc(*c, out);
	}
	fputc('"', out);
}

int render_dot(const struct profile *p, const struct render_options *o, FILE *out)
{
	struct tree_options options = o->tree;
	struct graph g = {};

	if (options.base)
		return -EOPNOTSUPP;
	options.column = TREE_VALUE;
	options.sums = true;
	CLEANUP(tree_freep) struct tree *t = tree_new(p, &options);
	g.t = t;
	g.shown = mem_alloc_array(t->function_count + 1, sizeof(*g.shown));
	choose(&g, o->top ? o->top : FUNCTIONS_DEFAULT);
	add_edges(&g);
	fputs("digraph profile {\nnode [shape=box fontname=\"sans-serif\"]\n", out);
	for (uint32_t i = 1; i < t->function_count; i++) {
		if (!g.shown[i])
			continue;
		fprintf(out, "N%" PRIu32 " [fontsize=%.0f label=", i,
			8 + 16 * sqrt(share(t, t->sums[i].self) / 100));
		put_label(out, t, i);
		fputs("]\n", out);
	}
	for (uint32_t i = 0; i < g.count; i++) {
		char amount[DESCRIBE_MAX];
		fprintf(out, "N%" PRIu32 " -> N%" PRIu32 " [weight=%.0f label=\"%s\"]\n",
			g.edges[i].from, g.edges[i].to, 1 + share(t, g.edges[i].total),
			describe_amount(g.edges[i].total, t->unit, amount));
	}
	fputs("}\n", out);
	free(g.shown);
	free(g.edges);
	index_done(&g.index);
	return 0;
}
