/*
 * clickhouse_internal: what the files of the ClickHouse store share. That store is a database on a
 * ClickHouse server; schema.sql describes its tables. Others use store.h.
 *
 *	clickhouse.c  opening, the table of operations, retention
 *	client.c      speaks to the server
 *	schema.c      creates the tables
 *	content.c     names frames, stacks and series by what they are
 *	append.c      a message becomes rows
 *	announced.c   what of the dictionaries the server has been told
 *	messages.c    which messages a range has, which are there twice, what was lost
 *	selection.c   matchers become SQL, or a list of series
 *	resolve.c     stacks of an answer become those of a profile
 *	range_sum.c   a time range as a profile
 *	over_time.c   timelines, heat, names
 *	told.c        findings
 *	figures.c     statistics and accounts
 */
#pragma once

#include "clickhouse/announced.h"
#include "clickhouse/client.h"
#include "clickhouse/rowbinary.h"
#include "store/store.h"

#define CLICKHOUSE_DAY_MS 86400000ull

struct clickhouse_seen { /* the latest message of a collector that this process has stored */
	uint8_t instance[16];
	uint64_t sequence;
	uint32_t part;
	bool used;
};

#define CLICKHOUSE_SEEN 4096 /* collectors; of those beyond it the server is asked more often */

struct clickhouse_store {
	struct store_options o;
	struct client *client;
	struct announced announced;
	struct clickhouse_seen seen[CLICKHOUSE_SEEN];
	uint64_t copy; /* of the next message: the upper half is this process's, at random */
	struct store_stats stats;
	struct store_error trouble; /* of maintenance, not reported yet */
	uint64_t retain_ms;         /* when that was last done */
	uint64_t figures_ms;        /* when these were read: */
	struct store_stats figures;
};

/* What went wrong, for the user. */
__attribute__((format(printf, 2, 3))) void clickhouse_say(struct store_error *e, const char *fmt,
							  ...);

/*
 * Asks with SQL that a format makes. `%s` of names and numbers only: texts from outside go through
 * clickhouse_quote().
 */
__attribute__((format(printf, 5, 6))) int
clickhouse_ask(struct clickhouse_store *s, const struct client_table *table,
	       struct client_rows *ret, struct store_error *e, const char *fmt, ...);

/* A text as SQL has it, with its quotes. */
void clickhouse_quote(FILE *f, const char *text);

/*
 * Conditions on rows of `windows` (or spans) that begin in a range; caller frees. They name the
 * hours too, by which the table is sorted.
 */
char *clickhouse_range(uint64_t from_ms, uint64_t to_ms);
/* The days of windows that begin in it, for dictionaries. */
char *clickhouse_days(uint64_t from_ms, uint64_t to_ms);
/* " AND type = '…'"; "" for NULL. Caller frees. */
char *clickhouse_type(const char *type);

/* Operations (operations.h). */
int clickhouse_append(void *self, const struct profile *dict, const struct window *w,
		      uint64_t now_ms, struct store_error *ret_err);
int clickhouse_sum(void *self, const struct store_query *q, struct profile *into,
		   struct store_answer *ret, struct store_error *ret_err);
int clickhouse_timeline(void *self, const struct store_query *q, struct store_timeline *ret,
			struct store_error *ret_err);
int clickhouse_heat(void *self, const struct store_query *q, struct store_heat *ret,
		    struct store_error *ret_err);
int clickhouse_names(void *self, const struct store_query *q, enum store_names_of of,
		     struct store_names *ret, struct store_error *ret_err);
int clickhouse_findings(void *self, const struct store_query *q, struct store_findings *ret,
			struct store_error *ret_err);
void clickhouse_stats(void *self, struct store_stats *ret);

/* Adds a message of findings to its table: 0 or -errno. */
int clickhouse_append_findings(struct clickhouse_store *s, const struct window *w, uint64_t now_ms,
			       struct store_error *e);

/* The statements of schema.sql for that version of the server, one after the other, each with its
 * semicolon; caller frees. */
char *clickhouse_schema(uint64_t version);
/* store_migrate(): creates what is missing, or writes down how (`out`). */
int clickhouse_migrate(const char *where, FILE *out, struct store_error *ret_err);
