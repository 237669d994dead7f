#include "store/store.h"

#include <errno.h>

#include "base/mem.h"
#include "store/operations.h"

struct store {
	const struct store_operations *kind;
	void *self;
};

/* The last one takes whatever the others do not. */
static const struct store_operations *const kinds[] = {&clickhouse_operations, &local_operations};

static const struct store_operations *kind_of(const char *where)
{
	size_t i = 0;

	while (i + 1 < ARRAY_SIZE(kinds) &&
	       strncmp(where, kinds[i]->prefix, strlen(kinds[i]->prefix)) != 0)
		i++;
	return kinds[i];
}

void store_options_fill(struct store_options *o)
{
	o->retention_ms = o->retention_ms ? o->retention_ms : STORE_RETENTION_DAYS * 86400000ull;
	o->max_bytes = o->max_bytes ? o->max_bytes : (uint64_t)STORE_MAX_GIB << 30;
	o->times_ms = o->times_ms ? o->times_ms : STORE_TIMES_HOURS * 3600000ull;
	o->series_max = o->series_max ? o->series_max : 20000;
	o->stacks_max = o->stacks_max ? o->stacks_max : 1000000;
}

/* Where an operation writes its error: `none` when its caller does not want to know. */
static struct store_error *blank(struct store_error *e, struct store_error *none)
{
	e = e ? e : none;
	*e = (struct store_error){};
	return e;
}

/* The result of an operation that reads, with a sentence if it had none of its own. */
static int explained(int r, struct store_error *e)
{
	if (r == -ENODATA && !*e->text)
		snprintf(e->text, sizeof(e->text),
			 "the times of single samples are not kept for that long (--times)");
	else if (r && !*e->text)
		snprintf(e->text, sizeof(e->text), "the store could not be read: %s", strerror(-r));
	return r;
}

int store_open_kind(const struct store_operations *kind, const char *where,
		    const struct store_options *o, struct store **ret, struct store_error *ret_err)
{
	struct store_options filled = o ? *o : (struct store_options){};
	struct store_error none;
	CLEANUP(freep) struct store *s = mem_alloc(sizeof(*s));

	store_options_fill(&filled);
	s->kind = kind;
	int r = s->kind->open(where, &filled, &s->self, blank(ret_err, &none));
	if (!r)
		*ret = TAKE_PTR(s);
	return r;
}

int store_open(const char *where, const struct store_options *o, struct store **ret,
	       struct store_error *ret_err)
{
	return store_open_kind(kind_of(where), where, o, ret, ret_err);
}

void store_close(struct store *s)
{
	if (!s)
		return;
	s->kind->close(s->self);
	free(s);
}

bool store_is_directory(const char *where)
{
	return kind_of(where) == &local_operations;
}

int store_migrate(const char *where, FILE *out, struct store_error *ret_err)
{
	const struct store_operations *kind = kind_of(where);
	struct store_error none;

	return kind->migrate ? kind->migrate(where, out, blank(ret_err, &none)) : 0;
}

int store_append(struct store *s, const struct profile *dict, const struct window *w,
		 uint64_t now_ms, struct store_error *ret_err)
{
	struct store_error none;

	return s->kind->append(s->self, dict, w, now_ms, blank(ret_err, &none));
}

bool store_maintain(struct store *s, uint64_t now_ms)
{
	return s->kind->maintain(s->self, now_ms);
}

bool store_warning(struct store *s, struct store_error *ret)
{
	struct store_error none;

	return s->kind->warning(s->self, blank(ret, &none));
}

static bool is_state(const struct store_query *q)
{
	return q->type && window_type_is_state(q->type);
}

/* A state has one value in each of these. */
static uint64_t windows_in(uint64_t from_ms, uint64_t to_ms)
{
	return to_ms > from_ms ? (to_ms - from_ms + WINDOW_MS - 1) / WINDOW_MS : 1;
}

int store_sum(struct store *s, const struct store_query *q, struct profile *into,
	      struct store_answer *ret, struct store_error *ret_err)
{
	struct store_error none, *e = blank(ret_err, &none);

	*ret = (struct store_answer){};
	int r = explained(s->kind->sum(s->self, q, into, ret, e), e);
	if (!r && is_state(q))
		profile_divide(into, q->block_ms ? MAX(q->block_ms / WINDOW_MS, 1)
						 : windows_in(ret->from_ms, ret->to_ms));
	return r;
}

/* The part of each step that was asked for counts, so that the last, which goes on, is whole. */
static void divide_line(const struct store_timeline *t, const struct store_query *q,
			struct store_line *l)
{
	uint64_t from = q->from_ms / WINDOW_MS * WINDOW_MS;

	l->total = 0;
	for (uint32_t i = 0; i < t->steps; i++) {
		uint64_t start = t->start_ms + i * t->step_ms, end = start + t->step_ms;
		uint64_t n = windows_in(MAX(start, from), MIN(end, q->to_ms));
		l->values[i] = (l->values[i] + n / 2) / n;
		if (l->kernel)
			l->kernel[i] = (l->kernel[i] + n / 2) / n;
		l->total = MAX(l->total, l->values[i]);
	}
}

int store_timeline(struct store *s, const struct store_query *q, struct store_timeline *ret,
		   struct store_error *ret_err)
{
	struct store_error none, *e = blank(ret_err, &none);

	int r = explained(s->kind->timeline(s->self, q, ret, e), e);
	for (uint32_t i = 0; !r && is_state(q) && i < ret->line_count; i++)
		divide_line(ret, q, &ret->lines[i]);
	return r;
}

int store_heat(struct store *s, const struct store_query *q, struct store_heat *ret,
	       struct store_error *ret_err)
{
	struct store_error none, *e = blank(ret_err, &none);

	return explained(s->kind->heat(s->self, q, ret, e), e);
}

int store_names(struct store *s, const struct store_query *q, enum store_names_of of,
		struct store_names *ret, struct store_error *ret_err)
{
	struct store_error none, *e = blank(ret_err, &none);

	return explained(s->kind->names(s->self, q, of, ret, e), e);
}

int store_findings(struct store *s, const struct store_query *q, struct store_findings *ret,
		   struct store_error *ret_err)
{
	struct store_error none, *e = blank(ret_err, &none);

	*ret = (struct store_findings){};
	return s->kind->findings ? explained(s->kind->findings(s->self, q, ret, e), e) : 0;
}

void store_stats(struct store *s, struct store_stats *ret)
{
	*ret = (struct store_stats){};
	s->kind->stats(s->self, ret);
}

/* ---- answers ------------------------------------------------------------------------------- */

void store_timeline_done(struct store_timeline *t)
{
	for (uint32_t i = 0; i < t->line_count; i++) {
		free(t->lines[i].value);
		free(t->lines[i].name);
		free(t->lines[i].values);
		free(t->lines[i].kernel);
	}
	free(t->lines);
	free(t->covered);
	free(t->restarted);
	*t = (struct store_timeline){};
}

void store_heat_done(struct store_heat *h)
{
	free(h->counts);
	*h = (struct store_heat){};
}

void store_names_done(struct store_names *n)
{
	for (uint32_t i = 0; i < n->count; i++)
		free(n->names[i]);
	free(n->names);
	*n = (struct store_names){};
}

void store_findings_done(struct store_findings *f)
{
	free(f->findings);
	*f = (struct store_findings){};
}

/* ---- what kinds share ---------------------------------------------------------------------- */

uint64_t store_round_up(uint64_t ms)
{
	return (MIN(ms, INT64_MAX / 2) + WINDOW_MS - 1) / WINDOW_MS * WINDOW_MS;
}

void store_clip_to_steps(const struct store_query *q, struct store_answer *a)
{
	uint64_t from_ms = q->from_ms / WINDOW_STEP_MS * WINDOW_STEP_MS;
	uint64_t to_ms = (q->to_ms + WINDOW_STEP_MS - 1) / WINDOW_STEP_MS * WINDOW_STEP_MS;
	bool is_covered = a->windows && a->from_ms < to_ms && a->to_ms > from_ms;

	a->from_ms = is_covered ? MAX(a->from_ms, from_ms) : from_ms;
	a->to_ms = is_covered ? MIN(a->to_ms, to_ms) : to_ms;
}

static bool is_same(const struct finding *a, const struct finding *b)
{
	return a->id == b->id && memcmp(a->instance, b->instance, sizeof(a->instance)) == 0;
}

void store_findings_add(struct store_findings *to, const struct finding *f)
{
	for (uint32_t i = 0; i < to->count; i++) {
		if (!is_same(&to->findings[i], f))
			continue;
		if (f->until_ms > to->findings[i].until_ms)
			to->findings[i] = *f;
		return;
	}
	if (to->count == STORE_FINDINGS_MAX) {
		to->cut = true;
		return;
	}
	MEM_GROW(to->findings, to->count, to->cap);
	to->findings[to->count++] = *f;
}
