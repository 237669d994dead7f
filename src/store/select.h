/*
 * select: which series of a file a query wants, and as what in its answer. Each is asked once.
 */
#pragma once

#include "store/dict.h"
#include "store/store.h"

struct select { /* embedded */
	/* Private. */
	const struct store_query *q;
	struct profile *into;
	struct matching matching;
	const struct dict_view *view;
	uint32_t *to; /* by series: 0 not asked yet, 1 not wanted, else 2 + the answer's */
	struct arena arena;
	char **strings; /* with a NUL */
};

/* Series of the answer are made in `into`; NULL: only whether they are wanted is of interest. */
void select_init(struct select *s, const struct store_query *q, struct profile *into);
/*
 * At the end of a query whose result so far is `r`: that, or -EINVAL with *ret_err when a matcher's
 * pattern ran into a limit, since what was found is of no use then.
 */
int select_done(struct select *s, int r, struct store_error *ret_err);

/* After each blob: 0, or -ECANCELED when such a pattern makes the rest pointless. */
int select_check(const struct select *s);

/* A file's series, from its dictionary. */
void select_begin(struct select *s, const struct dict_view *v);
void select_end(struct select *s);

bool select_ask(struct select *s, uint32_t series);

static inline bool select_series(struct select *s, uint32_t series, uint32_t *ret)
{
	if (series >= s->view->series_count)
		return false;
	if (!s->to[series])
		select_ask(s, series);
	*ret = s->to[series] - 2;
	return s->to[series] > 1;
}

/*
 * The value of a label of a series, "" if it has none; borrowed until select_end(). What is called
 * as its process has no `thread` in the store: that is its process' name.
 */
const char *select_label(struct select *s, uint32_t series, const char *key);
const char *select_string(struct select *s, uint32_t id);
