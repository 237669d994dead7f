/*
 * top: a table of functions by the time spent in themselves, for a terminal of 100 columns.
 */
#include "base/mem.h"
#include "query/top.h"
#include "render/describe.h"
#include "render/render.h"

#define COLUMNS     100
#define NUMBER      11 /* columns of a number without its percentage */
#define NUMBERS     40 /* of all numbers, spaces included */
#define MODULE_MAX  22
#define ROWS        30
#define MODULE_HEAD "MODULE"

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

/* What was inlined is marked, also where its name is cut. */
static void write_name(FILE *out, const struct tree_function *f, size_t columns, bool pad)
{
	static const char mark[] = " (inlined)";
	size_t used;

	if (f->kind != FRAME_INLINED) {
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
	CLEANUP(freep) struct top_row *rows = top_new(t, &count);
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
		write_name(out, f, name, module && *f->module);
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
