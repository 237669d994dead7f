#include "serve/catalog.h"

#include <errno.h>

#include "base/string_pool.h"
#include "query/merge.h"
#include "query/computed.h"

#define STACKS_MAX (4u << 20) /* distinct nodes of an answer; more are cut, and counted */
#define TYPES_MAX  1000
#define NAMES_MAX  5000

static const char *const part_labels[CATALOG_PARTS] = {"__name__", "__type__", "__unit__",
						       "__period_type__", "__period_unit__"};

/* ---- types --------------------------------------------------------------------------------- */

bool catalog_parse_id(const char *text, struct catalog_id *ret)
{
	struct catalog_id id = {};
	const char *at = text;

	for (size_t i = 0; i < CATALOG_PARTS; i++) {
		size_t len = strcspn(at, ":");
		if (!len || len >= WINDOW_TYPE_MAX || (at[len] == ':') != (i + 1 < CATALOG_PARTS))
			return false;
		memcpy(id.parts[i], at, len);
		at += len + 1;
	}
	snprintf(id.id, sizeof(id.id), "%s", text);
	*ret = id;
	return true;
}

/* The type that smolder itself stores under an id; "": none. */
static const char *own_type(const struct catalog_id *id)
{
	if (strcmp(id->id, CATALOG_CPU) == 0) /* NOLINT: there are as many as are counted */
		return "cpu";
	if (strcmp(id->parts[0], id->parts[1]) != 0 || strcmp(id->parts[1], id->parts[3]) != 0 ||
	    strcmp(id->parts[2], id->parts[4]) != 0 || strcmp(id->parts[0], COMPUTED_WALL) == 0)
		return "";
	return id->parts[0];
}

/* For lists: few steps, and such that sums over hours will do. */
static uint64_t coarse_step(const struct store_query *q)
{
	uint64_t hours = (q->to_ms - q->from_ms) / 3600000;

	return (hours < 6 ? 300 : hours < 14 * 24 ? 3600 : 86400) * 1000ull;
}

/* Of what it counts the store knows. */
static int unit_of(struct store *s, const struct store_query *range, const char *type,
		   char ret[static WINDOW_TYPE_MAX], struct store_error *ret_err)
{
	struct store_query q = *range;
	struct store_timeline t;

	q.type = type;
	q.step_ms = coarse_step(&q);
	int r = store_timeline(s, &q, &t, ret_err);
	if (r)
		return r;
	snprintf(ret, WINDOW_TYPE_MAX, "%s", *t.unit ? t.unit : "count");
	store_timeline_done(&t);
	return 0;
}

static int id_of(struct store *s, const struct store_query *range, const char *type,
		 struct catalog_id *ret, struct store_error *ret_err)
{
	char unit[WINDOW_TYPE_MAX], text[CATALOG_ID];

	if (catalog_parse_id(type, ret))
		return 0;
	if (strcmp(type, "cpu") == 0) {
		catalog_parse_id(CATALOG_CPU, ret);
		return 0;
	}
	if (strcmp(type, COMPUTED_WALL) == 0 || strchr(type, ':'))
		return -ENOENT;
	int r = unit_of(s, range, type, unit, ret_err);
	if (r)
		return r;
	snprintf(text, sizeof(text), "%s:%s:%s:%s:%s", type, type, unit, type, unit);
	return catalog_parse_id(text, ret) ? 0 : -ENOENT;
}

int catalog_types(struct store *s, uint64_t from_ms, uint64_t to_ms, struct catalog_id **ret,
		  uint32_t *ret_count, struct store_error *ret_err)
{
	const struct store_query q = {.from_ms = from_ms, .to_ms = to_ms, .max = TYPES_MAX};
	struct store_names names = {};
	uint32_t count = 0;

	int r = store_names(s, &q, STORE_TYPES, &names, ret_err);
	if (r)
		return r;
	struct catalog_id *ids = mem_alloc_array(names.count + 1, sizeof(*ids));
	for (uint32_t i = 0; i < names.count && (!r || r == -ENOENT); i++) {
		r = id_of(s, &q, names.names[i], &ids[count], ret_err);
		bool known = r;
		for (uint32_t k = 0; k < count && !known; k++)
			known = strcmp(ids[k].id, ids[count].id) == 0;
		count += !known;
	}
	store_names_done(&names);
	if (r && r != -ENOENT) {
		free(ids);
		return r;
	}
	*ret = ids;
	*ret_count = count;
	return 0;
}

/* ---- what a selector stands for ------------------------------------------------------------ */

static bool is_about_type(const char *label)
{
	if (strcmp(label, CATALOG_TYPE) == 0)
		return true;
	for (size_t i = 0; i < CATALOG_PARTS; i++)
		if (strcmp(label, part_labels[i]) == 0)
			return true;
	return false;
}

/* A label of the type: its value; NULL: it is none. */
static const char *type_label(const struct catalog_id *id, const char *label)
{
	if (strcmp(label, CATALOG_TYPE) == 0)
		return id->id;
	for (size_t i = 0; i < CATALOG_PARTS; i++)
		if (strcmp(label, part_labels[i]) == 0)
			return id->parts[i];
	return NULL;
}

static bool accepts_type(const struct store_query *q, const struct catalog_id *id)
{
	struct matcher_label labels[CATALOG_PARTS + 1] = {{CATALOG_TYPE, id->id}};
	bool accepted = true;

	for (size_t i = 0; i < CATALOG_PARTS; i++)
		labels[i + 1] = (struct matcher_label){part_labels[i], id->parts[i]};
	for (size_t i = 0; i < q->matcher_count && accepted; i++) {
		struct matching m;
		if (!is_about_type(q->matchers[i].label))
			continue;
		matching_init(&m, &q->matchers[i], 1);
		accepted = matching_accepts(&m, labels, ARRAY_SIZE(labels));
		matching_done(&m);
	}
	return accepted;
}

static void own_matcher(struct catalog_query *c, const char *label, enum matcher_op op,
			const char *value)
{
	struct matcher_error none;

	if (matcher_init(&c->own[c->own_count], label, op, value, &none) == 0)
		c->own_count++;
}

enum branch { ALL, WITH_SERVICE, WITHOUT_SERVICE };

/* The query of a type: the conditions on other labels, and on what service_name is here. */
static void add_query(struct catalog_selection *c, const struct catalog_id *id, const char *type,
		      const struct store_query *of, enum branch branch, const struct matcher *more)
{
	MEM_GROW(c->all, c->count, c->cap);
	struct catalog_query *to = &c->all[c->count++];
	*to = (struct catalog_query){
		.id = *id,
		.own = mem_alloc_array(of->matcher_count + 3, sizeof(*to->own)),
	};
	for (size_t i = 0; i < of->matcher_count; i++) {
		const struct matcher *m = &of->matchers[i];
		bool is_service = strcmp(m->label, CATALOG_SERVICE) == 0;
		if (!is_about_type(m->label))
			own_matcher(to,
				    !is_service              ? m->label
				    : branch == WITH_SERVICE ? "service"
							     : "comm",
				    m->op, m->value);
	}
	if (more)
		own_matcher(to, more->label, more->op, more->value);
	if (branch != ALL)
		own_matcher(to, "service",
			    branch == WITH_SERVICE ? MATCHER_NOT_EQUAL : MATCHER_EQUAL, "");
	to->q = (struct store_query){
		.type = strcmp(type, id->id) == 0 ? NULL : type,
		.from_ms = of->from_ms,
		.to_ms = of->to_ms,
		.matchers = to->own,
		.matcher_count = to->own_count,
		.max = NAMES_MAX,
	};
}

static void add_type(struct catalog_selection *c, const struct catalog_id *id,
		     const struct store_query *of, const struct matcher *more)
{
	const char *types[] = {id->id, own_type(id)};
	bool by_service = false;

	for (size_t i = 0; i < of->matcher_count; i++)
		by_service |= strcmp(of->matchers[i].label, CATALOG_SERVICE) == 0;
	for (size_t t = 0; t < ARRAY_SIZE(types); t++) {
		if (!*types[t])
			continue;
		add_query(c, id, types[t], of, by_service ? WITH_SERVICE : ALL, more);
		if (by_service)
			add_query(c, id, types[t], of, WITHOUT_SERVICE, more);
	}
}

/* Own types have constant names, or those of the parts; both stay where they are from now on. */
static void point_at_types(struct catalog_selection *c)
{
	for (uint32_t i = 0; i < c->count; i++)
		c->all[i].q.type = !c->all[i].q.type ? c->all[i].id.id : own_type(&c->all[i].id);
}

bool catalog_select(struct query_job *job, struct store *s, const char *selector, const char *id,
		    uint64_t from_ms, uint64_t to_ms, const struct matcher *more,
		    struct catalog_selection *ret)
{
	CLEANUP(freep) struct catalog_id *types = NULL;
	struct catalog_id one;
	struct selector_error err = {};
	struct store_query of = {};
	uint32_t count = 1;

	*ret = (struct catalog_selection){};
	if (selector_parse(*selector ? selector : "{}", &ret->selector, &err) != 0)
		return query_job_wrong(job, 400, "%s", err.text);
	selector_query(ret->selector, &of);
	of.from_ms = from_ms;
	of.to_ms = to_ms;
	if (id) {
		if (!catalog_parse_id(id, &one))
			return query_job_wrong(
				job, 400,
				"%.80s is not a type of profiles: "
				"NAME:TYPE:UNIT:PERIOD_TYPE:PERIOD_UNIT, as in " CATALOG_CPU,
				id);
	} else if (!query_job_went_well(job, catalog_types(s, from_ms, to_ms, &types, &count,
							   &job->store_error))) {
		return false;
	}
	for (uint32_t i = 0; i < count; i++) {
		const struct catalog_id *t = id ? &one : &types[i];
		if (accepts_type(&of, t))
			add_type(ret, t, &of, more);
	}
	point_at_types(ret);
	return true;
}

void catalog_selection_done(struct catalog_selection *c)
{
	for (uint32_t i = 0; i < c->count; i++) {
		for (size_t m = 0; m < c->all[i].own_count; m++)
			matcher_done(&c->all[i].own[m]);
		free(c->all[i].own);
	}
	free(c->all);
	selector_free(c->selector);
	*c = (struct catalog_selection){};
}

/* ---- sums ---------------------------------------------------------------------------------- */

struct profile *catalog_sum(struct query_job *job, struct store *s,
			    const struct catalog_selection *c, const char *const *site,
			    size_t site_len, struct store_answer *ret)
{
	struct profile *all = profile_new();

	*ret = (struct store_answer){};
	profile_set_stacks_max(all, STACKS_MAX);
	for (uint32_t i = 0; i < c->count; i++) {
		CLEANUP(profile_freep) struct profile *one = profile_new();
		struct store_answer answer = {};
		profile_set_stacks_max(one, STACKS_MAX);
		if (!query_job_went_well(
			    job, store_sum(s, &c->all[i].q, one, &answer, &job->store_error))) {
			profile_free(all);
			return NULL;
		}
		merge_samples(all, one, site, site_len);
		ret->samples += answer.samples;
		ret->lost += answer.lost;
		ret->windows += answer.windows;
		ret->damaged += answer.damaged;
		ret->files += answer.files;
		ret->bytes += answer.bytes;
	}
	return all;
}

/* ---- lines --------------------------------------------------------------------------------- */

/* The labels that the store is asked for: for service_name two, and none for those of the type. */
static size_t store_labels(const char *const *by, size_t by_count,
			   const char *to[static CATALOG_BY_MAX + 1])
{
	size_t n = 0;

	for (size_t i = 0; i < by_count; i++) {
		if (is_about_type(by[i]))
			continue;
		if (strcmp(by[i], CATALOG_SERVICE) != 0) {
			to[n++] = by[i];
			continue;
		}
		to[n++] = "service";
		to[n++] = "comm";
	}
	return n;
}

static const char *next_value(const char **at, size_t *len)
{
	const char *value = *at;

	*len = strcspn(value, "\n");
	*at = value[*len] ? value + *len + 1 : value + *len;
	return value;
}

/* The values of the labels that were asked for, from those of the store's. Caller frees. */
static char *make_key(const struct catalog_id *id, const char *const *by, size_t by_count,
		      const char *values)
{
	char *key = NULL;
	size_t size, len, comm_len;
	FILE *out = open_memstream(&key, &size);

	for (size_t i = 0; i < by_count; i++) {
		const char *of_type = type_label(id, by[i]);
		if (of_type) {
			fputs(of_type, out);
		} else {
			const char *value = next_value(&values, &len);
			if (strcmp(by[i], CATALOG_SERVICE) == 0) {
				const char *comm = next_value(&values, &comm_len);
				if (!len) {
					value = comm;
					len = comm_len;
				}
			}
			fwrite(value, 1, len, out);
		}
		fputc('\n', out);
	}
	fclose(out);
	return key;
}

static struct catalog_line *line_of(struct catalog_lines *l, const char *key)
{
	size_t len = strlen(key);
	uint32_t id = string_pool_find(l->keys, key, len);

	if (!id && len)
		id = string_pool_put(l->keys, key, len);
	/* Ids count from 1 on; the only line without labels is the first. */
	uint32_t at = id ? id - 1 : 0;
	if (at < l->count)
		return &l->all[at];
	MEM_GROW(l->all, l->count, l->cap);
	l->all[l->count] = (struct catalog_line){
		.key = id ? string_pool_get(l->keys, id) : "",
		.values = mem_alloc_array(l->steps, sizeof(*l->all->values)),
	};
	return &l->all[l->count++];
}

static void add_lines(struct catalog_lines *l, const struct catalog_query *q, const char *const *by,
		      size_t by_count, const struct store_timeline *t)
{
	if (!l->steps) {
		l->start_ms = t->start_ms;
		l->step_ms = t->step_ms;
		l->steps = t->steps;
		l->covered = mem_alloc_array(t->steps, 1);
		l->keys = mem_alloc(sizeof(*l->keys));
	}
	for (uint32_t i = 0; i < MIN(t->steps, l->steps); i++)
		l->covered[i] |= t->covered[i];
	for (uint32_t n = 0; n < t->line_count; n++) {
		CLEANUP(freep) char *key = make_key(&q->id, by, by_count, t->lines[n].value);
		struct catalog_line *line = line_of(l, key);
		line->total += t->lines[n].total;
		for (uint32_t i = 0; i < MIN(t->steps, l->steps); i++)
			line->values[i] += t->lines[n].values[i];
	}
}

bool catalog_lines(struct query_job *job, struct store *s, const struct catalog_selection *c,
		   const char *const *by, size_t by_count, uint64_t step_ms,
		   struct catalog_lines *ret)
{
	const char *labels[2 * CATALOG_BY_MAX + 1];

	if (by_count > CATALOG_BY_MAX)
		return query_job_wrong(job, 400, "one can group by at most %d labels",
				       CATALOG_BY_MAX);
	size_t label_count = store_labels(by, by_count, labels);
	for (uint32_t i = 0; i < c->count; i++) {
		struct store_query q = c->all[i].q;
		struct store_timeline t;
		q.step_ms = step_ms ? step_ms : coarse_step(&q);
		q.by = labels;
		q.by_count = label_count;
		if (!query_job_went_well(job, store_timeline(s, &q, &t, &job->store_error)))
			return false;
		add_lines(ret, &c->all[i], by, by_count, &t);
		store_timeline_done(&t);
	}
	return true;
}

void catalog_lines_done(struct catalog_lines *l)
{
	for (uint32_t i = 0; i < l->count; i++)
		free(l->all[i].values);
	free(l->all);
	free(l->covered);
	if (l->keys)
		string_pool_done(l->keys);
	free(l->keys);
	*l = (struct catalog_lines){};
}

char *catalog_key_value(const char *key, size_t n)
{
	for (; n; n--)
		key += strcspn(key, "\n") + 1;
	return mem_strndup(key, strcspn(key, "\n"));
}

bool catalog_labels(struct query_job *job, struct store *s, const struct catalog_selection *c,
		    struct string_pool *ret)
{
	for (uint32_t i = 0; i < c->count; i++) {
		struct store_names names = {};
		if (!query_job_went_well(job, store_names(s, &c->all[i].q, STORE_LABELS, &names,
							  &job->store_error)))
			return false;
		for (uint32_t n = 0; n < names.count; n++)
			string_pool_put(ret, names.names[n], strlen(names.names[n]));
		store_names_done(&names);
	}
	return true;
}
