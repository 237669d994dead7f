#include "cli/series_options.h"

#include "query/selector.h"

bool series_options_is_label(const char *text)
{
	const char *equals = strchr(text, '=');
	CLEANUP(freep) char *name = equals ? mem_strndup(text, (size_t)(equals - text)) : NULL;

	return name && equals[1] && strlen(equals) <= RELABEL_VALUE_MAX && relabel_is_name(name);
}

/* A word alone is the name of a process: nothing is stored yet that says otherwise. */
static struct selector *parse(const char *text)
{
	struct selector_error why;
	struct selector *s;

	if (selector_parse(text, &s, &why))
		return NULL;
	selector_resolve(s, &(struct store_names){});
	return s;
}

bool series_options_is_selector(const char *text)
{
	CLEANUP(selector_freep) struct selector *s = parse(text);

	return s;
}

static void choose(struct series_options *o, const struct settings_list *list, bool keep)
{
	for (size_t i = 0; i < list->count; i++) {
		struct selector *s = parse(list->items[i]);
		struct store_query q = {};
		selector_query(s, &q);
		series_rules_choose(o->rules, keep, selector_has_type(s) ? q.type : NULL,
				    q.matchers, q.matcher_count);
		o->selectors = mem_resize_array(o->selectors, o->selector_count + 1,
						sizeof(struct selector *));
		o->selectors[o->selector_count++] = s;
	}
}

void series_options_init(struct series_options *o, const struct settings *s)
{
	const struct settings_list *labels = settings_list(s, SET_LABEL);
	const struct settings_list *keep = settings_list(s, SET_KEEP);
	const struct settings_list *drop = settings_list(s, SET_DROP);

	*o = (struct series_options){};
	if (!labels->count && !keep->count && !drop->count && !s->relabel)
		return;
	o->rules = series_rules_new(s->relabel);
	for (size_t i = 0; i < labels->count; i++) {
		const char *equals = strchr(labels->items[i], '=');
		CLEANUP(freep)
		char *name = mem_strndup(labels->items[i], (size_t)(equals - labels->items[i]));
		series_rules_label(o->rules, name, equals + 1);
	}
	choose(o, keep, true);
	choose(o, drop, false);
}

void series_options_done(struct series_options *o)
{
	series_rules_free(o->rules);
	for (size_t i = 0; i < o->selector_count; i++)
		selector_free(o->selectors[i]);
	free(o->selectors);
}
