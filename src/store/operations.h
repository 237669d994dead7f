/*
 * operations: what a kind of store has to do. Each function does what the one of its name in
 * store.h promises; what is passed on is what that was called with.
 *
 * A kind of store is one table, and one line in the list in store.c. `self` is what its `open`
 * made. ret_err is never NULL and is empty: a kind fills it in where it knows more than the errno,
 * which is said otherwise. A query is plain data (struct store_query, profile/matcher.h), for a
 * store that translates it into a language of its own.
 */
#pragma once

#include "store/store.h"

struct store_operations {
	/* How the places of this kind begin: "clickhouse://"; "" is any that no other kind has. */
	const char *prefix;
	int (*open)(const char *where, const struct store_options *o, void **ret,
		    struct store_error *ret_err);
	void (*close)(void *self);

	/* Of a writer. */
	int (*append)(void *self, const struct profile *dict, const struct window *w,
		      uint64_t now_ms, struct store_error *ret_err);
	bool (*maintain)(void *self, uint64_t now_ms);
	bool (*warning)(void *self, struct store_error *ret);

	/* Of readers and the writer. */
	int (*sum)(void *self, const struct store_query *q, struct profile *into,
		   struct store_answer *ret, struct store_error *ret_err);
	int (*timeline)(void *self, const struct store_query *q, struct store_timeline *ret,
			struct store_error *ret_err);
	int (*heat)(void *self, const struct store_query *q, struct store_heat *ret,
		    struct store_error *ret_err);
	int (*names)(void *self, const struct store_query *q, enum store_names_of of,
		     struct store_names *ret, struct store_error *ret_err);
	void (*stats)(void *self, struct store_stats *ret);
};

extern const struct store_operations local_operations; /* local_internal.h */

/* As store_open(), which finds the kind by what `where` begins with. */
int store_open_kind(const struct store_operations *kind, const char *where,
		    const struct store_options *o, struct store **ret, struct store_error *ret_err);
