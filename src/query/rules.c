#include "query/rules.h"

#include <errno.h>
#include <stdio.h>

#include "pipeline/name_pattern.h"
#include "query/computed.h"
#include "query/selector.h"

struct rule {
	char name[RULES_NAME_MAX];
	char *function;
	struct selector *selector;
	struct store_query query; /* type and matchers, borrowed from it */
	struct matching matching;
	uint64_t ns;
};

struct rules {
	struct rule all[RULES_MAX];
	size_t count;
};

struct rules *rules_new(void)
{
	return mem_alloc(sizeof(struct rules));
}

void rules_free(struct rules *r)
{
	if (!r)
		return;
	for (size_t i = 0; i < r->count; i++) {
		matching_done(&r->all[i].matching);
		selector_free(r->all[i].selector);
		free(r->all[i].function);
	}
	free(r);
}

static bool is_name(const char *name)
{
	size_t len =
		strspn(name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_");

	return len && !name[len] && len < RULES_NAME_MAX;
}

static const char *wrong_with(const struct rules *r, const char *name, const char *function)
{
	if (r->count == RULES_MAX)
		return "there are more than 32 rules";
	if (!is_name(name))
		return "the name of a rule is letters, digits and _";
	if (!*function)
		return "a rule needs a function";
	for (size_t i = 0; i < r->count; i++)
		if (strcmp(r->all[i].name, name) == 0)
			return "two rules have the same name";
	return NULL;
}

int rules_add(struct rules *r, const char *name, const char *query, const char *function,
	      struct rules_error *ret_err)
{
	/* A word alone that is none of these is the name of a process. */
	static char cpu[] = "cpu", offcpu[] = "offcpu", oncpu[] = "oncpu", wall[] = COMPUTED_WALL;
	char *stored[] = {cpu, offcpu, oncpu, wall};
	const struct store_names types = {.names = stored, .count = ARRAY_SIZE(stored)};
	const char *wrong = wrong_with(r, name, function);
	struct selector_error why;
	struct selector *selector = NULL;

	if (!wrong && selector_parse(query, &selector, &why) != 0)
		wrong = why.text;
	if (wrong) {
		snprintf(ret_err->text, sizeof(ret_err->text), "%.200s", wrong);
		return -EINVAL;
	}
	struct rule *rule = &r->all[r->count];
	selector_resolve(selector, &types);
	selector_query(selector, &rule->query);
	if (strcmp(rule->query.type, COMPUTED_WALL) == 0) {
		snprintf(ret_err->text, sizeof(ret_err->text),
			 "the type wall is not stored, but made of cpu and offcpu: count those");
		selector_free(selector);
		return -EINVAL;
	}
	snprintf(rule->name, sizeof(rule->name), "%s", name);
	rule->function = mem_strdup(function);
	rule->selector = selector;
	matching_init(&rule->matching, rule->query.matchers, rule->query.matcher_count);
	r->count++;
	return 0;
}

/* ---- which rules a dictionary's entries are of ----------------------------------------------- */

void rules_view_done(struct rules_view *v)
{
	free(v->frames);
	free(v->stacks);
	free(v->series);
	*v = (struct rules_view){};
}

size_t rules_view_bytes(const struct rules_view *v)
{
	return ((size_t)v->frame_count + v->stack_count + v->series_count) * sizeof(uint32_t);
}

static uint32_t of_frame(const struct rules *r, const struct profile *p, const struct frame *f)
{
	struct name name = name_of_function(profile_str(p, f->name), f->kind);
	uint32_t found = 0;

	for (size_t i = 0; i < r->count; i++)
		found |= name_matches(name, r->all[i].function) ? 1u << i : 0;
	return found;
}

static uint32_t of_series(struct rules *r, const struct profile *p, uint32_t id)
{
	struct matcher_label labels[ENTRIES_LABELS_MAX];
	const struct series *s = &p->series[id];
	uint32_t count = MIN(s->count, (uint32_t)ENTRIES_LABELS_MAX), found = 0;

	for (uint32_t i = 0; i < count; i++)
		labels[i] = (struct matcher_label){profile_str(p, s->labels[i].key),
						   profile_str(p, s->labels[i].value)};
	for (size_t i = 0; i < r->count; i++)
		found |= matching_accepts(&r->all[i].matching, labels, count) ? 1u << i : 0;
	return found;
}

/* Entries are only ever added, and a stack's parent has a smaller id. */
static void extend(struct rules *r, struct rules_view *v, const struct profile *p)
{
	if (v->frame_count < p->frame_count)
		v->frames = mem_resize_array(v->frames, p->frame_count, sizeof(*v->frames));
	for (; v->frame_count < p->frame_count; v->frame_count++)
		v->frames[v->frame_count] =
			v->frame_count ? of_frame(r, p, &p->frames[v->frame_count]) : 0;
	if (v->stack_count < p->stack_count)
		v->stacks = mem_resize_array(v->stacks, p->stack_count, sizeof(*v->stacks));
	for (; v->stack_count < p->stack_count; v->stack_count++) {
		const struct stack *s = &p->stacks[v->stack_count];
		v->stacks[v->stack_count] =
			v->stack_count ? v->stacks[s->parent] | v->frames[s->frame] : 0;
	}
	if (v->series_count < p->series_count)
		v->series = mem_resize_array(v->series, p->series_count, sizeof(*v->series));
	for (; v->series_count < p->series_count; v->series_count++)
		v->series[v->series_count] = of_series(r, p, v->series_count);
}

void rules_window(struct rules *r, struct rules_view *v, const struct profile *dict,
		  const struct window *w)
{
	uint32_t of_type = 0;

	for (size_t i = 0; i < r->count; i++)
		of_type |= strcmp(r->all[i].query.type, w->type) == 0 ? 1u << i : 0;
	if (!of_type || strcmp(w->unit, "nanoseconds") != 0)
		return;
	extend(r, v, dict);
	for (uint32_t i = 0; i < w->row_count; i++) {
		const struct window_row *row = &w->rows[i];
		uint32_t found = of_type & v->series[row->series] & v->stacks[row->stack];
		for (; found; found &= found - 1)
			r->all[__builtin_ctz(found)].ns += row->value;
	}
}

size_t rules_count(const struct rules *r)
{
	return r->count;
}

const char *rules_name(const struct rules *r, size_t rule)
{
	return r->all[rule].name;
}

double rules_seconds(const struct rules *r, size_t rule)
{
	return (double)r->all[rule].ns / 1e9;
}
