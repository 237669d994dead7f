/*
 * top: a table of functions by the time spent in themselves, as wide as the terminal. Of two
 * profiles: by how much that changed, with the change of each one's share in percentage points.
 */
#include "base/mem.h"
#include "query/top.h"
#include "render/describe.h"
#include "render/render.h"

#define COLUMNS        100 /* where there is no terminal */
#define NAME_LEAST     20
#define NUMBER         11 /* columns of a number without its percentage */
#define NUMBERS        40 /* of all numbers, spaces included */
#define NUMBERS_CHANGE 54
#define MODULE_MAX     22
#define ROWS           30
#define MODULE_HEAD    "MODULE"

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

/* A mark behind a name is there also where the name is cut. */
static void write_name(FILE *out, const struct tree_function *f, const char *mark, size_t columns,
		       bool pad)
{
	size_t used;

	if (!*mark) {
		write_column(out, f->name, columns, pad);
		return;
	}
	columns -= strlen(mark);
	describe_fit(f->name, f->name_len, columns, &used);
	write_column(out, f->name, columns, false);
	fputs(mark, out);
	if (pad)
		fprintf(out, "%*s", (int)(columns - used), "");
}

static size_t module_columns(const struct tree *t, const struct top_row *rows, uint32_t count)
{
	size_t widest = 0, used;

	for (uint32_t i = 0; i < count; i++) {
		const char *module = t->functions[rows[i].function].module;
		describe_fit(module, strlen(module), MODULE_MAX, &used);
		widest = MAX(widest, used);
	}
	return widest ? MAX(widest, strlen(MODULE_HEAD)) : 0;
}

/* An amount in its column; one that does not fit is written shorter. */
static void write_amount(FILE *out, const char *amount, double n)
{
	char shorter[32];
	size_t used;

	describe_fit(amount, strlen(amount), SIZE_MAX, &used);
	if (used >= NUMBER) {
		snprintf(shorter, sizeof(shorter), *amount == '+' ? "%+.3g" : "%.4g", n);
		amount = shorter;
		used = strlen(shorter);
	}
	fprintf(out, "%*s%s", (int)(NUMBER - used), "", amount);
}

static double share(uint64_t n, uint64_t of)
{
	return of ? 100.0 * (double)n / (double)of : 0.0;
}

static void write_number(FILE *out, uint64_t n, const struct tree *t)
{
	char amount[DESCRIBE_MAX];

	write_amount(out, describe_amount(n, t->unit, amount), (double)n);
	fprintf(out, " %6.2f%%", share(n, t->nodes[0].total));
}

static void write_change(FILE *out, uint64_t now, uint64_t base, const struct tree *t)
{
	char amount[DESCRIBE_MAX];

	write_amount(out, describe_amount(now, t->unit, amount), (double)now);
	write_amount(out, describe_change(now, base, t->unit, amount), (double)now - (double)base);
}

/* The numbers of a row: two amounts and their shares, or how both changed. */
static void write_numbers(FILE *out, const struct top_row *r, const struct tree *t)
{
	if (!t->base) {
		write_number(out, r->self, t);
		write_number(out, r->total, t);
		return;
	}
	write_change(out, r->self, r->base_self, t);
	fprintf(out, " %+7.2f",
		share(r->self, t->nodes[0].total) - share(r->base_self, t->nodes[0].base_total));
	write_change(out, r->total, r->base_total, t);
}

static const char *mark_of(const struct tree *t, const struct top_row *r)
{
	if (t->base && !r->base_total)
		return " (new)";
	if (t->base && !r->total)
		return " (gone)";
	return t->functions[r->function].kind == FRAME_INLINED ? " (inlined)" : "";
}

int render_top(const struct profile *p, const struct render_options *o, FILE *out)
{
	struct tree_options options = o->tree;
	options.min_fraction = 0; /* sums of functions need every node */
	options.max_nodes = 0;
	CLEANUP(tree_freep) struct tree *t = tree_new(p, &options);
	char sentence[DESCRIBE_MAX];
	uint32_t count;
	CLEANUP(freep) struct top_row *rows = top_new(t, &count);
	uint32_t shown = MIN(count, o->top ? o->top : ROWS);
	size_t module = module_columns(t, rows, shown);
	size_t numbers = t->base ? NUMBERS_CHANGE : NUMBERS;
	size_t columns = o->terminal_columns ? o->terminal_columns : COLUMNS, name;

	/* Where there is no room for both, functions matter more than files. */
	if (columns < numbers + NAME_LEAST + module + 2)
		module = 0;
	name = MAX(columns, numbers + NAME_LEAST) - numbers - (module ? module + 2 : 0);

	fprintf(out, "%s\n\n", describe_profile(p, t, sentence));
	if (t->base)
		fprintf(out, "%*s%*s %7s%*s%*s  ", NUMBER, "SELF", NUMBER, "CHANGE", "POINTS",
			NUMBER, "TOTAL", NUMBER, "CHANGE");
	else
		fprintf(out, "%*s %7s%*s %7s  ", NUMBER, "SELF", "%", NUMBER, "TOTAL", "%");
	write_column(out, "FUNCTION", name, module);
	fprintf(out, "%s%s\n", module ? "  " : "", module ? MODULE_HEAD : "");
	for (uint32_t i = 0; i < shown; i++) {
		const struct tree_function *f = &t->functions[rows[i].function];

		write_numbers(out, &rows[i], t);
		fputs("  ", out);
		write_name(out, f, mark_of(t, &rows[i]), name, module && *f->module);
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
