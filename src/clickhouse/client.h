/*
 * client: speaks to a ClickHouse server over HTTP.
 *
 * Rows go both ways as RowBinary: integers little endian, a text or an array its length (as in
 * base/pack.h) and what it holds. Every answer is complete or an error: the server holds it back
 * until it has all of it.
 */
#pragma once

#include "base/pack.h"
#include "store/store.h"

#define CLIENT_PREFIX   "clickhouse://"
#define CLIENT_PASSWORD "SMOLDER_CLICKHOUSE_PASSWORD" /* in the environment */

struct client;

/*
 * Of a location: clickhouse://[USER@]HOST[:PORT][/DATABASE][?password_file=FILE][&tls=1]
 * [&ca_file=FILE]. Nothing is asked yet. 0, or -EINVAL and others with *ret_err. `o` is borrowed:
 * its `progress` is called while an answer is waited for.
 */
int client_new(const char *where, const struct store_options *o, struct client **ret,
	       struct store_error *ret_err);
void client_free(struct client *c); /* NULL is fine */

const char *client_database(const struct client *c);

/* A table that is sent with a question, for IN. */
struct client_table {
	const char *name, *structure; /* "wanted", "series FixedString(16)" */
	const struct pack *rows;
};

struct client_rows { /* an answer */
	char *bytes;
	struct unpack in;
};

/*
 * Asks for rows; `sql` without its FORMAT. `table` may be NULL. 0; -ECANCELED; -EFBIG: more than
 * the cap of an answer; or another -errno with *ret_err.
 */
int client_ask(struct client *c, const char *sql, const struct client_table *table,
	       struct client_rows *ret, struct store_error *ret_err);
void client_rows_done(struct client_rows *r);

/* A statement without an answer. `database`: in that of the location. */
int client_run(struct client *c, const char *sql, bool database, struct store_error *ret_err);

/* Adds rows to a table: all of one day's or none. On an error they may be there nevertheless. */
int client_insert(struct client *c, const char *table, const struct pack *rows,
		  struct store_error *ret_err);

/* The first part of the server's version: 18, 26. 0 or -errno. */
int client_version(struct client *c, uint64_t *ret, struct store_error *ret_err);
