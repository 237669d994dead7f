/*
 * html: the flame graph on a page of its own, with a table of functions below it.
 */
#include <inttypes.h>

#include "query/top.h"
#include "render/describe.h"
#include "render/escape.h"
#include "render/flame.h"

#define ROWS_MAX 500

extern const char _binary_page_css_start[], _binary_page_css_end[];
extern const char _binary_page_js_start[], _binary_page_js_end[];

static void write_amount(FILE *out, uint64_t n, const struct tree *t)
{
	char amount[DESCRIBE_MAX];

	fprintf(out, "<td class=\"n\" data-n=\"%" PRIu64 "\">%s</td><td class=\"n\">%.2f %%</td>",
		n, describe_amount(n, t->unit, amount),
		t->nodes[0].total ? 100.0 * (double)n / (double)t->nodes[0].total : 0.0);
}

static void write_cell(FILE *out, const char *class, const char *text)
{
	fprintf(out, "<td class=\"%s\">", class);
	escape_xml(out, text, strlen(text));
	fputs("</td>", out);
}

/* An amount and how it changed. */
static void write_change(FILE *out, uint64_t now, uint64_t base, const struct tree *t)
{
	char amount[DESCRIBE_MAX];

	fprintf(out, "<td class=\"n\" data-n=\"%" PRIu64 "\">%s</td>", now,
		describe_amount(now, t->unit, amount));
	fprintf(out, "<td class=\"n\" data-n=\"%" PRId64 "\">%s</td>", (int64_t)(now - base),
		describe_change(now, base, t->unit, amount));
}

static void write_heads(FILE *out, bool change)
{
	if (change)
		fputs("<th class=\"n\" data-column=\"0\">Self</th>"
		      "<th class=\"n\" data-column=\"1\">Change</th>"
		      "<th class=\"n\" data-column=\"2\">Total</th>"
		      "<th class=\"n\" data-column=\"3\">Change</th>",
		      out);
	else
		fputs("<th class=\"n\" colspan=\"2\" data-column=\"0\" "
		      "aria-sort=\"descending\">Self</th>"
		      "<th class=\"n\" colspan=\"2\" data-column=\"2\">Total</th>",
		      out);
}

static void write_table(const struct profile *p, const struct render_options *o, FILE *out)
{
	struct tree_options options = o->tree;
	options.min_fraction = 0; /* sums of functions need every node */
	CLEANUP(tree_freep) struct tree *t = tree_new(p, &options);
	uint32_t count;
	CLEANUP(freep) struct top_row *rows = top_new(t, &count);

	fputs("<section>\n<h2>Functions</h2>\n<table>\n<thead><tr>", out);
	write_heads(out, t->base);
	fputs("<th data-column=\"4\">Function</th><th data-column=\"5\">Module</th>"
	      "</tr></thead>\n<tbody>\n",
	      out);
	for (uint32_t i = 0; i < MIN(count, (uint32_t)ROWS_MAX); i++) {
		const struct tree_function *f = &t->functions[rows[i].function];
		fputs("<tr>", out);
		if (t->base) {
			write_change(out, rows[i].self, rows[i].base_self, t);
			write_change(out, rows[i].total, rows[i].base_total, t);
		} else {
			write_amount(out, rows[i].self, t);
			write_amount(out, rows[i].total, t);
		}
		write_cell(out, "name", f->name);
		write_cell(out, "module", f->module);
		fputs("</tr>\n", out);
	}
	fputs("</tbody>\n</table>\n", out);
	if (count > ROWS_MAX)
		fprintf(out, "<p class=\"rest\">%u more functions are in the graph only.</p>\n",
			count - ROWS_MAX);
	fputs("</section>\n", out);
}

int render_html(const struct profile *p, const struct render_options *o, FILE *out)
{
	char title[TEXT_MAX + 1];

	fputs("<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
	      "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; "
	      "style-src 'unsafe-inline'; script-src 'unsafe-inline'\">\n"
	      "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n<title>",
	      out);
	describe_title(p, o, title);
	escape_xml(out, title, strlen(title));
	fputs("</title>\n<style>\n", out);
	flame_asset(out, _binary_page_css_start, _binary_page_css_end);
	fputs("</style>\n</head>\n<body>\n", out);
	flame_write(p, o, out);
	write_table(p, o, out);
	fputs("<script>\n", out);
	flame_asset(out, _binary_page_js_start, _binary_page_js_end);
	fputs("</script>\n</body>\n</html>\n", out);
	return 0;
}
