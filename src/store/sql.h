/*
 * sql: one SQLite file: opened, asked, and its errors as errno.
 *
 * A file that is written is in WAL mode with synchronous=NORMAL: what was committed survives any
 * end of the process, and a power cut leaves a sound file that may lack the last commits.
 *
 * A file that is only read is never written, nor is anything made beside it. Where no write-ahead
 * log lies beside it the file is whole, and is read as one that does not change; else SQLite reads
 * the log as well, which needs no more than read permission while its writer runs.
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
	bool frozen;            /* read as a file that does not change */
	struct {
		const char *text;
		sqlite3_stmt *statement;
	} cached[SQL_STATEMENTS]; /* by the address of their text */
	unsigned cached_count;
};

/*
 * Opens, or (SQL_WRITE) makes with `schema`, a file. 0; -ENOENT; -EUCLEAN when it is damaged or no
 * file of ours; else what hinders it: -EACCES, -EROFS, -ENOSPC, -EIO.
 */
int sql_open(struct sql *s, const char *path, enum sql_mode mode, const char *schema);
void sql_close(struct sql *s);

/* Whether another file, or none, is now where this one was. */
bool sql_is_gone(const struct sql *s);

/* errno for the result of a call to SQLite. */
int sql_error(const struct sql *s, int rc);

/*
 * A statement with its values: 'i' an int64_t, 'b' a blob (pointer, size_t), 't' a string. `text`
 * is a literal: the statement is kept. NULL when it cannot be (then sql_step() says why). Values
 * are borrowed until sql_end().
 */
sqlite3_stmt *sql_ask(struct sql *s, const char *text, const char *values, ...);
int sql_step(struct sql *s, sqlite3_stmt *st); /* 1: a row, 0: no more, else -errno */
void sql_end(sqlite3_stmt *st);

/* A statement that gives no rows: 0 or -errno. */
int sql_run(struct sql *s, const char *text, const char *values, ...);

/* The first column of the first row, or `none` when there is no row or it is NULL. */
int sql_number(struct sql *s, const char *text, int64_t none, int64_t *ret);

int sql_begin(struct sql *s);
int sql_commit(struct sql *s); /* or rolls back: 0 or -errno */
void sql_rollback(struct sql *s);

static inline void sql_endp(sqlite3_stmt **st)
{
	sql_end(*st);
}
