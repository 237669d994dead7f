/*
 * api: the routes that read the store. What is asked is parsed in the loop, where a wrong request
 * is answered at once; the work is a job.
 */
#include <errno.h>
#include <inttypes.h>
#define XXH_INLINE_ALL
#include <xxhash.h>

#include "base/clock.h"
#include "base/duration.h"
#include "base/mem.h"
#include "profile/snapshot.h"
#include "query/callers.h"
#include "query/computed.h"
#include "query/selector.h"
#include "query/timerange.h"
#include "render/escape.h"
#include "render/findings.h"
#include "render/render.h"
#include "serve/query_job.h"

#define KEEP_MAX      16
#define NODES_DEFAULT 20000 /* of format=tree */
#define NODES_MAX     1000000
#define TABLE_DEFAULT 20000      /* functions of format=tree, those of nodes included */
#define STACKS_MAX    (4u << 20) /* distinct nodes of an answer; more are cut, and counted */
#define NAMES_MAX     5000
#define STEPS_DEFAULT 300
#define STEPS_MAX     11000
#define LINES_DEFAULT 8
#define LINES_MAX     100
#define HEAT_MAX_MS   600000
#define HEAT_WHOLE_MS (12 * 3600000ull) /* of types without times of samples */
#define ROWS          (1000 / WINDOW_STEP_MS)
#define LATE_MS       60000 /* windows may come so long after their end */

struct ask {              /* one selector and range */
	const char *text; /* the selector's, borrowed from the request; NULL: none was given */
	struct selector *selector;
	struct store_query query; /* type and matchers are the selector's, once that is resolved */
	struct store_answer answer;
};

struct api_job {
	struct query_job q;
	void (*work)(struct api_job *a, struct store *s, FILE *out);
	struct ask ask, base;
	bool is_diff;
	/* Borrowed from the request. */
	const char *callers, *callees;
	char *keep_words; /* owned: what keep points into */
	const char *keep[KEEP_MAX + 1];
	size_t keep_count;
	const struct renderer *renderer; /* NULL: the whole profile */
	struct render_options options;
	enum store_names_of names;
	uint64_t max;
	uint64_t first_row, last_row; /* of an exact query: of each second only these steps */
	bool is_over;                 /* nothing more will come into its ranges */
	/* The answer. */
	char etag[24];
};

/* ---- what is asked ------------------------------------------------------------------------- */

static const char *given(const struct api_job *a, const char *name)
{
	return query_job_given(&a->q, name);
}

static bool wrong(struct api_job *a, const char *text)
{
	return query_job_wrong(&a->q, 400, "%s", text);
}

static bool number(struct api_job *a, const char *name, uint64_t least, uint64_t most,
		   uint64_t fallback, uint64_t *ret)
{
	return query_job_number(&a->q, name, least, most, fallback, ret);
}

static bool parse_selector(struct api_job *a, const char *text, struct ask *ask)
{
	struct selector_error err = {};

	ask->text = text;
	return selector_parse(text ? text : "cpu", &ask->selector, &err) == 0 || wrong(a, err.text);
}

static bool parse_range(struct api_job *a, const char *from, const char *to, struct ask *ask)
{
	struct timerange_error err;
	struct timerange range;

	if (timerange_parse(given(a, from), given(a, to), clock_ms(CLOCK_REALTIME), &range, &err) !=
	    0)
		return wrong(a, err.text);
	ask->query.from_ms = range.from_ms;
	ask->query.to_ms = range.to_ms;
	return true;
}

/* Samples of a trace, or of a span of one. */
static bool parse_spans(struct api_job *a, struct ask *ask)
{
	const char *trace = given(a, "trace"), *span = given(a, "span");

	if (trace && !selector_require_trace(ask->selector, trace))
		return wrong(a, SELECTOR_TRACE_HELP);
	return !span || selector_require_span(ask->selector, span) || wrong(a, SELECTOR_SPAN_HELP);
}

static bool parse_ask(struct api_job *a)
{
	return parse_selector(a, given(a, "query"), &a->ask) &&
	       parse_range(a, "from", "to", &a->ask) && parse_spans(a, &a->ask);
}

/* What it is compared with: unless told, the same for as long just before. */
static bool parse_base(struct api_job *a)
{
	const char *query = given(a, "base_query");
	const struct store_query *q = &a->ask.query;

	a->is_diff = true;
	if (!parse_selector(a, query ? query : given(a, "query"), &a->base))
		return false;
	if (given(a, "base_from") || given(a, "base_to"))
		return parse_range(a, "base_from", "base_to", &a->base);
	a->base.query.from_ms = q->from_ms;
	a->base.query.to_ms = q->to_ms;
	if (!query) {
		/* A range takes in the window that it begins in: the base ends before that. */
		a->base.query.to_ms = q->from_ms / WINDOW_MS * WINDOW_MS;
		a->base.query.from_ms -= MIN(q->to_ms - q->from_ms, q->from_ms);
	}
	return true;
}

static bool add_keep(struct api_job *a, const char *label)
{
	for (size_t i = 0; i < a->keep_count; i++)
		if (strcmp(a->keep[i], label) == 0)
			return true;
	if (a->keep_count == KEEP_MAX)
		return wrong(a, "keep has too many labels");
	a->keep[a->keep_count++] = label;
	return true;
}

static bool parse_keep(struct api_job *a)
{
	const char *keep = given(a, "keep"), *by = given(a, "by");
	char *save;

	a->options.tree.by = by;
	if (by && !add_keep(a, by))
		return false;
	if (by && strcmp(by, "pid") == 0 && !add_keep(a, "comm")) /* its name */
		return false;
	if (!keep)
		return true;
	a->keep_words = mem_strdup(keep);
	for (char *l = strtok_r(a->keep_words, ",", &save); l; l = strtok_r(NULL, ",", &save))
		if (!add_keep(a, l))
			return false;
	return true;
}

/* "1": the range is exact to 20 ms; "A-B": and of each second only the steps from A to B. */
static bool parse_slots(struct api_job *a)
{
	const char *text = given(a, "slots");
	unsigned first, last;
	int end = 0;

	a->last_row = ROWS - 1;
	if (!text)
		return true;
	a->ask.query.exact = a->base.query.exact = true;
	if (strcmp(text, "1") == 0)
		return true;
	if (sscanf(text, "%u-%u%n", &first, &last, &end) != 2 || text[end] || first > last ||
	    last >= ROWS)
		return wrong(a, "slots must be 1, or a range of the 50 steps of 20 ms in a second, "
				"such as 0-24");
	a->first_row = first;
	a->last_row = last;
	return a->ask.query.to_ms - a->ask.query.from_ms <= HEAT_MAX_MS ||
	       wrong(a, "with a range of slots, from and to may be at most 10 minutes apart");
}

static bool parse_format(struct api_job *a)
{
	const char *format = given(a, "format");
	uint64_t nodes, functions;

	a->callers = given(a, "callers");
	a->callees = given(a, "callees");
	if (a->callers && a->callees)
		return wrong(a, "callers and callees exclude each other");
	if (format && strcmp(format, "profile") == 0)
		return a->is_diff ? wrong(a, "format=profile cannot show a difference: request "
					     "each range by itself")
				  : true;
	/* Its own name for them, older than the format that is text. */
	bool is_tree = !format || strcmp(format, "tree") == 0;
	a->renderer = render_by_name(is_tree ? "columns" : format);
	if (!a->renderer) {
		char known[256] = "";
		for (const struct renderer *r = renderers; r->name; r++) {
			size_t n = strlen(known);
			snprintf(known + n, sizeof(known) - n, " %s,", r->name);
		}
		return query_job_wrong(&a->q, 400, "unknown format '%.40s'; use one of%s profile",
				       format, known);
	}
	is_tree = strcmp(a->renderer->name, "columns") == 0;
	if (!number(a, "max_nodes", 1, NODES_MAX, is_tree ? NODES_DEFAULT : 0, &nodes) ||
	    !number(a, "max_functions", 1, NODES_MAX, TABLE_DEFAULT, &functions))
		return false;
	a->options.counted = true;
	a->options.tree.column = TREE_VALUE;
	a->options.tree.max_nodes = (uint32_t)nodes;
	a->options.tree.max_functions = (uint32_t)functions;
	const char *normalised = given(a, "normalised");
	a->options.tree.normalised = normalised && strcmp(normalised, "0") != 0;
	const char *idle = given(a, "idle");
	a->options.tree.idle = idle && strcmp(idle, "0") != 0;
	return true;
}

/* ---- the work ------------------------------------------------------------------------------ */

/* Some steps of every second: each second is a range of its own. */
static int sum_rows(struct api_job *a, struct store *s, struct ask *ask, struct profile *p)
{
	uint64_t from_ms = ask->query.from_ms, to_ms = ask->query.to_ms;
	struct store_query q = ask->query;
	struct store_answer sum = {.from_ms = to_ms, .to_ms = from_ms};
	int r = 0;

	for (uint64_t second = from_ms / 1000 * 1000; !r && second < to_ms; second += 1000) {
		struct store_answer one = {};
		q.from_ms = MAX(second + a->first_row * WINDOW_STEP_MS, from_ms);
		q.to_ms = MIN(second + (a->last_row + 1) * WINDOW_STEP_MS, to_ms);
		if (q.from_ms >= q.to_ms)
			continue;
		r = computed_sum(s, &q, p, &one, &a->q.store_error);
		if (one.windows) { /* what is covered, to the second */
			sum.from_ms = MIN(sum.from_ms, MAX(second, from_ms));
			sum.to_ms = MIN(second + 1000, to_ms);
		}
		sum.samples += one.samples;
		sum.files += one.files;
		sum.bytes += one.bytes;
		sum.damaged = MAX(sum.damaged, one.damaged);
	}
	if (sum.from_ms >= sum.to_ms) { /* nothing is: as asked */
		sum.from_ms = from_ms;
		sum.to_ms = to_ms;
	}
	p->info.start_ns = sum.from_ms * 1000000;
	p->info.duration_ns = (sum.to_ms - sum.from_ms) * 1000000;
	p->info.lost = 0; /* is known of whole windows */
	ask->answer = sum;
	return r;
}

static int sum_range(struct api_job *a, struct store *s, struct ask *ask, struct profile *p)
{
	if (ask->query.exact && (a->first_row != 0 || a->last_row != ROWS - 1))
		return sum_rows(a, s, ask, p);
	return computed_sum(s, &ask->query, p, &ask->answer, &a->q.store_error);
}

static struct profile *sum(struct api_job *a, struct store *s, struct ask *ask)
{
	struct profile *p = profile_new();

	profile_set_stacks_max(p, STACKS_MAX);
	if (!query_job_went_well(&a->q, sum_range(a, s, ask, p))) {
		profile_free(p);
		return NULL;
	}
	if (a->callers || a->callees) {
		struct profile *cut = callers_new(p, a->callers ? a->callers : a->callees,
						  a->callers ? CALLERS_ALL : CALLERS_CALLEES);
		profile_free(p);
		p = cut;
	}
	return p;
}

/* Whose profile it is, for the formats that have a title. Caller frees; NULL: it has none. */
static char *find_subject(struct api_job *a, struct store *s)
{
	static const char *const host = "host";
	struct store_query q = a->ask.query;
	struct store_names hosts = {};
	struct store_error err;

	if (!a->renderer->has_title)
		return NULL;
	q.by = &host;
	q.by_count = 1;
	q.max = NAMES_MAX;
	if (computed_names(s, &q, STORE_VALUES, &hosts, &err) != 0) /* then the title is shorter */
		hosts = (struct store_names){};
	char *subject = selector_subject(a->ask.text, a->base.text, &hosts);
	store_names_done(&hosts);
	return subject;
}

static void work_query(struct api_job *a, struct store *s, FILE *out)
{
	CLEANUP(profile_freep) struct profile *p = sum(a, s, &a->ask);
	CLEANUP(profile_freep)
	struct profile *base = p && a->is_diff ? sum(a, s, &a->base) : NULL;

	if (!p || (a->is_diff && !base) || !job_goes_on(&a->q.job))
		return;
	if (!a->renderer) {
		struct pack whole = {};
		snapshot_write(p, &whole);
		fwrite(whole.bytes, 1, whole.len, out);
		pack_done(&whole);
		return;
	}
	a->options.tree.base = base;
	a->options.help.packages = a->q.server->packages;
	a->options.help.debuginfod = !a->q.server->debuginfod;
	CLEANUP(freep) char *subject = find_subject(a, s);
	a->options.subject = subject;
	int r = a->renderer->render(p, &a->options, out);
	if (r == -EOPNOTSUPP) {
		wrong(a, "that format has no way to show a difference");
	} else if (r == -ENODATA) {
		wrong(a, "that format needs lines of functions, which this profile does not have");
	} else if (r) {
		query_job_wrong(&a->q, 500, "the answer could not be written: %s", strerror(-r));
	}
}

static void write_names(FILE *out, const char *key, const struct store_names *n, uint64_t max)
{
	fprintf(out, "{\"%s\":[", key);
	for (uint32_t i = 0; i < n->count && i < max; i++) {
		fputs(i ? "," : "", out);
		escape_json(out, n->names[i], strlen(n->names[i]));
	}
	fprintf(out, "],\"cut\":%s}\n", n->cut || n->count > max ? "true" : "false");
}

static void work_names(struct api_job *a, struct store *s, FILE *out)
{
	static const char *const keys[] = {
		[STORE_TYPES] = "types", [STORE_LABELS] = "labels", [STORE_VALUES] = "values"};
	struct store_names n = {};

	if (!query_job_went_well(&a->q,
				 computed_names(s, &a->ask.query, a->names, &n, &a->q.store_error)))
		return;
	write_names(out, keys[a->names], &n, a->max);
	store_names_done(&n);
}

static void write_values(FILE *out, const uint64_t *values, uint32_t count)
{
	fputs("[", out);
	for (uint32_t i = 0; i < count; i++) {
		if (i)
			putc_unlocked(',', out);
		escape_number(out, values[i]);
	}
	fputs("]", out);
}

static void write_flags(FILE *out, const char *key, const uint8_t *flags, uint32_t count)
{
	fprintf(out, ",\"%s\":[", key);
	for (uint32_t i = 0; i < count; i++)
		fprintf(out, "%s%d", i ? "," : "", flags && flags[i] ? 1 : 0);
	fputs("]", out);
}

static void write_timeline(FILE *out, const struct store_timeline *t, uint64_t max)
{
	CLEANUP(freep) uint64_t *rest = mem_alloc_array((size_t)t->steps + 1, sizeof(*rest));
	uint64_t rest_total = 0;

	fprintf(out,
		"{\"start\":%" PRIu64 ",\"step\":%" PRIu64 ",\"steps\":%u,\"unit\":", t->start_ms,
		t->step_ms, t->steps);
	escape_json(out, t->unit, strlen(t->unit));
	fprintf(out, ",\"period\":%" PRIu64, t->period);
	write_flags(out, "covered", t->covered, t->steps);
	write_flags(out, "restarted", t->restarted, t->steps);
	fputs(",\n\"lines\":[", out);
	for (uint32_t l = 0; l < t->line_count; l++) {
		const struct store_line *line = &t->lines[l];
		if (l >= max) {
			rest_total += line->total;
			for (uint32_t i = 0; i < t->steps; i++)
				rest[i] += line->values[i];
			continue;
		}
		fputs(l ? ",\n{\"value\":" : "\n{\"value\":", out);
		escape_json(out, line->value, strlen(line->value));
		if (line->name) {
			fputs(",\"name\":", out);
			escape_json(out, line->name, strlen(line->name));
		}
		fprintf(out, ",\"total\":%" PRIu64 ",\"values\":", line->total);
		write_values(out, line->values, t->steps);
		fputs("}", out);
	}
	fprintf(out, "],\n\"rest\":{\"lines\":%" PRIu64 ",\"total\":%" PRIu64 ",\"values\":",
		t->line_count > max ? t->line_count - max : 0, rest_total);
	write_values(out, rest, t->steps);
	fputs("}}\n", out);
}

static void work_series(struct api_job *a, struct store *s, FILE *out)
{
	struct store_timeline t = {};

	if (!query_job_went_well(&a->q, computed_timeline(s, &a->ask.query, &t, &a->q.store_error)))
		return;
	write_timeline(out, &t, a->max);
	store_timeline_done(&t);
}

/* Of types that are sums over windows, a window is what a slot is of others. */
static void work_windows(struct api_job *a, struct store *s, FILE *out)
{
	struct store_timeline t = {};

	if (!query_job_went_well(&a->q, computed_windows(s, &a->ask.query, &t, &a->q.store_error)))
		return;
	fprintf(out, "{\"start\":%" PRIu64 ",\"step\":%" PRIu64 ",\"unit\":", t.start_ms,
		t.step_ms);
	escape_json(out, t.unit, strlen(t.unit));
	write_flags(out, "covered", t.covered, t.steps);
	fputs(",\"values\":", out);
	write_values(out, t.lines[0].values, t.steps);
	fputs("}\n", out);
	store_timeline_done(&t);
}

static void work_heatmap(struct api_job *a, struct store *s, FILE *out)
{
	struct store_heat h = {};

	if (!computed_has_times(a->ask.query.type)) {
		work_windows(a, s, out);
		return;
	}
	if (a->ask.query.to_ms - a->ask.query.from_ms > HEAT_MAX_MS) {
		wrong(a, "a heatmap is of at most 10 minutes");
		return;
	}
	if (!query_job_went_well(&a->q, store_heat(s, &a->ask.query, &h, &a->q.store_error)))
		return;
	fprintf(out, "{\"start\":%" PRIu64 ",\"step\":%d,\"period\":%" PRIu64 ",\"counts\":[",
		h.start_ms, WINDOW_STEP_MS, h.period);
	for (uint32_t i = 0; i < h.slots; i++) {
		if (i)
			putc_unlocked(',', out);
		escape_number(out, h.counts[i]);
	}
	fputs("]}\n", out);
	store_heat_done(&h);
}

static void work_findings(struct api_job *a, struct store *s, FILE *out)
{
	struct store_findings f = {};

	if (!query_job_went_well(&a->q, store_findings(s, &a->ask.query, &f, &a->q.store_error)))
		return;
	render_findings_json(&f, clock_ms(CLOCK_REALTIME), out);
	store_findings_done(&f);
}

/* ---- as a job ------------------------------------------------------------------------------ */

/*
 * A tag of what it says, so that who has it already gets only that word; packed, here on the
 * thread, unless it is (pprof), or small.
 */
static void finish_body(struct query_job *q)
{
	struct api_job *a = (struct api_job *)q;

	snprintf(a->etag, sizeof(a->etag), "W/\"%016" PRIx64 "\"",
		 (uint64_t)XXH3_64bits(q->body, q->len));
	bool binary =
		a->work == work_query && (!a->renderer || strcmp(a->renderer->name, "pprof") == 0);
	if (!binary)
		query_job_pack(q);
}

/* Whether a word alone is a type or a process depends on what is stored. Then the query is
 * complete. */
static bool resolve_selector(struct api_job *a, struct store *s, struct ask *ask)
{
	struct store_query *q = &ask->query;

	if (!ask->selector)
		return true;
	int r = selector_resolve_by(ask->selector, s, q->from_ms, q->to_ms, &a->q.store_error);
	if (r)
		return query_job_went_well(&a->q, r);
	selector_query(ask->selector, q);
	q->by = a->keep;
	q->by_count = a->keep_count;
	return true;
}

static void read_store(struct query_job *q, struct store *s, FILE *out)
{
	struct api_job *a = (struct api_job *)q;

	if (resolve_selector(a, s, &a->ask) && resolve_selector(a, s, &a->base))
		a->work(a, s, out);
}

static const char *content_type(const struct renderer *r)
{
	static const struct {
		const char *format, *type;
	} types[] = {
		{"svg", "image/svg+xml; charset=utf-8"}, {"html", "text/html; charset=utf-8"},
		{"folded", "text/plain; charset=utf-8"}, {"text", "text/plain; charset=utf-8"},
		{"top", "text/plain; charset=utf-8"},    {"pprof", "application/octet-stream"},
	};

	for (size_t i = 0; i < ARRAY_SIZE(types); i++)
		if (strcmp(types[i].format, r->name) == 0)
			return types[i].type;
	return "application/json";
}

static void free_job(struct query_job *q)
{
	struct api_job *a = (struct api_job *)q;

	selector_free(a->ask.selector);
	selector_free(a->base.selector);
	free(a->keep_words);
	query_job_done(q);
	free(a);
}

/* What every answer says of itself beside what it is: `headers` from `at` on. */
static void send_body(struct api_job *a, struct http_answer *answer, size_t at)
{
	const char *known = http_header(a->q.request, "If-None-Match");
	const struct {
		const char *name, *value;
	} more[] = {
		{"Content-Encoding", a->q.is_packed ? "gzip" : NULL},
		{"Vary", "Accept-Encoding"},
		/* Of what is over a copy may be kept, if one asks each time whether it still holds.
		 */
		{"ETag", a->is_over ? a->etag : NULL},
		{"Cache-Control", a->is_over ? "private, no-cache" : NULL},
	};

	for (size_t i = 0; i < ARRAY_SIZE(more); i++) {
		answer->headers[at + i].name = more[i].name;
		answer->headers[at + i].value = more[i].value;
	}
	answer->status = 200;
	answer->body = TAKE_PTR(a->q.body);
	answer->len = a->q.len;
	if (a->is_over && known && strstr(known, a->etag)) {
		answer->status = 304;
		free(answer->body);
		answer->body = NULL;
		answer->len = 0;
	}
	http_answer(a->q.request, answer);
}

static void answer_profile(struct api_job *a)
{
	struct http_answer answer = {
		.type = a->renderer ? content_type(a->renderer) : "application/octet-stream",
	};
	/* A picture that carries scripts has no business with the rest of this server. */
	const char *sandbox = "sandbox allow-scripts";
	const char *process = selector_is_process(a->ask.selector) ? "1" : NULL;

	query_job_headers(&a->q, &a->ask.answer, "X-Smolder-Damaged", a->ask.answer.damaged,
			  &answer);
	answer.headers[QUERY_JOB_HEADERS].name = "Content-Security-Policy";
	answer.headers[QUERY_JOB_HEADERS].value = sandbox;
	answer.headers[QUERY_JOB_HEADERS + 1].name = "X-Smolder-Process";
	answer.headers[QUERY_JOB_HEADERS + 1].value = process;
	answer.headers[QUERY_JOB_HEADERS + 2].name = "X-Smolder-Debuginfod";
	answer.headers[QUERY_JOB_HEADERS + 2].value = a->q.server->debuginfod ? "1" : NULL;
	send_body(a, &answer, QUERY_JOB_HEADERS + 3);
}

static void send_answer(struct query_job *q)
{
	struct api_job *a = (struct api_job *)q;

	if (a->work == work_query)
		answer_profile(a);
	else
		send_body(a, &(struct http_answer){.type = "application/json"}, 0);
}

static struct api_job *new_job(struct server *s, struct http_request *r,
			       void (*work)(struct api_job *, struct store *, FILE *))
{
	struct api_job *a = mem_alloc(sizeof(*a));

	a->q = (struct query_job){.server = s,
				  .request = r,
				  .read = read_store,
				  .finish = finish_body,
				  .answer = send_answer,
				  .free = free_job};
	a->work = work;
	return a;
}

/* Hands the job over, unless what was asked for is wrong. */
static void start(struct api_job *a, bool ok)
{
	a->is_over =
		MAX(a->ask.query.to_ms, a->base.query.to_ms) + LATE_MS < clock_ms(CLOCK_REALTIME);
	query_job_begin(&a->q, ok);
}

void api_query(void *ctx, struct http_request *r)
{
	struct api_job *a = new_job(ctx, r, work_query);

	start(a, parse_ask(a) && parse_slots(a) && parse_keep(a) && parse_format(a));
}

void api_diff(void *ctx, struct http_request *r)
{
	struct api_job *a = new_job(ctx, r, work_query);

	start(a,
	      parse_ask(a) && parse_base(a) && parse_slots(a) && parse_keep(a) && parse_format(a));
}

void api_types(void *ctx, struct http_request *r)
{
	struct api_job *a = new_job(ctx, r, work_names);

	a->names = STORE_TYPES;
	a->max = a->ask.query.max = NAMES_MAX;
	start(a, parse_ask(a));
}

void api_labels(void *ctx, struct http_request *r)
{
	struct api_job *a = new_job(ctx, r, work_names);

	a->names = STORE_LABELS;
	a->max = a->ask.query.max = NAMES_MAX;
	start(a, parse_ask(a));
}

void api_values(void *ctx, struct http_request *r)
{
	struct api_job *a = new_job(ctx, r, work_names);

	a->names = STORE_VALUES;
	a->keep[a->keep_count++] = http_star(r);
	a->ask.query.max = NAMES_MAX;
	start(a, number(a, "max", 1, NAMES_MAX, NAMES_MAX, &a->max) && parse_ask(a));
}

/* A step that people count in, for at most STEPS_DEFAULT of them. */
static uint64_t fitting_step(uint64_t length_ms)
{
	static const uint64_t seconds[] = {10,   30,   60,    120,   300,   600,
					   1800, 3600, 10800, 21600, 43200, 86400};
	size_t i = 0;

	while (i + 1 < ARRAY_SIZE(seconds) && length_ms / (seconds[i] * 1000) > STEPS_DEFAULT)
		i++;
	return seconds[i] * 1000;
}

static bool parse_step(struct api_job *a)
{
	const char *step = given(a, "step");
	struct store_query *q = &a->ask.query;
	uint64_t length = q->to_ms - q->from_ms;

	q->step_ms = fitting_step(length);
	if (step && duration_parse_ms(step, 0, &q->step_ms) != 0 &&
	    !number(a, "step", 1, UINT32_MAX, 0, &q->step_ms))
		return false;
	if (q->step_ms < WINDOW_MS)
		return wrong(a, "step is at least 10 s (10000, or 10s)");
	return length / q->step_ms <= STEPS_MAX || wrong(a, "there would be too many steps");
}

void api_series(void *ctx, struct http_request *r)
{
	struct api_job *a = new_job(ctx, r, work_series);
	const char *by = given(a, "by");

	if (by)
		a->keep[a->keep_count++] = by;
	start(a, parse_ask(a) && parse_step(a) &&
			 number(a, "max", 1, LINES_MAX, LINES_DEFAULT, &a->max));
}

void api_heatmap(void *ctx, struct http_request *r)
{
	struct api_job *a = new_job(ctx, r, work_heatmap);
	bool ok = parse_ask(a);

	/* Once its type is known, maybe less. */
	if (ok && a->ask.query.to_ms - a->ask.query.from_ms > HEAT_WHOLE_MS)
		ok = wrong(a, "a heatmap is of at most 10 minutes, or of 12 hours if its type has "
			      "no times of single samples");
	start(a, ok);
}

void api_findings(void *ctx, struct http_request *r)
{
	struct api_job *a = new_job(ctx, r, work_findings);

	start(a, parse_range(a, "from", "to", &a->ask));
}
