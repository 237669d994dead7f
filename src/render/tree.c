/*
 * tree: the calls as an indented text, what took most first.
 *
 *	  TOTAL        %  CALLS
 *	11.98 s  100.00%  all
 *	 5.88 s   49.10%  ├─ shares › _start › main › workload_run
 *	 3.02 s   25.20%  │  ├─ share_fifty
 *
 * Frames that do nothing but call the next one stand in one line with it. What is below a hundredth
 * of the whole is left out, unless --min-fraction tells another share. Of two profiles each line
 * has the change.
 */
#include "base/mem.h"
#include "render/describe.h"
#include "render/render.h"

#define COLUMNS      100 /* where there is no terminal */
#define LEAST        0.01
#define NUMBER       11
#define NAME_LEAST   24 /* columns that a name has, however deep it is */
#define NAMES_COLUMN 20 /* where calls begin */

struct line {
	uint32_t node;
	uint32_t level;
	bool is_last; /* of its caller's */
};

struct writing {
	const struct tree *tree;
	unsigned columns;
	double least; /* what is less does not show */
	FILE *out;
	struct line *lines; /* to be written, the next one last */
	uint32_t count, cap;
	bool *is_open; /* by level: whether more of that level is to come */
};

static uint64_t weight(const struct tree_node *n)
{
	return n->total + n->base_total;
}

/* Of all but what is idle, if that is folded: as tree_options.min_fraction. */
static uint64_t weight_that_counts(const struct tree *t)
{
	return weight(&t->nodes[0]) - (t->idle ? weight(&t->nodes[t->idle]) : 0);
}

/* Small ones first; of equal ones, names from behind. */
static int by_weight(const void *a, const void *b, void *nodes)
{
	const struct line *x = a, *y = b;
	uint64_t wx = weight((const struct tree_node *)nodes + x->node);
	uint64_t wy = weight((const struct tree_node *)nodes + y->node);

	if (wx != wy)
		return wx < wy ? -1 : 1;
	return (x->node < y->node) - (x->node > y->node);
}

/* Behind the rest, its callees: the largest ends up last, and is written first. */
static void push_callees(struct writing *w, uint32_t node, uint32_t level)
{
	const struct tree *t = w->tree;
	uint32_t first = w->count;

	for (uint32_t i = node + 1; i < t->nodes[node].next; i = t->nodes[i].next) {
		bool is_small = (double)weight(&t->nodes[i]) < w->least;
		if (is_small && t->nodes[i].function == t->merged)
			continue;
		MEM_GROW(w->lines, w->count, w->cap);
		w->lines[w->count++] = (struct line){.node = i, .level = level};
	}
	if (w->count > first)
		qsort_r(w->lines + first, w->count - first, sizeof(*w->lines), by_weight, t->nodes);
	if (w->count > first)
		w->lines[first].is_last = true;
}

/* The node that this one does nothing but call, or itself. */
static uint32_t only_callee(const struct tree *t, uint32_t node)
{
	const struct tree_node *n = &t->nodes[node], *next = n + 1;

	return n->next > node + 1 && next->total == n->total && next->base_total == n->base_total &&
			       next->function != t->merged
		       ? node + 1
		       : node;
}

static const char *name_of(const struct tree *t, uint32_t node)
{
	const struct tree_function *f = &t->functions[t->nodes[node].function];

	return !node                                               ? "all"
	       : t->merged && t->nodes[node].function == t->merged ? "… smaller"
								   : f->name;
}

static size_t columns_of(const char *s)
{
	size_t used;

	describe_fit(s, strlen(s), SIZE_MAX, &used);
	return used;
}

static void write_cut(struct writing *w, const char *s, size_t room)
{
	size_t len = strlen(s), used, n = describe_fit(s, len, room, &used);

	if (n < len)
		n = describe_fit(s, len, room - 1, &used);
	fprintf(w->out, "%.*s%s", (int)n, s, n < len ? "…" : "");
}

/* "a › b › c", or where that is too long "a › … 12 more › c". Returns the last node of the chain.
 */
static uint32_t write_chain(struct writing *w, uint32_t first, size_t indent)
{
	const struct tree *t = w->tree;
	size_t room = MAX((size_t)w->columns, indent + NAME_LEAST) - indent;
	size_t whole = columns_of(name_of(t, first)), between = 0;
	uint32_t last = first;

	for (uint32_t next; first && (next = only_callee(t, last)) != last; last = next) {
		whole += 3 + columns_of(name_of(t, next));
		between++;
	}
	if (whole <= room) {
		for (uint32_t i = first; i <= last; i++)
			fprintf(w->out, "%s%s", i > first ? " › " : "", name_of(t, i));
		return last;
	}
	if (last == first) {
		write_cut(w, name_of(t, first), room);
		return last;
	}
	char middle[48] = " › ";
	if (between > 1)
		snprintf(middle, sizeof(middle), " › … %zu more › ", between - 1);
	size_t fixed = columns_of(middle), ends = room > fixed + 8 ? room - fixed : 8;
	size_t head = MIN(columns_of(name_of(t, first)), ends / 2);
	write_cut(w, name_of(t, first), head);
	fputs(middle, w->out);
	write_cut(w, name_of(t, last), ends - head);
	return last;
}

static void write_numbers(struct writing *w, const struct tree_node *n)
{
	const struct tree *t = w->tree;
	char amount[DESCRIBE_MAX];
	const char *text = describe_amount(n->total, t->unit, amount);
	size_t used = columns_of(text);

	fprintf(w->out, "%*s%s", (int)(used < NUMBER ? NUMBER - used : 0), "", text);
	if (!t->base) {
		fprintf(w->out, " %6.2f%%  ",
			t->nodes[0].total ? 100.0 * (double)n->total / (double)t->nodes[0].total
					  : 0);
		return;
	}
	text = describe_change(n->total, n->base_total, t->unit, amount);
	used = columns_of(text);
	fprintf(w->out, "%*s%s  ", (int)(used < NUMBER ? NUMBER - used : 0), "", text);
}

static void write_line(struct writing *w, const struct line *line)
{
	size_t indent = w->tree->base ? 2 * NUMBER + 2 : NAMES_COLUMN + 1;

	write_numbers(w, &w->tree->nodes[line->node]);
	for (uint32_t level = 1; level < line->level; level++)
		fputs(w->is_open[level] ? "│  " : "   ", w->out);
	if (line->level)
		fputs(line->is_last ? "└─ " : "├─ ", w->out);
	w->is_open[line->level] = !line->is_last;
	uint32_t last = write_chain(w, line->node, indent + 3 * (size_t)line->level);
	fputc('\n', w->out);
	push_callees(w, last, line->level + 1);
}

int render_tree(const struct profile *p, const struct render_options *o, FILE *out)
{
	struct tree_options options = o->tree;
	if (options.min_fraction <= 0)
		options.min_fraction = LEAST;
	CLEANUP(tree_freep) struct tree *t = tree_new(p, &options);
	struct writing w = {.tree = t,
			    .columns = o->terminal_columns ? o->terminal_columns : COLUMNS,
			    .least = options.min_fraction * (double)weight_that_counts(t),
			    .out = out,
			    .is_open = mem_alloc_array((size_t)t->depth + 2, sizeof(bool))};
	char sentence[DESCRIBE_MAX];
	uint32_t written = 0;

	fprintf(out, "%s\n\n", describe_profile(p, t, sentence));
	fprintf(out, "%*s", NUMBER, "TOTAL");
	fprintf(out, "%*s", t->base ? NUMBER : 8, t->base ? "CHANGE" : "%");
	fputs("  CALLS\n", out);
	MEM_GROW(w.lines, w.count, w.cap);
	w.lines[w.count++] = (struct line){.is_last = true};
	while (w.count && (!o->top || written < o->top)) {
		struct line line = w.lines[--w.count];
		write_line(&w, &line);
		written++;
	}
	if (w.count)
		fputs("\nThere is more; --top N shows more rows.\n", out);
	free(w.lines);
	free(w.is_open);
	return 0;
}
