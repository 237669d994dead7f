/*
 * querier_profiles: the calls that sum up profiles: flame graphs, pprof, and two of them compared.
 */
#include "base/mem.h"
#include "render/pprof.pb-c.h"
#include "render/render.h"
#include "serve/gzip.h"
#include "serve/querier_internal.h"

#define SPANS_MAX 60 /* in a question */
#define SITE_MAX  1024
#define PPROF_MAX (1u << 30) /* bytes of an answer */

struct tree *querier_tree(const struct profile *p, const struct profile *base, int64_t max_nodes)
{
	struct tree_options o = {
		.column = TREE_VALUE,
		.base = base,
		.idle = true,
		.max_nodes = max_nodes <= 0 ? QUERIER_NODES_DEFAULT
					    : (uint32_t)MIN(max_nodes, QUERIER_NODES_MAX),
	};

	return tree_new(p, &o);
}

/* The names of a call site; borrowed from the request, the list itself from malloc. */
static const char **site_of(const Querier__StackTraceSelector *of, size_t *ret_len)
{
	*ret_len = of ? MIN(of->n_call_site, (size_t)SITE_MAX) : 0;
	const char **names = mem_alloc_array(*ret_len + 1, sizeof(*names));

	for (size_t i = 0; i < *ret_len; i++)
		names[i] = of->call_site[i]->name;
	return names;
}

static struct profile *sum(struct connect_call *c, struct store *s, const char *selector,
			   const char *type, int64_t start, int64_t end,
			   const Querier__StackTraceSelector *site, const struct matcher *more)
{
	CLEANUP(catalog_selection_done) struct catalog_selection of = {};
	struct store_answer answer;
	uint64_t from, to;
	size_t site_len;
	CLEANUP(freep) const char **names = site_of(site, &site_len);

	querier_range(start, end, &from, &to);
	if (!catalog_select(&c->q, s, selector, type, from, to, more, &of))
		return NULL;
	return catalog_sum(&c->q, s, &of, names, site_len, &answer);
}

static struct profile *sum_of(struct connect_call *c, struct store *s,
			      const Querier__SelectMergeStacktracesRequest *r)
{
	return sum(c, s, r->label_selector, r->profile_typeid, r->start, r->end,
		   r->stack_trace_selector, NULL);
}

/* ---- flame graphs -------------------------------------------------------------------------- */

static Querier__Level **levels_of(const struct flamebearer *f, struct arena *a)
{
	Querier__Level *levels = CONNECT_LIST(a, Querier__Level, f->level_count);
	Querier__Level **ret = CONNECT_LIST(a, Querier__Level *, f->level_count);

	for (size_t i = 0; i < f->level_count; i++) {
		querier__level__init(&levels[i]);
		levels[i].values = f->levels[i].values;
		levels[i].n_values = f->levels[i].count;
		ret[i] = &levels[i];
	}
	return ret;
}

static void answer_flame(struct connect_call *c, const struct profile *p, int64_t max_nodes)
{
	Querier__FlameGraphResponse answer = QUERIER__FLAME_GRAPH_RESPONSE__INIT;
	Querier__FlameGraph flame = QUERIER__FLAME_GRAPH__INIT;
	CLEANUP(arena_done) struct arena a = {};
	CLEANUP(flamebearer_done) struct flamebearer f = {};
	CLEANUP(tree_freep) struct tree *t = querier_tree(p, NULL, max_nodes);

	flamebearer_init(&f, t);
	flame.names = (char **)(uintptr_t)f.names;
	flame.n_names = f.name_count;
	flame.levels = levels_of(&f, &a);
	flame.n_levels = f.level_count;
	flame.total = f.total;
	flame.max_self = f.max_self;
	answer.flamegraph = &flame;
	connect_answer(c, &answer.base);
}

void querier_stacktraces(struct connect_call *c, struct store *s)
{
	const Querier__SelectMergeStacktracesRequest *r =
		(const Querier__SelectMergeStacktracesRequest *)c->request;
	CLEANUP(profile_freep) struct profile *p = sum_of(c, s, r);

	if (p)
		answer_flame(c, p, r->max_nodes);
}

/* "a|b", of what can only be ids. False after setting the error. */
static bool span_matcher(struct connect_call *c, char *const *spans, size_t count,
			 struct matcher *ret)
{
	char pattern[SPANS_MAX * 17 + 2] = "-"; /* no span has this id */
	struct matcher_error err;
	size_t len = 0;

	if (count > SPANS_MAX)
		return query_job_wrong(&c->q, 400, "there can be at most %d spans in a question",
				       SPANS_MAX);
	for (size_t i = 0; i < count; i++) {
		if (strlen(spans[i]) != 16 ||
		    strspn(spans[i], "0123456789abcdefABCDEF") != strlen(spans[i]))
			return query_job_wrong(&c->q, 400,
					       "a span's id has 16 hexadecimal digits: %.40s",
					       spans[i]);
		len += (size_t)snprintf(pattern + len, sizeof(pattern) - len, "%s%s", i ? "|" : "",
					spans[i]);
	}
	return matcher_init(ret, "span_id", MATCHER_REGEX, pattern, &err) == 0 ||
	       query_job_wrong(&c->q, 400, "%s", err.text);
}

void querier_span_profile(struct connect_call *c, struct store *s)
{
	const Querier__SelectMergeSpanProfileRequest *r =
		(const Querier__SelectMergeSpanProfileRequest *)c->request;
	struct matcher spans;

	if (!span_matcher(c, r->span_selector, r->n_span_selector, &spans))
		return;
	CLEANUP(profile_freep)
	struct profile *p =
		sum(c, s, r->label_selector, r->profile_typeid, r->start, r->end, NULL, &spans);
	matcher_done(&spans);
	if (p)
		answer_flame(c, p, r->max_nodes);
}

void querier_diff(struct connect_call *c, struct store *s)
{
	const Querier__DiffRequest *r = (const Querier__DiffRequest *)c->request;
	Querier__DiffResponse answer = QUERIER__DIFF_RESPONSE__INIT;
	Querier__FlameGraphDiff flame = QUERIER__FLAME_GRAPH_DIFF__INIT;
	CLEANUP(arena_done) struct arena a = {};

	if (!r->left || !r->right) {
		query_job_wrong(&c->q, 400, "left or right is missing");
		return;
	}
	CLEANUP(profile_freep) struct profile *left = sum_of(c, s, r->left);
	CLEANUP(profile_freep) struct profile *right = left ? sum_of(c, s, r->right) : NULL;
	if (!right)
		return;
	CLEANUP(flamebearer_done) struct flamebearer f = {};
	CLEANUP(tree_freep)
	struct tree *t = querier_tree(right, left, MAX(r->left->max_nodes, r->right->max_nodes));
	flamebearer_init(&f, t);
	flame.names = (char **)(uintptr_t)f.names;
	flame.n_names = f.name_count;
	flame.levels = levels_of(&f, &a);
	flame.n_levels = f.level_count;
	flame.total = f.total;
	flame.max_self = f.max_self;
	flame.leftticks = f.left_total;
	flame.rightticks = f.right_total;
	answer.flamegraph = &flame;
	connect_answer(c, &answer.base);
}

/* ---- pprof --------------------------------------------------------------------------------- */

/*
 * Pyroscope's has one sample type, the one that was asked for; ours has how often it was seen
 * before it.
 */
static void keep_value(Pprof__Profile *p)
{
	if (p->n_sample_type < 2)
		return;
	Pprof__ValueType *count = p->sample_type[0];
	p->sample_type[0] = p->sample_type[p->n_sample_type - 1];
	p->sample_type[p->n_sample_type - 1] = count;
	size_t left_out = p->n_sample_type - 1;
	for (size_t i = 0; i < p->n_sample; i++) {
		Pprof__Sample *s = p->sample[i];
		s->value[0] = s->value[left_out];
		s->n_value = 1;
	}
	for (; p->n_sample_type > 1; p->n_sample_type--)
		protobuf_c_message_free_unpacked(&p->sample_type[p->n_sample_type - 1]->base, NULL);
}

/* The profile as the message of a pprof; NULL after setting the error. Caller frees. */
static Pprof__Profile *message_of(struct connect_call *c, const struct profile *p)
{
	CLEANUP(freep) char *packed = NULL, *plain = NULL;
	size_t packed_len, len;
	FILE *out = open_memstream(&packed, &packed_len);
	int r = render_pprof(p, &(struct render_options){}, out);

	fclose(out);
	if (r || gzip_unpack(packed, packed_len, PPROF_MAX, &plain, &len) != 0) {
		query_job_wrong(&c->q, 500, "the profile is too large; ask for a shorter time");
		return NULL;
	}
	return pprof__profile__unpack(NULL, len, (const uint8_t *)plain);
}

void querier_merge_profile(struct connect_call *c, struct store *s)
{
	const Querier__SelectMergeProfileRequest *r =
		(const Querier__SelectMergeProfileRequest *)c->request;
	struct catalog_id id;

	CLEANUP(profile_freep)
	struct profile *p = sum(c, s, r->label_selector, r->profile_typeid, r->start, r->end,
				r->stack_trace_selector, NULL);
	if (!p || !catalog_parse_id(r->profile_typeid, &id))
		return;
	p->info.type = id.parts[1];
	p->info.unit = id.parts[2];
	Pprof__Profile *m = message_of(c, p);
	if (!m)
		return;
	keep_value(m);
	connect_answer(c, &m->base);
	pprof__profile__free_unpacked(m, NULL);
}
