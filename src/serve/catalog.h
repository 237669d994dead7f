/*
 * catalog: the store as Grafana sees it.
 *
 * A type of profiles has an id of five parts (ingest/pushed.h), and those of pushed profiles are
 * types of the store. What smolder itself measures has one, too: `cpu` is CATALOG_CPU, `offcpu` is
 * offcpu:offcpu:nanoseconds:offcpu:nanoseconds. So an id may stand for two types of the store, and
 * what it selects is their sum. `wall`, which is computed, has none.
 *
 * Each series has a label service_name: its `service`, or if it has none its `comm`. A condition on
 * it becomes two: on the service of those that have one, and on the comm of the others.
 * __profile_type__ and its parts (__name__, __type__, __unit__, __period_type__, __period_unit__)
 * can be selected by and asked for like labels.
 */
#pragma once

#include "query/selector.h"
#include "serve/query_job.h"
#include "store/store.h"

#define CATALOG_CPU     "process_cpu:cpu:nanoseconds:cpu:nanoseconds"
#define CATALOG_ID      (5 * WINDOW_TYPE_MAX)
#define CATALOG_PARTS   5
#define CATALOG_SERVICE "service_name"
#define CATALOG_TYPE    "__profile_type__"
#define CATALOG_BY_MAX  24 /* labels to group by */

struct catalog_id {
	char id[CATALOG_ID];
	char parts[CATALOG_PARTS][WINDOW_TYPE_MAX]; /* name, type, unit, period type, its unit */
};

bool catalog_parse_id(const char *text, struct catalog_id *ret);

/* Types in a range: 0 or the store's error; from malloc. */
int catalog_types(struct store *s, uint64_t from_ms, uint64_t to_ms, struct catalog_id **ret,
		  uint32_t *ret_count, struct store_error *ret_err);

struct catalog_query { /* one type and one set of conditions; see catalog_select() */
	struct catalog_id id;
	struct store_query q;
	struct matcher *own; /* its conditions on service_name */
	size_t own_count;
};

/* What a selector and a range stand for: queries whose answers are added up. Embedded. */
struct catalog_selection {
	struct catalog_query *all;
	uint32_t count, cap;
	struct selector *selector;
};

/*
 * `id` is a type, or NULL: those that the selector accepts. False after setting the job's error.
 * `more`: one more condition, copied; NULL: none.
 */
bool catalog_select(struct query_job *job, struct store *s, const char *selector, const char *id,
		    uint64_t from_ms, uint64_t to_ms, const struct matcher *more,
		    struct catalog_selection *ret);
void catalog_selection_done(struct catalog_selection *c);

/* The sum of all of them, of the stacks that begin with `site`; NULL after setting the error. */
struct profile *catalog_sum(struct query_job *job, struct store *s,
			    const struct catalog_selection *c, const char *const *site,
			    size_t site_len, struct store_answer *ret);

struct catalog_line {
	const char *key;  /* values of the labels, each with a '\n' behind it */
	uint64_t *values; /* one per step */
	uint64_t total;
};

struct catalog_lines {            /* embedded; zero-initialised is empty */
	struct catalog_line *all; /* in order of first appearance */
	uint32_t count, cap;
	uint64_t start_ms, step_ms;
	uint32_t steps;
	uint8_t *covered;
	struct string_pool *keys; /* private */
};

/*
 * Values over time, a line for each set of values of the labels `by`, added to what is there. The
 * step is a multiple of WINDOW_MS; 0: some long one, for lists, which may begin before the range.
 */
bool catalog_lines(struct query_job *job, struct store *s, const struct catalog_selection *c,
		   const char *const *by, size_t by_count, uint64_t step_ms,
		   struct catalog_lines *ret);
void catalog_lines_done(struct catalog_lines *l);

/* The nth label's value of a key, from malloc. */
char *catalog_key_value(const char *key, size_t n);

/* The names of the labels of what is selected: adds those that are not in the pool. */
struct string_pool;
bool catalog_labels(struct query_job *job, struct store *s, const struct catalog_selection *c,
		    struct string_pool *ret);
