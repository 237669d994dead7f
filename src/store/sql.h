/*
 * sql: one SQLite file: opening, queries, and errors as errno.
 *
 * A file open for writing is in WAL mode with synchronous=NORMAL: what was committed survives any
 * end of the process, and after a power cut the file is intact, but may lack the last commits.
 *
 * A file open for reading is never written, and nothing is created beside it. If there is no
 * write-ahead log beside it, the file is complete and is read as immutable; otherwise SQLite reads
 * the log as well, which needs only read permission while its writer runs.
 */
#pragma once

#include <sqlite3.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/mem.h"

#define SQL_STATEMENTS 24

enum sql_mode { SQL_READ, SQL_WRITE };

struct sql { /* embedded; zero-initialised is closed */
	sqlite3 *db;
	char *path;
	uint64_t device, inode; /* of the file that was opened */
	bool frozen;            /* read as immutable */
	struct {
		const char *text;
		sqlite3_stmt *statement;
	} cached[SQL_STATEMENTS]; /* keyed by the address of the text */
	unsigned cached_count;
};

/*
 * Opens a file, or with SQL_WRITE creates it with `schema`. 0; -ENOENT; -EUCLEAN if it is damaged
 * or not ours; else -EACCES, -EROFS, -ENOSPC, -EIO.
 */
int sql_open(struct sql *s, const char *path, enum sql_mode mode, const char *schema);
void sql_close(struct sql *s);

/* Whether the file at this path has been deleted or replaced. */
bool sql_is_gone(const struct sql *s);

/* The errno for an SQLite result code. */
int sql_error(const struct sql *s, int rc);

/*
 * Prepares a statement and binds its values: 'i' an int64_t, 'b' a blob (pointer, size_t), 't' a
 * string. `text` must be a literal, since the statement is cached by its address. NULL on error,
 * which sql_step() then returns. Values are borrowed until sql_end().
 */
sqlite3_stmt *sql_ask(struct sql *s, const char *text, const char *values, ...);
int sql_step(struct sql *s, sqlite3_stmt *st); /* 1: a row, 0: no more, else -errno */
void sql_end(sqlite3_stmt *st);

/* Runs a statement without result rows: 0 or -errno. */
int sql_run(struct sql *s, const char *text, const char *values, ...);

/* The first column of the first row, or `none` if there is no row or it is NULL. */
int sql_number(struct sql *s, const char *text, int64_t none, int64_t *ret);

int sql_begin(struct sql *s);
int sql_commit(struct sql *s); /* on failure rolls back: 0 or -errno */
void sql_rollback(struct sql *s);

static inline void sql_endp(sqlite3_stmt **st)
{
	sql_end(*st);
}
