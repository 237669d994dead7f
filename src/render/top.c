/*
 * top: a table of functions by the time spent in themselves, for a terminal of 100 columns.
 */
#include "base/mem.h"
#include "render/describe.h"
#include "render/render.h"

#define COLUMNS     100
#define NUMBER      11 /* columns of a number without its percentage */
#define NUMBERS     40 /* of all numbers, spaces included */
#define MODULE_MAX  22
#define ROWS        30
#define MODULE_HEAD "MODULE"

struct row {
	uint32_t function;
	uint64_t self;
	uint64_t total;
};

static int by_self(const void *a, const void *b)
{
	const struct row *x = a, *y = b;

	if (x->self != y->self)
		return x->self < y->self ? 1 : -1;
	if (x->total != y->total)
		return x->total < y->total ? 1 : -1;
	return (x->function > y->function) - (x->function < y->function);
}

/* One row a function, sorted; a function that calls itself counts once in its total. */
static struct row *sum_functions(const struct tree *t, uint32_t *ret_count)
{
	struct row *rows = mem_alloc_array(t->function_count, sizeof(*rows));
	CLEANUP(freep) uint32_t *inside = mem_alloc_array(t->function_count, sizeof(*inside));
	uint32_t count = 0;

	for (uint32_t i = 1; i < t->count; i++) {
		const struct tree_node *n = &t->nodes[i];
		struct row *r = &rows[n->function];

		r->self += n->self;
		if (i >= inside[n->function]) {
			r->total += n->total;
			inside[n->function] = n->next;
		}
	}
	for (uint32_t f = 1; f < t->function_count; f++) {
		if (t->functions[f].kind == FRAME_MARK)
			continue;
		rows[count] = rows[f];
		rows[count++].function = f;
	}
	qsort(rows, count, sizeof(*rows), by_self);
	*ret_count = count;
	return rows;
}

/* Writes text into a column: cut with "…" if it is longer, filled up with spaces if `pad`. */
static void write_column(FILE *out, const char *s, size_t columns, bool pad)
{
	size_t len = strlen(s), used;
	size_t n = describe_fit(s, len, columns, &used);

	if (n < len) {
		n = describe_fit(s, len, columns - 1, &used);
		fprintf(out, "%.*s…", (int)n, s);
		used++;
	} else {
		fputs(s, out);
	}
	if (pad)
		fprintf(out, "%*s", (int)(columns - used), "");
}

static size_t module_columns(const struct tree *t, const struct row *rows, uint32_t count)
{
	size_t widest = 0, used;

	for (uint32_t i = 0; i < count; i++) {
		const char *module = t->functions[rows[i].function].module;
		describe_fit(module, strlen(module), MODULE_MAX, &used);
		widest = MAX(widest, used);
	}
	return widest ? MAX(widest, strlen(MODULE_HEAD)) : 0;
}

static void write_number(FILE *out, uint64_t n, const struct tree *t)
{
	char amount[DESCRIBE_MAX];
	size_t used;

	describe_amount(n, t->unit, amount);
	describe_fit(amount, strlen(amount), SIZE_MAX, &used);
	if (used >= NUMBER) {
		snprintf(amount, sizeof(amount), "%.4g", (double)n);
		used = strlen(amount);
	}
	fprintf(out, "%*s%s %6.2f%%", (int)(NUMBER - used), "", amount,
		t->nodes[0].total ? 100.0 * (double)n / (double)t->nodes[0].total : 0.0);
}

int render_top(const struct profile *p, const struct render_options *o, FILE *out)
{
	struct tree_options options = o->tree;
	options.min_fraction = 0; /* sums of functions need every node */
	CLEANUP(tree_freep) struct tree *t = tree_new(p, &options);
	char sentence[DESCRIBE_MAX];
	uint32_t count;
	CLEANUP(freep) struct row *rows = sum_functions(t, &count);
	uint32_t shown = MIN(count, o->top ? o->top : ROWS);
	size_t module = module_columns(t, rows, shown);
	size_t name = COLUMNS - NUMBERS - (module ? module + 2 : 0);

	fprintf(out, "%s\n\n", describe_profile(p, t, sentence));
	fprintf(out, "%*s %7s%*s %7s  ", NUMBER, "SELF", "%", NUMBER, "TOTAL", "%");
	write_column(out, "FUNCTION", name, module);
	fprintf(out, "%s%s\n", module ? "  " : "", module ? MODULE_HEAD : "");
	for (uint32_t i = 0; i < shown; i++) {
		const struct tree_function *f = &t->functions[rows[i].function];

		write_number(out, rows[i].self, t);
		write_number(out, rows[i].total, t);
		fputs("  ", out);
		write_column(out, f->name, name, module && *f->module);
		if (module && *f->module) {
			fputs("  ", out);
			write_column(out, f->module, module, false);
		}
		fputc('\n', out);
	}
	if (count > shown)
		fprintf(out, "\n%u more functions; --top N shows more rows.\n", count - shown);
	return 0;
}
