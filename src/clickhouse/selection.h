/*
 * selection: which series a query is about.
 *
 * Equality of labels means the same to ClickHouse and to us, so it becomes SQL. Regular expressions
 * do not (RE2 there, PCRE2 here): then the series that the range has are listed, and those that
 * match are sent along with the question. They are listed, too, when the answer is by labels.
 */
#pragma once

#include "clickhouse/clickhouse_internal.h"
#include "clickhouse/content.h"

/* Gives a series that was selected a number, by its labels; once for each. */
typedef uint32_t selection_place_fn(void *ctx, const struct content_hash *series,
				    const struct matcher_label *labels, size_t count);

struct selection {       /* embedded */
	char *condition; /* on rows of `windows` or `spans`: " AND …" or "" */
	struct client_table table;
	bool has_table; /* the condition needs it: pass it to clickhouse_ask() */
	/* Private. */
	bool is_listed;
	struct pack wanted;
	struct index index;
	struct selected {
		struct content_hash series;
		uint32_t place;
	} * all;
	uint32_t count, cap;
};

/*
 * Of a query, over windows that begin in the range; `spans`: of the table of spans. `place` NULL:
 * series need no numbers. 0; -EINVAL: a matcher's pattern hit a limit; or another -errno.
 */
int selection_init(struct selection *sel, struct clickhouse_store *s, const struct store_query *q,
		   const char *table, const char *where, uint64_t from_ms, uint64_t to_ms,
		   selection_place_fn *place, void *ctx, struct store_error *e);
void selection_done(struct selection *sel);

/* What to group by: "series", or nothing of the kind. */
const char *selection_key(const struct selection *sel);

/* The number of a series in an answer; false: it was not selected (it is newer than the list). */
bool selection_get(const struct selection *sel, const struct content_hash *series, uint32_t *ret);

/* The value of a label; "": there is none. A thread named like its process goes by that name. */
const char *selection_label(const struct matcher_label *labels, size_t count, const char *key);
