#include "store/series_filter.h"

#include <errno.h>

void series_filter_init(struct series_filter *s, const struct store_query *q, struct profile *into)
{
	*s = (struct series_filter){.q = q, .into = into};
	matching_init(&s->matching, q->matchers, q->matcher_count);
}

int series_filter_done(struct series_filter *s, int r, struct store_error *ret_err)
{
	struct matcher_error why;

	if (matching_failed(&s->matching, &why)) {
		snprintf(ret_err->text, sizeof(ret_err->text), "%s", why.text);
		r = -EINVAL;
	}
	matching_done(&s->matching);
	return r;
}

int series_filter_check(const struct series_filter *s)
{
	return s->matching.failed ? -ECANCELED : 0;
}

void series_filter_begin(struct series_filter *s, const struct dict_view *v)
{
	s->view = v;
	s->to = mem_alloc_array(v->series_count, sizeof(*s->to));
	s->strings = mem_alloc_array(v->string_count, sizeof(*s->strings));
}

void series_filter_end(struct series_filter *s)
{
	free(TAKE_PTR(s->to));
	free(TAKE_PTR(s->strings));
	arena_done(&s->arena);
}

const char *series_filter_string(struct series_filter *s, uint32_t id)
{
	if (!s->strings[id])
		s->strings[id] = arena_strndup(&s->arena, s->view->strings[id].bytes,
					       s->view->strings[id].len);
	return s->strings[id];
}

static const char *stored_label(struct series_filter *s, uint32_t series, const char *key)
{
	const struct dict_series *d = &s->view->series[series];

	for (uint32_t i = d->first; i < d->first + d->count; i++)
		if (strcmp(series_filter_string(s, s->view->labels[i].key), key) == 0)
			return series_filter_string(s, s->view->labels[i].value);
	return "";
}

const char *series_filter_label(struct series_filter *s, uint32_t series, const char *key)
{
	const char *value = stored_label(s, series, key);

	return *value || strcmp(key, "thread") != 0 ? value : stored_label(s, series, "comm");
}

/* The labels that are kept, as a series of the answer. */
static uint32_t kept(struct series_filter *s, const struct matcher_label *labels, size_t count)
{
	struct label keep[ENTRIES_LABELS_MAX + 1];
	size_t n = 0;

	if (!s->into)
		return 0;
	for (size_t i = 0; i < count; i++)
		for (size_t k = 0; k < s->q->by_count; k++)
			if (strcmp(labels[i].key, s->q->by[k]) == 0)
				keep[n++] = (struct label){
					profile_string(s->into, labels[i].key,
						       strlen(labels[i].key)),
					profile_string(s->into, labels[i].value,
						       strlen(labels[i].value)),
				};
	return profile_series(s->into, keep, n);
}

bool series_filter_ask(struct series_filter *s, uint32_t series)
{
	const struct dict_series *d = &s->view->series[series];
	struct matcher_label labels[ENTRIES_LABELS_MAX + 1];
	uint32_t count = d->count;

	for (uint32_t i = 0; i < count; i++) {
		const struct label *l = &s->view->labels[d->first + i];
		labels[i] = (struct matcher_label){series_filter_string(s, l->key),
						   series_filter_string(s, l->value)};
	}
	if (!*stored_label(s, series, "thread") && *stored_label(s, series, "comm"))
		labels[count++] = (struct matcher_label){"thread", stored_label(s, series, "comm")};
	bool want = matching_accepts(&s->matching, labels, count);
	s->to[series] = want ? 2 + kept(s, labels, count) : 1;
	return want;
}
