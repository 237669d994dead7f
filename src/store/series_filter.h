/*
 * series_filter: which series of a file a query selects, and their ids in its answer; each is
 * matched once.
 */
#pragma once

#include "store/dict.h"
#include "store/store.h"

struct series_filter { /* embedded */
	/* Private. */
	const struct store_query *q;
	struct profile *into;
	struct matching matching;
	const struct dict_view *view;
	uint32_t *to; /* by series: 0 not matched yet, 1 not selected, else 2 + id in the answer */
	struct arena arena;
	char **strings; /* NUL-terminated */
};

/* Series of the answer are created in `into`; NULL: only tell which are selected. */
void series_filter_init(struct series_filter *s, const struct store_query *q, struct profile *into);
/*
 * At the end of a query whose result so far is `r`: returns that, or -EINVAL with *ret_err if a
 * matcher's pattern ran into a limit, which makes the result invalid.
 */
int series_filter_done(struct series_filter *s, int r, struct store_error *ret_err);

/* To be called after each blob: 0, or -ECANCELED if such a pattern makes the rest pointless. */
int series_filter_check(const struct series_filter *s);

/* Begins with the series of a file, from its dictionary. */
void series_filter_begin(struct series_filter *s, const struct dict_view *v);
void series_filter_end(struct series_filter *s);

bool series_filter_ask(struct series_filter *s, uint32_t series);

static inline bool series_filter_get(struct series_filter *s, uint32_t series, uint32_t *ret)
{
	if (series >= s->view->series_count)
		return false;
	if (!s->to[series])
		series_filter_ask(s, series);
	*ret = s->to[series] - 2;
	return s->to[series] > 1;
}

/*
 * The value of a label of a series, "" if it has none; borrowed until series_filter_end(). A thread
 * named like its process has no label `thread` in the store: then it is the value of `comm`.
 */
const char *series_filter_label(struct series_filter *s, uint32_t series, const char *key);
const char *series_filter_string(struct series_filter *s, uint32_t id);
