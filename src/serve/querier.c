/*
 * querier: the calls of Grafana's Pyroscope data source and of Profiles Drilldown.
 */
#include "base/clock.h"
#include "base/mem.h"
#include "base/string_pool.h"
#include "serve/querier_internal.h"

#include <math.h>

#define DEFAULT_MS 3600000ull

void querier_range(int64_t start, int64_t end, uint64_t *ret_from_ms, uint64_t *ret_to_ms)
{
	uint64_t to = end > 0 ? (uint64_t)end : clock_ms(CLOCK_REALTIME);
	uint64_t from = start > 0 ? (uint64_t)start : to - MIN(to, DEFAULT_MS);

	*ret_from_ms = from;
	*ret_to_ms = MAX(to, from + 1);
}

/* ---- types --------------------------------------------------------------------------------- */

static void profile_types(struct connect_call *c, struct store *s)
{
	const Querier__ProfileTypesRequest *r = (const Querier__ProfileTypesRequest *)c->request;
	Querier__ProfileTypesResponse answer = QUERIER__PROFILE_TYPES_RESPONSE__INIT;
	CLEANUP(arena_done) struct arena a = {};
	CLEANUP(freep) struct catalog_id *ids = NULL;
	uint64_t from, to;
	uint32_t count;

	querier_range(r->start, r->end, &from, &to);
	if (!query_job_went_well(&c->q,
				 catalog_types(s, from, to, &ids, &count, &c->q.store_error)))
		return;
	Querier__ProfileType *types = CONNECT_LIST(&a, Querier__ProfileType, count);
	answer.profile_types = CONNECT_LIST(&a, Querier__ProfileType *, count);
	for (uint32_t i = 0; i < count; i++) {
		querier__profile_type__init(&types[i]);
		types[i].id = ids[i].id;
		types[i].name = ids[i].parts[0];
		types[i].sample_type = ids[i].parts[1];
		types[i].sample_unit = ids[i].parts[2];
		types[i].period_type = ids[i].parts[3];
		types[i].period_unit = ids[i].parts[4];
		answer.profile_types[answer.n_profile_types++] = &types[i];
	}
	connect_answer(c, &answer.base);
}

/* ---- names of labels, and values ----------------------------------------------------------- */

/* Calls fn for each selector of a list, of all types that it accepts; none is all there is. */
typedef bool selection_fn(struct connect_call *c, struct store *s,
			  const struct catalog_selection *of, void *ctx);

static bool each_selection(struct connect_call *c, struct store *s, char *const *matchers,
			   size_t count, int64_t start, int64_t end, selection_fn *fn, void *ctx)
{
	uint64_t from, to;
	bool ok = true;

	querier_range(start, end, &from, &to);
	for (size_t i = 0; ok && i < MAX(count, (size_t)1); i++) {
		CLEANUP(catalog_selection_done) struct catalog_selection of = {};
		ok = catalog_select(&c->q, s, i < count ? matchers[i] : "", NULL, from, to, NULL,
				    &of) &&
		     fn(c, s, &of, ctx);
	}
	return ok;
}

static int word_order(const void *a, const void *b)
{
	return strcmp(*(char *const *)a, *(char *const *)b);
}

/* What a pool holds, in order; borrowed from it. */
static char **sorted(const struct string_pool *pool, struct arena *a, size_t *ret_count)
{
	size_t count = pool->count ? pool->count - 1 : 0;
	char **words = CONNECT_LIST(a, char *, count);

	for (size_t i = 0; i < count; i++)
		words[i] = (char *)(uintptr_t)string_pool_get(pool, (uint32_t)i + 1);
	qsort(words, count, sizeof(*words), word_order);
	*ret_count = count;
	return words;
}

static void answer_names(struct connect_call *c, const struct string_pool *pool)
{
	Querier__NamesResponse answer = QUERIER__NAMES_RESPONSE__INIT;
	CLEANUP(arena_done) struct arena a = {};

	answer.names = sorted(pool, &a, &answer.n_names);
	connect_answer(c, &answer.base);
}

static bool add_labels(struct connect_call *c, struct store *s, const struct catalog_selection *of,
		       void *ctx)
{
	return catalog_labels(&c->q, s, of, ctx);
}

/* With those that only the catalog knows, if there is anything. */
static void add_made_up(struct string_pool *pool)
{
	static const char *const labels[] = {CATALOG_SERVICE, CATALOG_TYPE};

	for (size_t i = 0; i < ARRAY_SIZE(labels) && pool->count; i++)
		string_pool_put(pool, labels[i], strlen(labels[i]));
}

static void label_names(struct connect_call *c, struct store *s)
{
	const Querier__LabelNamesRequest *r = (const Querier__LabelNamesRequest *)c->request;
	CLEANUP(string_pool_done) struct string_pool pool = {};

	if (!each_selection(c, s, r->matchers, r->n_matchers, r->start, r->end, add_labels, &pool))
		return;
	add_made_up(&pool);
	answer_names(c, &pool);
}

struct value_list {
	const char *label;
	struct string_pool pool;
};

static bool add_values(struct connect_call *c, struct store *s, const struct catalog_selection *of,
		       void *ctx)
{
	CLEANUP(catalog_lines_done) struct catalog_lines lines = {};
	struct value_list *to = ctx;

	if (!catalog_lines(&c->q, s, of, &to->label, 1, 0, &lines))
		return false;
	for (uint32_t i = 0; i < lines.count; i++)
		string_pool_put(&to->pool, lines.all[i].key, strcspn(lines.all[i].key, "\n"));
	return true;
}

static void label_values(struct connect_call *c, struct store *s)
{
	const Querier__LabelValuesRequest *r = (const Querier__LabelValuesRequest *)c->request;
	struct value_list list = {.label = r->name};

	if (!*r->name)
		query_job_wrong(&c->q, 400, "the name of the label is missing");
	else if (each_selection(c, s, r->matchers, r->n_matchers, r->start, r->end, add_values,
				&list))
		answer_names(c, &list.pool);
	string_pool_done(&list.pool);
}

/* ---- series -------------------------------------------------------------------------------- */

struct series_list {
	const char *const *by;
	size_t by_count;
	struct string_pool keys; /* of what is in it */
	struct arena arena;
};

/* The labels of a key, but for the empty ones: a series does not have these. */
static void set_labels(const char *key, const char *const *by, size_t by_count, struct arena *a,
		       size_t *ret_count, Querier__LabelPair ***ret)
{
	Querier__LabelPair *pairs = CONNECT_LIST(a, Querier__LabelPair, by_count);

	*ret = CONNECT_LIST(a, Querier__LabelPair *, by_count);
	*ret_count = 0;
	for (size_t i = 0; i < by_count; i++) {
		size_t len = strcspn(key, "\n");
		Querier__LabelPair *to = &pairs[*ret_count];
		if (len) {
			querier__label_pair__init(to);
			to->name = (char *)(uintptr_t)by[i];
			to->value = arena_strndup(a, key, len);
			(*ret)[(*ret_count)++] = to;
		}
		key += len + 1;
	}
}

static bool add_series(struct connect_call *c, struct store *s, const struct catalog_selection *of,
		       void *ctx)
{
	CLEANUP(catalog_lines_done) struct catalog_lines lines = {};
	struct series_list *to = ctx;

	if (!catalog_lines(&c->q, s, of, to->by, to->by_count, 0, &lines))
		return false;
	for (uint32_t i = 0; i < lines.count; i++)
		string_pool_put(&to->keys, lines.all[i].key, strlen(lines.all[i].key));
	return true;
}

static void answer_series(struct connect_call *c, struct series_list *list)
{
	Querier__SeriesResponse answer = QUERIER__SERIES_RESPONSE__INIT;
	struct arena *a = &list->arena;
	size_t count;
	char **keys = sorted(&list->keys, a, &count);
	Querier__Labels *sets = CONNECT_LIST(a, Querier__Labels, count);

	answer.labels_set = CONNECT_LIST(a, Querier__Labels *, count);
	answer.n_labels_set = count;
	for (size_t i = 0; i < count; i++) {
		querier__labels__init(&sets[i]);
		set_labels(keys[i], list->by, list->by_count, a, &sets[i].n_labels,
			   &sets[i].labels);
		answer.labels_set[i] = &sets[i];
	}
	connect_answer(c, &answer.base);
}

static void series(struct connect_call *c, struct store *s)
{
	const Querier__SeriesRequest *r = (const Querier__SeriesRequest *)c->request;
	struct series_list list = {.by = (const char *const *)r->label_names,
				   .by_count = r->n_label_names};
	CLEANUP(string_pool_done) struct string_pool labels = {};
	bool ok = true;

	if (!list.by_count) {
		ok = each_selection(c, s, r->matchers, r->n_matchers, r->start, r->end, add_labels,
				    &labels);
		add_made_up(&labels);
		list.by = (const char *const *)sorted(&labels, &list.arena, &list.by_count);
		list.by_count = MIN(list.by_count, (size_t)CATALOG_BY_MAX);
	}
	if (ok &&
	    each_selection(c, s, r->matchers, r->n_matchers, r->start, r->end, add_series, &list))
		answer_series(c, &list);
	string_pool_done(&list.keys);
	arena_done(&list.arena);
}

/* ---- lines --------------------------------------------------------------------------------- */

static int line_order(const void *a, const void *b)
{
	const struct querier_line *x = a, *y = b;

	return x->total != y->total ? (x->total < y->total) - (x->total > y->total)
				    : strcmp(x->key, y->key);
}

/* Divides each value of the store's steps among the steps that it is in. */
static void spread(const struct catalog_lines *from, const struct catalog_line *line,
		   const struct querier_lines *to, double *values)
{
	for (uint32_t i = 0; i < to->steps; i++)
		values[i] = NAN;
	for (uint32_t i = 0; i < from->steps; i++) {
		uint64_t at = from->start_ms + i * from->step_ms, end = at + from->step_ms;
		if (!from->covered[i])
			continue;
		while (at < end) {
			uint64_t step = at < to->start_ms ? 0 : (at - to->start_ms) / to->step_ms;
			uint64_t stop = MIN(end, to->start_ms + (step + 1) * to->step_ms);
			if (step >= to->steps)
				break;
			values[step] = (isnan(values[step]) ? 0 : values[step]) +
				       (double)line->values[i] * (double)(stop - at) /
					       (double)from->step_ms;
			at = stop;
		}
	}
}

bool querier_lines(struct query_job *job, struct store *s, const struct catalog_selection *c,
		   const char *const *by, size_t by_count, double step_s, struct querier_lines *ret)
{
	CLEANUP(catalog_lines_done) struct catalog_lines lines = {};
	const struct store_query *q = c->count ? &c->all[0].q : NULL;

	*ret = (struct querier_lines){};
	ret->step_ms = step_s > 0 && step_s < 1e9 ? (uint64_t)(step_s * 1000) : 0;
	ret->step_ms = MAX(ret->step_ms, WINDOW_MS);
	if (!q)
		return true;
	uint64_t length = q->to_ms - q->from_ms;
	if (length / ret->step_ms >= QUERIER_STEPS_MAX)
		return query_job_wrong(job, 400,
				       "there would be more than %d steps: ask for a larger step",
				       QUERIER_STEPS_MAX);
	/* As fine as can be without a line of too many steps, and no finer than needed. */
	uint64_t fine = ret->step_ms % WINDOW_MS == 0
				? ret->step_ms
				: (length / QUERIER_STEPS_MAX / WINDOW_MS + 1) * WINDOW_MS;
	if (!catalog_lines(job, s, c, by, by_count, fine, &lines))
		return false;
	ret->start_ms = q->from_ms / ret->step_ms * ret->step_ms;
	ret->steps = (uint32_t)((q->to_ms - 1 - ret->start_ms) / ret->step_ms + 1);
	ret->all = mem_alloc_array(lines.count + 1, sizeof(*ret->all));
	for (; ret->count < lines.count; ret->count++) {
		struct querier_line *to = &ret->all[ret->count];
		to->key = mem_strdup(lines.all[ret->count].key);
		to->total = (double)lines.all[ret->count].total;
		to->values = mem_alloc_array(ret->steps, sizeof(*to->values));
		spread(&lines, &lines.all[ret->count], ret, to->values);
	}
	qsort(ret->all, ret->count, sizeof(*ret->all), line_order);
	return true;
}

void querier_lines_done(struct querier_lines *l)
{
	for (uint32_t i = 0; i < l->count; i++) {
		free(l->all[i].key);
		free(l->all[i].values);
	}
	free(l->all);
	*l = (struct querier_lines){};
}

/* An average is of the windows of a step. */
static void set_points(const struct querier_lines *lines, const struct querier_line *line,
		       bool average, struct arena *a, Querier__Series *to)
{
	Querier__Point *points = CONNECT_LIST(a, Querier__Point, lines->steps);

	to->points = CONNECT_LIST(a, Querier__Point *, lines->steps);
	for (uint32_t i = 0; i < lines->steps; i++) {
		Querier__Point *p = &points[to->n_points];
		if (isnan(line->values[i]))
			continue;
		querier__point__init(p);
		p->value = average ? line->values[i] * WINDOW_MS / (double)lines->step_ms
				   : line->values[i];
		p->timestamp = (int64_t)(lines->start_ms + i * lines->step_ms);
		to->points[to->n_points++] = p;
	}
}

static void select_series(struct connect_call *c, struct store *s)
{
	const Querier__SelectSeriesRequest *r = (const Querier__SelectSeriesRequest *)c->request;
	Querier__SelectSeriesResponse answer = QUERIER__SELECT_SERIES_RESPONSE__INIT;
	CLEANUP(catalog_selection_done) struct catalog_selection of = {};
	CLEANUP(querier_lines_done) struct querier_lines lines = {};
	CLEANUP(arena_done) struct arena a = {};
	const char *const *by = (const char *const *)r->group_by;
	uint64_t from, to;

	querier_range(r->start, r->end, &from, &to);
	if (!catalog_select(&c->q, s, r->label_selector, r->profile_typeid, from, to, NULL, &of) ||
	    !querier_lines(&c->q, s, &of, by, r->n_group_by, r->step, &lines))
		return;
	uint32_t count = r->limit > 0 ? (uint32_t)MIN(r->limit, lines.count) : lines.count;
	Querier__Series *all = CONNECT_LIST(&a, Querier__Series, count);
	answer.series = CONNECT_LIST(&a, Querier__Series *, count);
	answer.n_series = count;
	for (uint32_t i = 0; i < count; i++) {
		querier__series__init(&all[i]);
		set_labels(lines.all[i].key, by, r->n_group_by, &a, &all[i].n_labels,
			   &all[i].labels);
		set_points(&lines, &lines.all[i],
			   r->aggregation ==
				   QUERIER__AGGREGATION__TIME_SERIES_AGGREGATION_TYPE_AVERAGE,
			   &a, &all[i]);
		answer.series[i] = &all[i];
	}
	connect_answer(c, &answer.base);
}

/* ---- what there is ------------------------------------------------------------------------- */

static void profile_stats(struct connect_call *c, struct store *s)
{
	Querier__GetProfileStatsResponse answer = QUERIER__GET_PROFILE_STATS_RESPONSE__INIT;
	struct store_stats stats;

	store_stats(s, &stats);
	answer.data_ingested = stats.last_ms != 0;
	answer.oldest_profile_time = (int64_t)stats.first_ms;
	answer.newest_profile_time = (int64_t)stats.last_ms;
	connect_answer(c, &answer.base);
}

/* What a query has to read: it is, once. */
static void analyze_query(struct connect_call *c, struct store *s)
{
	const Querier__AnalyzeQueryRequest *r = (const Querier__AnalyzeQueryRequest *)c->request;
	Querier__AnalyzeQueryResponse answer = QUERIER__ANALYZE_QUERY_RESPONSE__INIT;
	Querier__QueryScope scope = QUERIER__QUERY_SCOPE__INIT, *scopes[] = {&scope};
	Querier__QueryImpact impact = QUERIER__QUERY_IMPACT__INIT;
	CLEANUP(catalog_selection_done) struct catalog_selection of = {};
	CLEANUP(catalog_lines_done) struct catalog_lines lines = {};
	CLEANUP(string_pool_done) struct string_pool labels = {};
	CLEANUP(arena_done) struct arena a = {};
	struct store_answer sum;
	size_t by_count, type_len = strcspn(r->query, "{");
	uint64_t from, to;

	CLEANUP(freep) char *type = mem_strndup(r->query, type_len);
	querier_range(r->start, r->end, &from, &to);
	if (!catalog_select(&c->q, s, r->query + type_len, *type ? type : NULL, from, to, NULL,
			    &of) ||
	    !catalog_labels(&c->q, s, &of, &labels))
		return;
	char **by = sorted(&labels, &a, &by_count);
	if (!catalog_lines(&c->q, s, &of, (const char *const *)by,
			   MIN(by_count, (size_t)CATALOG_BY_MAX), 0, &lines))
		return;
	CLEANUP(profile_freep) struct profile *p = catalog_sum(&c->q, s, &of, NULL, 0, &sum);
	if (!p)
		return;
	scope.component_type = (char *)(uintptr_t) "Store";
	scope.component_count = 1;
	scope.block_count = sum.files;
	scope.series_count = impact.total_queried_series = lines.count;
	scope.profile_count = sum.windows;
	scope.sample_count = sum.samples;
	scope.profile_bytes = impact.total_bytes_in_time_range = sum.bytes;
	answer.query_impact = &impact;
	answer.query_scopes = scopes;
	answer.n_query_scopes = 1;
	connect_answer(c, &answer.base);
}

static const struct connect_method methods[] = {
	{"ProfileTypes", &querier__profile_types_request__descriptor, profile_types},
	{"LabelNames", &querier__label_names_request__descriptor, label_names},
	{"LabelValues", &querier__label_values_request__descriptor, label_values},
	{"Series", &querier__series_request__descriptor, series},
	{"SelectSeries", &querier__select_series_request__descriptor, select_series},
	{"SelectMergeStacktraces", &querier__select_merge_stacktraces_request__descriptor,
	 querier_stacktraces},
	{"SelectMergeSpanProfile", &querier__select_merge_span_profile_request__descriptor,
	 querier_span_profile},
	{"SelectMergeProfile", &querier__select_merge_profile_request__descriptor,
	 querier_merge_profile},
	{"Diff", &querier__diff_request__descriptor, querier_diff},
	{"GetProfileStats", &querier__get_profile_stats_request__descriptor, profile_stats},
	{"AnalyzeQuery", &querier__analyze_query_request__descriptor, analyze_query},
	{},
};

void querier_call(void *ctx, struct http_request *r)
{
	connect_start(ctx, r, methods, http_star(r));
}
