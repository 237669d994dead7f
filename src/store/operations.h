/*
 * operations: what a kind of store must implement. Each function does what the one of the same name
 * in store.h promises, and gets the same arguments.
 *
 * A kind of store is one such table, and one line in the list in store.c. `self` is what its `open`
 * returned. ret_err is never NULL and is empty: a kind fills it in if it knows more than the errno,
 * which is reported otherwise. A query is plain data (struct store_query, profile/matcher.h), so
 * that a store can translate it into a query language of its own.
 */
#pragma once

#include "store/store.h"

struct store_operations {
	/* Locations of this kind begin with it: "clickhouse://"; "" matches all others. */
	const char *prefix;
	int (*open)(const char *where, const struct store_options *o, void **ret,
		    struct store_error *ret_err);
	void (*close)(void *self);

	/* For the writer. */
	int (*append)(void *self, const struct profile *dict, const struct window *w,
		      uint64_t now_ms, struct store_error *ret_err);
	bool (*maintain)(void *self, uint64_t now_ms);
	bool (*warning)(void *self, struct store_error *ret);

	/* For readers and the writer. */
	int (*sum)(void *self, const struct store_query *q, struct profile *into,
		   struct store_answer *ret, struct store_error *ret_err);
	int (*timeline)(void *self, const struct store_query *q, struct store_timeline *ret,
			struct store_error *ret_err);
	int (*heat)(void *self, const struct store_query *q, struct store_heat *ret,
		    struct store_error *ret_err);
	int (*names)(void *self, const struct store_query *q, enum store_names_of of,
		     struct store_names *ret, struct store_error *ret_err);
	/* NULL: this kind of store keeps none. */
	int (*findings)(void *self, const struct store_query *q, struct store_findings *ret,
			struct store_error *ret_err);
	void (*stats)(void *self, struct store_stats *ret);

	/* NULL: there is nothing to prepare before such a store is opened. */
	int (*migrate)(const char *where, FILE *out, struct store_error *ret_err);
};

extern const struct store_operations local_operations;      /* local_internal.h */
extern const struct store_operations clickhouse_operations; /* src/clickhouse */

/* As store_open(), which finds the kind by the prefix of `where`. */
int store_open_kind(const struct store_operations *kind, const char *where,
		    const struct store_options *o, struct store **ret, struct store_error *ret_err);

/* ---- what kinds share ------------------------------------------------------------------------ */

/* To the end of a window. */
uint64_t store_round_up(uint64_t ms);

/* An exact range, and of that what the windows found cover, if they cover any of it. */
void store_clip_to_steps(const struct store_query *q, struct store_answer *a);

/* Adds one, or what is newer of it; at most STORE_FINDINGS_MAX. */
void store_findings_add(struct store_findings *to, const struct finding *f);
