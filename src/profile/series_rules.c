#include "profile/series_rules.h"

#include "base/mem.h"

struct own_label {
	char *name, *value;
};

struct choice {
	struct matching matching;
	char *type; /* NULL: any */
	bool keep;
};

struct series_rules {
	struct relabel *relabel;
	struct own_label *labels;
	struct choice *choices;
	uint32_t label_count, label_cap, choice_count, choice_cap;
	bool keeps; /* there is something to be kept */
};

struct series_rules *series_rules_new(struct relabel *relabel)
{
	struct series_rules *r = mem_alloc(sizeof(*r));

	r->relabel = relabel;
	return r;
}

void series_rules_free(struct series_rules *r)
{
	if (!r)
		return;
	for (uint32_t i = 0; i < r->label_count; i++) {
		free(r->labels[i].name);
		free(r->labels[i].value);
	}
	for (uint32_t i = 0; i < r->choice_count; i++) {
		matching_done(&r->choices[i].matching);
		free(r->choices[i].type);
	}
	free(r->labels);
	free(r->choices);
	free(r);
}

void series_rules_label(struct series_rules *r, const char *name, const char *value)
{
	MEM_GROW(r->labels, r->label_count, r->label_cap);
	r->labels[r->label_count++] = (struct own_label){mem_strdup(name), mem_strdup(value)};
}

void series_rules_choose(struct series_rules *r, bool keep, const char *type,
			 const struct matcher *list, size_t count)
{
	MEM_GROW(r->choices, r->choice_count, r->choice_cap);
	struct choice *c = &r->choices[r->choice_count++];
	*c = (struct choice){.type = type ? mem_strdup(type) : NULL, .keep = keep};
	matching_init(&c->matching, list, count);
	r->keeps |= keep;
}

/* An expression that needs too long, for this value, does not match it. */
static bool satisfies(struct choice *c, const struct relabel_labels *l)
{
	struct matcher_label labels[RELABEL_LABELS_MAX];

	for (size_t i = 0; i < l->count; i++)
		labels[i] = (struct matcher_label){l->list[i].name, l->list[i].value};
	bool accepts = matching_accepts(&c->matching, labels, l->count);
	c->matching.failed = NULL;
	return accepts;
}

static bool is_kept(struct series_rules *r, const char *type, const struct relabel_labels *l)
{
	bool kept = !r->keeps;

	for (uint32_t i = 0; i < r->choice_count; i++) {
		struct choice *c = &r->choices[i];
		if ((c->type && strcmp(c->type, type) != 0) || (c->keep && kept) ||
		    !satisfies(c, l))
			continue;
		if (!c->keep)
			return false;
		kept = true;
	}
	return kept;
}

bool series_rules_apply(struct series_rules *r, const char *type, struct relabel_labels *l)
{
	for (uint32_t i = 0; i < r->label_count; i++)
		relabel_labels_set(l, r->labels[i].name, r->labels[i].value);
	if (r->relabel && !relabel_apply(r->relabel, l))
		return false;
	for (size_t i = l->count; i-- > 0;)
		if (strncmp(l->list[i].name, "__", 2) == 0)
			relabel_labels_set(l, l->list[i].name, "");
	return is_kept(r, type, l);
}

bool series_rules_may_drop(const struct series_rules *r)
{
	return r->choice_count || (r->relabel && relabel_count(r->relabel));
}

bool series_rules_reads(const struct series_rules *r, const char *name)
{
	if (r->relabel && relabel_reads(r->relabel, name))
		return true;
	for (uint32_t i = 0; i < r->choice_count; i++)
		for (size_t k = 0; k < r->choices[i].matching.count; k++)
			if (strcmp(r->choices[i].matching.list[k].label, name) == 0)
				return true;
	return false;
}
