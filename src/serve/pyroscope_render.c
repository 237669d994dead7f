/*
 * pyroscope_render: Pyroscope's older requests: /pyroscope/render, render-diff and label-values.
 */
#include <inttypes.h>
#include <math.h>

#include "base/clock.h"
#include "base/mem.h"
#include "query/timerange.h"
#include "render/escape.h"
#include "render/render.h"
#include "serve/querier_internal.h"

#define STEP_LEAST 15  /* seconds */
#define STEPS      500 /* about; of a timeline that nobody gave a step for */

struct side { /* a query and its range */
	char *type;
	const char *selector; /* borrowed from the request */
	struct timerange range;
};

struct render_job {
	struct query_job q;
	struct side left, right; /* only the right one, unless two are compared */
	bool is_diff, is_dot;
	const char *label;    /* whose values are asked for; NULL: a profile is */
	const char *group_by; /* borrowed; NULL: none */
	uint64_t max_nodes;
};

/* ---- what is asked ------------------------------------------------------------------------- */

static bool parse_side(struct render_job *j, const char *query, const char *from, const char *to,
		       struct side *side)
{
	const char *text = query_job_given(&j->q, query);
	struct timerange_error err;

	if (!text)
		return query_job_wrong(&j->q, 400,
				       "the parameter %s is missing: a type and labels, as in "
				       "%s{service_name=\"shop\"}",
				       query, CATALOG_CPU);
	size_t len = strcspn(text, "{");
	side->type = mem_strndup(text, len);
	side->selector = text + len;
	return timerange_parse(query_job_given(&j->q, from), query_job_given(&j->q, to),
			       clock_ms(CLOCK_REALTIME), &side->range, &err) == 0 ||
	       query_job_wrong(&j->q, 400, "%s", err.text);
}

static bool parse_format(struct render_job *j)
{
	const char *format = query_job_given(&j->q, "format");

	j->is_dot = format && strcmp(format, "dot") == 0;
	if (format && !j->is_dot && strcmp(format, "json") != 0)
		return query_job_wrong(&j->q, 400, "the format is json or dot, not %.40s", format);
	return query_job_number(&j->q, "max-nodes", 0, QUERIER_NODES_MAX, 0, &j->max_nodes);
}

/* ---- the answer ---------------------------------------------------------------------------- */

static bool select_side(struct render_job *j, struct store *s, const struct side *side,
			struct catalog_selection *ret)
{
	return catalog_select(&j->q, s, side->selector, *side->type ? side->type : NULL,
			      side->range.from_ms, side->range.to_ms, NULL, ret);
}

static struct profile *sum_side(struct render_job *j, struct store *s, const struct side *side)
{
	CLEANUP(catalog_selection_done) struct catalog_selection of = {};
	struct store_answer answer;

	return select_side(j, s, side, &of) ? catalog_sum(&j->q, s, &of, NULL, 0, &answer) : NULL;
}

static void write_flame(FILE *out, const struct flamebearer *f)
{
	fputs("\"flamebearer\":{\"names\":[", out);
	for (size_t i = 0; i < f->name_count; i++) {
		fputs(i ? "," : "", out);
		escape_json(out, f->names[i], strlen(f->names[i]));
	}
	fputs("],\"levels\":[", out);
	for (size_t l = 0; l < f->level_count; l++) {
		fputs(l ? ",[" : "[", out);
		for (size_t i = 0; i < f->levels[l].count; i++)
			fprintf(out, "%s%" PRId64, i ? "," : "", f->levels[l].values[i]);
		fputs("]", out);
	}
	fprintf(out, "],\"numTicks\":%" PRId64 ",\"maxSelf\":%" PRId64 "}", f->total, f->max_self);
}

/* Units as Pyroscope has them: time is samples, so many of which are a second. */
static void write_metadata(FILE *out, const struct side *side, bool is_diff)
{
	struct catalog_id id = {};
	bool is_time;

	catalog_parse_id(side->type, &id);
	is_time = strcmp(id.parts[2], "nanoseconds") == 0;
	fprintf(out,
		",\"metadata\":{\"format\":\"%s\",\"spyName\":\"\",\"sampleRate\":%d,\"units\":",
		is_diff ? "double" : "single", is_time ? 1000000000 : 100);
	const char *units = is_time                             ? "samples"
			    : strcmp(id.parts[2], "count") == 0 ? "objects"
								: id.parts[2];
	escape_json(out, units, strlen(units));
	fputs(",\"name\":", out);
	escape_json(out, id.parts[1], strlen(id.parts[1]));
	fputs("}", out);
}

static void write_samples(FILE *out, const struct querier_lines *l, const struct querier_line *line)
{
	fprintf(out, "{\"startTime\":%" PRIu64 ",\"samples\":[", l->start_ms / 1000);
	for (uint32_t i = 0; i < l->steps; i++)
		fprintf(out, "%s%.0f", i ? "," : "",
			line && !isnan(line->values[i]) ? line->values[i] : 0);
	fprintf(out, "],\"durationDelta\":%" PRIu64 ",\"watermarks\":{}}", l->step_ms / 1000);
}

static bool write_timeline(struct render_job *j, struct store *s, FILE *out)
{
	CLEANUP(catalog_selection_done) struct catalog_selection of = {};
	CLEANUP(querier_lines_done) struct querier_lines all = {}, groups = {};
	uint64_t length_s = (j->right.range.to_ms - j->right.range.from_ms) / 1000;
	double step = (double)MAX(length_s / STEPS, (uint64_t)STEP_LEAST);

	if (!select_side(j, s, &j->right, &of) ||
	    !querier_lines(&j->q, s, &of, NULL, 0, step, &all))
		return false;
	fputs(",\"timeline\":", out);
	write_samples(out, &all, all.count ? &all.all[0] : NULL);
	fputs(",\"groups\":", out);
	if (!j->group_by) {
		fputs("null", out);
		return true;
	}
	if (!querier_lines(&j->q, s, &of, &j->group_by, 1, step, &groups))
		return false;
	fputs("{", out);
	for (uint32_t i = 0; i < groups.count; i++) {
		fputs(i ? "," : "", out);
		escape_json(out, groups.all[i].key, strcspn(groups.all[i].key, "\n"));
		fputs(":", out);
		write_samples(out, &groups, &groups.all[i]);
	}
	fputs("}", out);
	return true;
}

static void write_profile(struct render_job *j, struct store *s, FILE *out)
{
	CLEANUP(profile_freep) struct profile *left = j->is_diff ? sum_side(j, s, &j->left) : NULL;
	CLEANUP(profile_freep)
	struct profile *right = left || !j->is_diff ? sum_side(j, s, &j->right) : NULL;

	if (!right)
		return;
	if (j->is_dot) {
		render_dot(right, &(struct render_options){}, out);
		return;
	}
	CLEANUP(flamebearer_done) struct flamebearer f = {};
	CLEANUP(tree_freep) struct tree *t = querier_tree(right, left, (int64_t)j->max_nodes);
	flamebearer_init(&f, t);
	fputs("{\"version\":1,", out);
	write_flame(out, &f);
	write_metadata(out, &j->right, j->is_diff);
	if (j->is_diff)
		fprintf(out, ",\"leftTicks\":%" PRId64 ",\"rightTicks\":%" PRId64, f.left_total,
			f.right_total);
	else
		write_timeline(j, s, out);
	fputs("}\n", out);
}

static int key_order(const void *a, const void *b)
{
	return strcmp(((const struct catalog_line *)a)->key, ((const struct catalog_line *)b)->key);
}

static void write_values(struct render_job *j, struct store *s, FILE *out)
{
	CLEANUP(catalog_selection_done) struct catalog_selection of = {};
	CLEANUP(catalog_lines_done) struct catalog_lines lines = {};
	bool any = false;

	if (!select_side(j, s, &j->right, &of) ||
	    !catalog_lines(&j->q, s, &of, &j->label, 1, 0, &lines))
		return;
	if (lines.count)
		qsort(lines.all, lines.count, sizeof(*lines.all), key_order);
	fputs("[", out);
	for (uint32_t i = 0; i < lines.count; i++) {
		size_t len = strcspn(lines.all[i].key, "\n");
		if (!len)
			continue;
		fputs(any ? "," : "", out);
		escape_json(out, lines.all[i].key, len);
		any = true;
	}
	fputs("]\n", out);
}

/* ---- as a job ------------------------------------------------------------------------------ */

static void read_store(struct query_job *q, struct store *s, FILE *out)
{
	struct render_job *j = (struct render_job *)q;

	if (j->label)
		write_values(j, s, out);
	else
		write_profile(j, s, out);
}

static void send_answer(struct query_job *q)
{
	query_job_send(q, ((struct render_job *)q)->is_dot ? "text/plain; charset=utf-8"
							   : "application/json");
}

static void free_job(struct query_job *q)
{
	struct render_job *j = (struct render_job *)q;

	free(j->left.type);
	free(j->right.type);
	query_job_done(q);
	free(j);
}

static struct render_job *new_job(void *ctx, struct http_request *r)
{
	struct render_job *j = mem_alloc(sizeof(*j));

	j->q = (struct query_job){.server = ctx,
				  .request = r,
				  .read = read_store,
				  .finish = query_job_pack,
				  .answer = send_answer,
				  .free = free_job};
	return j;
}

void pyroscope_render(void *ctx, struct http_request *r)
{
	struct render_job *j = new_job(ctx, r);

	j->group_by = query_job_given(&j->q, "groupBy");
	query_job_begin(&j->q,
			parse_side(j, "query", "from", "until", &j->right) && parse_format(j));
}

void pyroscope_render_diff(void *ctx, struct http_request *r)
{
	struct render_job *j = new_job(ctx, r);

	j->is_diff = true;
	bool ok = parse_side(j, "leftQuery", "leftFrom", "leftUntil", &j->left) &&
		  parse_side(j, "rightQuery", "rightFrom", "rightUntil", &j->right) &&
		  parse_format(j);
	query_job_begin(&j->q, ok && (!j->is_dot ||
				      query_job_wrong(&j->q, 400, "a difference has no dot")));
}

/* Of all there is in the last hour, unless a query or a range is given. */
void pyroscope_label_values(void *ctx, struct http_request *r)
{
	struct render_job *j = new_job(ctx, r);
	struct timerange_error err;

	j->label = query_job_given(&j->q, "label");
	if (!j->label) {
		query_job_begin(&j->q,
				query_job_wrong(&j->q, 400, "the parameter label is missing"));
		return;
	}
	if (query_job_given(&j->q, "query")) {
		query_job_begin(&j->q, parse_side(j, "query", "from", "until", &j->right));
		return;
	}
	j->right.type = mem_strdup("");
	j->right.selector = "";
	query_job_begin(&j->q,
			timerange_parse(query_job_given(&j->q, "from"),
					query_job_given(&j->q, "until"), clock_ms(CLOCK_REALTIME),
					&j->right.range, &err) == 0 ||
				query_job_wrong(&j->q, 400, "%s", err.text));
}
