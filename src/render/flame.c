#include "render/flame.h"

#include <inttypes.h>

#include "base/mem.h"
#include "render/describe.h"
#include "render/escape.h"
#include "render/palette.h"

/*
 * Geometry in pixels; what flame.js needs of it goes there with the data.
 *
 * A frame narrower than FRAME_MIN is merged with its neighbours of the same row into a block, which
 * is drawn from BLOCK_MIN on and is never wider than BLOCK_MAX, so that a click on it comes nearer.
 *
 * The static picture has at most STILL_ROWS: that is what a screen of 800 pixels shows at once.
 * Where there are more, rows that are nearly empty (TOWER of the width) go as well, down to
 * TOWER_ROWS. What stands on the last row is told there ("… 12 more"); the script shows all, and
 * scrolls.
 *
 * All widths are to scale but one: idle time that is folded into one frame is drawn no wider than
 * IDLE_SHARE of the picture, and says how much it is. To scale, it would leave a machine whose
 * threads wait for work, as most do, no room for what they do else.
 */
#define WIDTH      1200
#define PAD        12
#define HEADER     90
#define ROW        18
#define CHARACTER  7.25 /* of the 12 px monospaced fonts asked for, the widest */
#define TEXT_PAD   3
#define FRAME_MIN  0.8
#define BLOCK_MIN  0.3
#define BLOCK_MAX  24.0
#define STILL_ROWS 34u
#define TOWER      0.05
#define TOWER_ROWS 14u
#define IDLE_SHARE 8 /* one in so many pixels */

#define NODES_MAX 80000 /* embedded: about 1 MB, which a browser opens at once */
#define BOXES_MAX 5000  /* in the static picture */
#define ROWS_MAX  1500  /* deeper frames are left out */

extern const char _binary_flame_css_start[], _binary_flame_css_end[];
extern const char _binary_flame_js_start[], _binary_flame_js_end[];

/* Neighbours of one row that are too narrow to be drawn one by one. */
struct block {
	double from, to; /* pixels */
	uint32_t count;
};

struct drawing {
	const struct tree *tree;
	bool icicle;
	double frame_min, block_min;
	unsigned width;
	uint32_t deep;              /* rows that are not empty, of the whole tree */
	uint32_t rows;              /* of the picture */
	double covered[STILL_ROWS]; /* by row: pixels that are drawn */
	uint64_t period;            /* of a sample, in the tree's unit; 0: it varies */
	uint64_t hidden;            /* of idle time, in the tree's unit: what has no width */
	uint64_t *starts; /* by depth: where the next node of that row starts, in the tree's unit */
	struct block *blocks; /* by depth: the one being gathered */
	uint32_t boxes;       /* frames and blocks drawn */
	FILE *out;            /* NULL: only find how many rows and boxes there are */
};

/* ---- the picture ---------------------------------------------------------------------------- */

/* Hundredths of a pixel are enough. */
static void write_pixels(FILE *out, double n)
{
	uint64_t hundredths = (uint64_t)(n * 100 + 0.5);

	escape_number(out, hundredths / 100);
	if (hundredths % 100) {
		putc_unlocked('.', out);
		putc_unlocked((int)('0' + hundredths / 10 % 10), out);
		if (hundredths % 10)
			putc_unlocked((int)('0' + hundredths % 10), out);
	}
}

static void write_rect(const struct drawing *d, const char *class, double from, double to,
		       uint32_t depth)
{
	uint32_t row = d->icicle ? depth : d->rows - 1 - depth;
	double gap = to - from > 3 ? 0.5 : 0;

	fprintf(d->out, "<rect class=\"%s\" x=\"", class);
	write_pixels(d->out, PAD + from);
	fputs_unlocked("\" y=\"", d->out);
	escape_number(d->out, HEADER + row * ROW);
	fputs_unlocked("\" width=\"", d->out);
	write_pixels(d->out, to - from - gap);
	fprintf(d->out, "\" height=\"%d\"/>\n", ROW - 1);
}

static void write_label(const struct drawing *d, const char *name, size_t len, double from,
			double to, uint32_t depth)
{
	uint32_t row = d->icicle ? depth : d->rows - 1 - depth;
	double room = (to - from - 2 * TEXT_PAD) / CHARACTER;
	size_t used;

	if (room < 3)
		return;
	size_t n = describe_fit(name, len, (size_t)room, &used);
	if (n < len)
		n = describe_fit(name, len, (size_t)room - 1, &used);
	fputs_unlocked("<text x=\"", d->out);
	write_pixels(d->out, PAD + from + TEXT_PAD);
	fputs_unlocked("\" y=\"", d->out);
	escape_number(d->out, HEADER + row * ROW + 13);
	fputs_unlocked("\">", d->out);
	escape_xml(d->out, name, n);
	fputs_unlocked(n < len ? "…</text>\n" : "</text>\n", d->out);
}

/* A box from here to there: whether it is to be drawn, not only counted. */
static bool count_box(struct drawing *d, double from, double to, uint32_t depth)
{
	if (d->out)
		return depth < d->rows;
	d->deep = MAX(d->deep, depth + 1);
	if (depth < STILL_ROWS) {
		d->boxes++;
		d->covered[depth] += to - from;
	}
	return false;
}

static void flush_block(struct drawing *d, uint32_t depth)
{
	struct block *b = &d->blocks[depth];

	if (b->to - b->from >= d->block_min && count_box(d, b->from, b->to, depth))
		write_rect(d, "x", b->from, b->to, depth);
	*b = (struct block){};
}

static void add_to_block(struct drawing *d, double from, double to, uint32_t depth)
{
	struct block *b = &d->blocks[depth];

	if (b->count && (from - b->to > d->block_min || to - b->from > BLOCK_MAX))
		flush_block(d, depth);
	if (!b->count)
		b->from = from;
	b->to = to;
	b->count++;
}

/* In the last row, what has more on it than the picture: how much. */
static void draw_stub(struct drawing *d, const struct tree_node *n, double from, double to)
{
	const struct tree_node *nodes = d->tree->nodes;
	uint32_t deepest = n->depth;
	double room = (to - from - 2 * TEXT_PAD) / CHARACTER;
	char label[32];

	for (const struct tree_node *in = n; in < &nodes[n->next]; in++)
		deepest = MAX(deepest, in->depth);
	int len = snprintf(label, sizeof(label), room < 11 ? "+%u" : "… %u more",
			   deepest - n->depth + 1);
	write_rect(d, "x", from, to, n->depth);
	if (room >= len)
		write_label(d, label, (size_t)len, from, to, n->depth);
}

static bool is_idle(const struct drawing *d, const struct tree_node *n)
{
	return d->tree->idle && n == &d->tree->nodes[d->tree->idle];
}

static void draw_frame(struct drawing *d, const struct tree_node *n, double from, double to)
{
	const struct tree_function *f = &d->tree->functions[n->function];
	char class[3];

	if (!count_box(d, from, to, n->depth))
		return;
	if (n->depth == d->rows - 1 && d->tree->nodes + n->next > n + 1) {
		draw_stub(d, n, from, to);
		return;
	}
	if (n->function && n->function == d->tree->merged)
		snprintf(class, sizeof(class), "x");
	else if (d->tree->base)
		palette_change(n->total, n->base_total, class);
	else
		palette_class(palette_kind(f), palette_shade(f), class);
	write_rect(d, class, from, to, n->depth);
	if (d->hidden && is_idle(d, n)) {
		char label[DESCRIBE_MAX], amount[DESCRIBE_MAX];
		int len = snprintf(label, sizeof(label), "%s %.100s", FRAME_IDLE,
				   describe_amount(n->total, d->tree->unit, amount));
		write_label(d, label, (size_t)len, from, to, n->depth);
	} else {
		write_label(d, n->depth ? f->name : "all", n->depth ? f->name_len : 3, from, to,
			    n->depth);
	}
}

/* Of two profiles a frame is as wide as both: what is new shows as well as what is gone. */
static uint64_t amount_of(const struct tree_node *n)
{
	return n->total + n->base_total;
}

static uint64_t width_of(const struct drawing *d, const struct tree_node *n)
{
	return amount_of(n) - (n->depth == 0 || is_idle(d, n) ? d->hidden : 0);
}

static uint64_t hide_idle(const struct tree *t)
{
	uint64_t idle = t->idle ? amount_of(&t->nodes[t->idle]) : 0;
	uint64_t rest = amount_of(&t->nodes[0]) - idle, most = rest / (IDLE_SHARE - 1);

	return rest && idle > most ? idle - most : 0;
}

/* Draws everything, or without `out` finds how much there is. */
static void draw(struct drawing *d)
{
	const struct tree *t = d->tree;
	uint64_t whole = width_of(d, &t->nodes[0]);
	double scale = whole ? (d->width - 2 * PAD) / (double)whole : 0;

	memset(d->blocks, 0, ((size_t)t->depth + 1) * sizeof(*d->blocks));
	d->starts[0] = 0;
	for (uint32_t i = 0; i < t->count; i++) {
		const struct tree_node *n = &t->nodes[i];
		uint64_t start = d->starts[n->depth];
		double from = (double)start * scale;
		double to = MIN(from + (double)width_of(d, n) * scale, d->width - 2.0 * PAD);

		d->starts[n->depth] = start + width_of(d, n);
		d->starts[n->depth + 1] = start;
		if (n->depth >= ROWS_MAX)
			continue;
		if (to - from >= d->frame_min || i == 0)
			draw_frame(d, n, from, MAX(to, from));
		else if (to > from)
			add_to_block(d, from, to, n->depth);
	}
	for (uint32_t depth = 0; depth <= t->depth; depth++)
		flush_block(d, depth);
}

/* ---- what stands around it --------------------------------------------------------------- */

static void write_legend_entry(FILE *out, const char *class, const char *name, unsigned *x)
{
	fprintf(out, "<rect class=\"%s\" x=\"%u\" y=\"-9\" width=\"10\" height=\"10\"/>", class,
		*x);
	fprintf(out, "<text x=\"%u\">%s</text>\n", *x + 15, name);
	*x += 33 + (unsigned)strlen(name) * 20 / 3;
}

static void write_change_legend(FILE *out)
{
	static const struct {
		uint64_t now, base;
		const char *name;
	} entries[] = {{1, 0, "new"},
		       {3, 1, "more"},
		       {1, 1, "the same"},
		       {1, 3, "less"},
		       {0, 1, "gone; width: both together"}};
	unsigned x = 0;

	fprintf(out, "<g class=\"legend\" transform=\"translate(%d %d)\">\n", PAD, HEADER - 18);
	for (size_t i = 0; i < ARRAY_SIZE(entries); i++) {
		char class[3];
		palette_change(entries[i].now, entries[i].base, class);
		write_legend_entry(out, class, entries[i].name, &x);
	}
	fputs("</g>\n", out);
}

static void write_legend(const struct tree *t, FILE *out)
{
	bool used[PALETTE_KINDS] = {};
	unsigned kinds = 0, x = 0;

	for (uint32_t f = 1; f < t->function_count; f++) {
		enum palette_kind kind = palette_kind(&t->functions[f]);
		if (f == t->merged)
			continue;
		kinds += !used[kind];
		used[kind] = true;
	}
	if (kinds < 2)
		return;
	fprintf(out, "<g class=\"legend\" transform=\"translate(%d %d)\">\n", PAD, HEADER - 18);
	for (enum palette_kind k = 0; k < PALETTE_KINDS; k++) {
		char class[3];
		if (!used[k])
			continue;
		palette_class(k, 3, class);
		write_legend_entry(out, class, palette_name(k), &x);
	}
	fputs("</g>\n", out);
}

static void write_subtitle(const struct tree *t, const struct profile *p, FILE *out)
{
	char sentence[DESCRIBE_MAX], amount[DESCRIBE_MAX];

	describe_profile(p, t, sentence);
	escape_xml(out, sentence, strlen(sentence));
	if (hide_idle(t))
		fputs("; " FRAME_IDLE " is drawn narrower", out);
	if (t->merged) {
		fprintf(out, "; frames under %s", describe_quantity(t->least, t->unit, amount));
		fprintf(out, " are merged (%s of them)", describe_amount(t->pruned, "", amount));
	}
	if (t->depth >= ROWS_MAX)
		fprintf(out, "; stacks are cut at %d of %u frames", ROWS_MAX - 1, t->depth);
}

/* ---- the data ---------------------------------------------------------------------------- */

static void write_names(const struct tree *t, FILE *out)
{
	fputs("\"names\":[\"all\"", out);
	for (uint32_t f = 1; f < t->function_count; f++) {
		fputs_unlocked(",\n", out);
		escape_json(out, t->functions[f].name, t->functions[f].name_len);
	}
	fputs("],\n\"modules\":[\"\"", out);
	for (uint32_t f = 1; f < t->function_count; f++) {
		const char *module = t->functions[f].module;
		/* 0: the same as before, which is usual where modules are not known. */
		if (strcmp(module, t->functions[f - 1].module) == 0) {
			fputs_unlocked(",0", out);
		} else {
			putc_unlocked(',', out);
			escape_json(out, module, strlen(module));
		}
	}
	fputs("],\n\"classes\":\"m0", out);
	for (uint32_t f = 1; f < t->function_count; f++) {
		char class[3];
		palette_class(palette_kind(&t->functions[f]), palette_shade(&t->functions[f]),
			      class);
		fputs_unlocked(class, out);
	}
	fputs("\"", out);
}

enum column { FUNCTIONS, DEPTHS, TOTALS, BASES };

/* Gathers digits in a buffer: these numbers are most of a large file. */
static void write_column(const struct tree *t, const char *key, enum column column, FILE *out)
{
	char buf[4096];
	size_t len = 0;

	fprintf(out, ",\n\"%s\":[", key);
	for (uint32_t i = 0; i < t->count; i++) {
		const struct tree_node *n = &t->nodes[i];

		if (n->depth >= ROWS_MAX)
			continue;
		if (sizeof(buf) - len <= ESCAPE_DIGITS) {
			fwrite(buf, 1, len, out);
			len = 0;
		}
		if (i)
			buf[len++] = ',';
		len += escape_digits(buf + len, column == FUNCTIONS ? n->function
						: column == DEPTHS  ? n->depth
						: column == TOTALS  ? n->total
								    : n->base_total);
	}
	if (len)
		fwrite(buf, 1, len, out);
	fputs("]", out);
}

static void write_data(const struct drawing *d, FILE *out)
{
	const struct tree *t = d->tree;

	fputs("<script type=\"application/json\">{", out);
	fprintf(out, "\"pad\":%d,\"header\":%d,\"row\":%d,\"textPad\":%d,", PAD, HEADER, ROW,
		TEXT_PAD);
	fprintf(out, "\"frameMin\":%g,\"blockMin\":%g,\"blockMax\":%g,", FRAME_MIN, BLOCK_MIN,
		BLOCK_MAX);
	fprintf(out, "\"icicle\":%s,\"merged\":%u,\"unit\":", d->icicle ? "true" : "false",
		t->merged);
	escape_json(out, t->unit, strlen(t->unit));
	if (d->period)
		fprintf(out, ",\"period\":%" PRIu64, d->period);
	if (d->hidden)
		fprintf(out, ",\"idle\":%u,\"hidden\":%" PRIu64, t->nodes[t->idle].function,
			d->hidden);
	fprintf(out, ",\"kinds\":{");
	for (enum palette_kind k = 0; k < PALETTE_KINDS; k++) {
		char class[3];
		palette_class(k, 0, class);
		fprintf(out, "%s\"%c\":\"%s\"", k ? "," : "", class[0], palette_name(k));
	}
	fputs("},\n", out);
	write_names(t, out);
	write_column(t, "functions", FUNCTIONS, out);
	write_column(t, "depths", DEPTHS, out);
	write_column(t, "totals", TOTALS, out);
	if (t->base)
		write_column(t, "bases", BASES, out);
	fputs("}</script>\n", out);
}

void flame_asset(FILE *out, const char *start, const char *end)
{
	fwrite(start, 1, (size_t)(end - start), out);
}

/* Where scripts run, the search stands in its place. */
static void write_hint(const struct drawing *d, FILE *out)
{
	if (d->deep > d->rows)
		fprintf(out,
			"<text class=\"still\" x=\"%u\" y=\"28\">A browser shows %u more rows"
			"</text>\n",
			d->width - PAD, d->deep - d->rows);
}

static void write_header(const struct tree *t, const struct profile *p,
			 const struct render_options *o, FILE *out)
{
	char title[TEXT_MAX + 1];

	describe_title(p, o, title);
	fputs("<title>", out);
	escape_xml(out, title, strlen(title));
	fprintf(out, "</title>\n<text class=\"title\" x=\"%d\" y=\"29\">", PAD);
	escape_xml(out, title, strlen(title));
	fprintf(out, "</text>\n<text class=\"subtitle\" x=\"%d\" y=\"49\">", PAD);
	write_subtitle(t, p, out);
	fputs("</text>\n", out);
	if (t->base)
		write_change_legend(out);
	else
		write_legend(t, out);
}

/* Finds the rows and the least width for which the static picture has at most BOXES_MAX. */
static void fit_picture(struct drawing *d)
{
	for (double wider = 1; wider == 1 || d->boxes > BOXES_MAX; wider *= 2) {
		d->boxes = d->deep = 0;
		memset(d->covered, 0, sizeof(d->covered));
		d->frame_min = FRAME_MIN * wider;
		d->block_min = BLOCK_MIN * wider;
		draw(d);
	}
	d->rows = MIN(d->deep, STILL_ROWS);
	if (d->deep > STILL_ROWS)
		while (d->rows > TOWER_ROWS && d->covered[d->rows - 1] < TOWER * d->width)
			d->rows--;
}

void flame_write(const struct profile *p, const struct render_options *o, FILE *out)
{
	struct tree_options options = o->tree;
	options.max_nodes = NODES_MAX;
	CLEANUP(tree_freep) struct tree *t = tree_new(p, &options);
	struct drawing d = {
		.tree = t,
		.icicle = o->icicle,
		.width = o->width ? o->width : WIDTH,
		.hidden = hide_idle(t),
		.period =
			options.column == TREE_VALUE && describe_is_counted(p) ? p->info.period : 0,
		.starts = mem_alloc_array((size_t)t->depth + 2, sizeof(*d.starts)),
		.blocks = mem_alloc_array((size_t)t->depth + 1, sizeof(*d.blocks)),
	};

	fit_picture(&d);
	unsigned height = HEADER + d.rows * ROW + PAD;
	fprintf(out,
		"<svg xmlns=\"http://www.w3.org/2000/svg\" class=\"smolder\" width=\"%u\" "
		"height=\"%u\" viewBox=\"0 0 %u %u\">\n<style><![CDATA[\n",
		d.width, height, d.width, height);
	flame_asset(out, _binary_flame_css_start, _binary_flame_css_end);
	palette_css(out);
	fputs("]]></style>\n<rect class=\"page\" width=\"100%\" height=\"100%\"/>\n", out);
	write_header(t, p, o, out);
	write_hint(&d, out);

	fputs("<g class=\"frames\">\n", out);
	d.out = out;
	draw(&d);
	fputs("</g>\n", out);
	write_data(&d, out);
	fputs("<script><![CDATA[\n", out);
	flame_asset(out, _binary_flame_js_start, _binary_flame_js_end);
	fputs("]]></script>\n</svg>\n", out);
	free(d.starts);
	free(d.blocks);
}
