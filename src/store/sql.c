#include "store/sql.h"

#include <errno.h>
#include <stdarg.h>
#include <sys/stat.h>

#define BUSY_MS 2000

int sql_error(const struct sql *s, int rc)
{
	int system = s->db ? sqlite3_system_errno(s->db) : 0;

	switch (rc & 0xff) {
	case SQLITE_OK:
	case SQLITE_ROW:
	case SQLITE_DONE:
		return 0;
	case SQLITE_FULL:
		return -ENOSPC;
	case SQLITE_READONLY:
		return -EROFS;
	case SQLITE_CORRUPT:
	case SQLITE_NOTADB:
		return -EUCLEAN;
	case SQLITE_PERM:
		return -EACCES;
	case SQLITE_BUSY:
	case SQLITE_LOCKED:
		return -EAGAIN;
	case SQLITE_NOMEM:
		return -ENOMEM;
	case SQLITE_INTERRUPT:
		return -ECANCELED;
	case SQLITE_IOERR:
		/* A file that is shorter than its header says. */
		if ((rc == SQLITE_IOERR_SHORT_READ || rc == SQLITE_IOERR_READ) && !system)
			return -EUCLEAN;
		return system == ENOSPC || system == EROFS || system == EDQUOT ? -system : -EIO;
	case SQLITE_CANTOPEN:
		return system ? -system : -EACCES;
	default:
		return -EIO;
	}
}

static int open_file(struct sql *s, const char *path, int flags, bool frozen)
{
	CLEANUP(freep) char *uri = NULL;
	char *at;

	/* A URI: what has a meaning in one is escaped. */
	at = uri = mem_alloc(strlen(path) * 3 + sizeof("file:?immutable=1"));
	at = stpcpy(at, "file:");
	for (const char *p = path; *p; p++) {
		if (*p == '%' || *p == '?' || *p == '#')
			at += sprintf(at, "%%%02x", (unsigned char)*p);
		else
			*at++ = *p;
	}
	stpcpy(at, frozen ? "?immutable=1" : "");
	int rc = sqlite3_open_v2(uri, &s->db, flags | SQLITE_OPEN_URI | SQLITE_OPEN_NOMUTEX, NULL);
	if (rc != SQLITE_OK)
		return sql_error(s, rc);
	sqlite3_extended_result_codes(s->db, 1);
	sqlite3_busy_timeout(s->db, BUSY_MS);
	sqlite3_db_config(s->db, SQLITE_DBCONFIG_DEFENSIVE, 1, NULL);
	sqlite3_db_config(s->db, SQLITE_DBCONFIG_TRUSTED_SCHEMA, 0, NULL);
	s->frozen = frozen;
	return 0;
}

static int exec(struct sql *s, const char *text)
{
	return sql_error(s, sqlite3_exec(s->db, text, NULL, NULL, NULL));
}

/* A file without a table: its making was cut short, and it is as good as none. */
static int look(struct sql *s)
{
	int64_t tables = 0;
	int r = exec(s, "PRAGMA cache_size = -256");

	r = r ? r : sql_number(s, "SELECT count(*) FROM sqlite_master", 0, &tables);
	return r ? r : tables ? 0 : -ENOENT;
}

static int open_read(struct sql *s, const char *path)
{
	CLEANUP(freep) char *log = mem_printf("%s-wal", path);
	bool frozen = access(log, F_OK) != 0;

	int r = open_file(s, path, SQLITE_OPEN_READONLY, frozen);
	r = r ? r : look(s);
	if (r && r != -ENOENT) {
		/* The other way, before giving up: a log has come, or cannot be read. */
		sql_close(s);
		r = open_file(s, path, SQLITE_OPEN_READONLY, !frozen);
		r = r ? r : look(s);
	}
	return r;
}

static int open_write(struct sql *s, const char *path, const char *schema)
{
	int64_t tables;
	int r = open_file(s, path, SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE, false);

	r = r ? r
	      : exec(s, "PRAGMA auto_vacuum = INCREMENTAL; PRAGMA journal_mode = WAL;"
			"PRAGMA synchronous = NORMAL; PRAGMA wal_autocheckpoint = 128;"
			"PRAGMA journal_size_limit = 262144; PRAGMA cache_size = -256");
	r = r ? r : sql_number(s, "SELECT count(*) FROM sqlite_master", 0, &tables);
	if (r || tables)
		return r;
	r = sql_begin(s);
	r = r ? r : exec(s, schema);
	return r ? r : sql_commit(s);
}

int sql_open(struct sql *s, const char *path, enum sql_mode mode, const char *schema)
{
	struct stat st;

	*s = (struct sql){};
	if (mode == SQL_READ && stat(path, &st) < 0)
		return -errno;
	int r = mode == SQL_READ ? open_read(s, path) : open_write(s, path, schema);
	if (!r && stat(path, &st) < 0)
		r = -errno;
	if (r) {
		sql_close(s);
		return r;
	}
	s->path = mem_strdup(path);
	s->device = st.st_dev;
	s->inode = st.st_ino;
	return 0;
}

void sql_close(struct sql *s)
{
	for (unsigned i = 0; i < s->cached_count; i++)
		sqlite3_finalize(s->cached[i].statement);
	sqlite3_close(s->db);
	free(s->path);
	*s = (struct sql){};
}

bool sql_is_gone(const struct sql *s)
{
	struct stat st;

	return stat(s->path, &st) < 0 || st.st_dev != s->device || st.st_ino != s->inode;
}

static sqlite3_stmt *statement(struct sql *s, const char *text)
{
	sqlite3_stmt *st = NULL;

	for (unsigned i = 0; i < s->cached_count; i++)
		if (s->cached[i].text == text)
			return s->cached[i].statement;
	if (sqlite3_prepare_v3(s->db, text, -1, SQLITE_PREPARE_PERSISTENT, &st, NULL) != SQLITE_OK)
		return NULL;
	if (s->cached_count == SQL_STATEMENTS) {
		sqlite3_finalize(s->cached[0].statement);
		memmove(&s->cached[0], &s->cached[1], sizeof(s->cached[0]) * (SQL_STATEMENTS - 1));
		s->cached_count--;
	}
	s->cached[s->cached_count].text = text;
	s->cached[s->cached_count++].statement = st;
	return st;
}

static sqlite3_stmt *ask(struct sql *s, const char *text, const char *values, va_list ap)
{
	sqlite3_stmt *st = statement(s, text);

	for (int i = 1; st && *values; i++, values++) {
		if (*values == 'i') {
			sqlite3_bind_int64(st, i, va_arg(ap, int64_t));
		} else if (*values == 't') {
			sqlite3_bind_text(st, i, va_arg(ap, const char *), -1, SQLITE_STATIC);
		} else {
			const void *bytes = va_arg(ap, const void *);
			size_t len = va_arg(ap, size_t);
			if (bytes)
				sqlite3_bind_blob64(st, i, bytes, len, SQLITE_STATIC);
		}
	}
	return st;
}

sqlite3_stmt *sql_ask(struct sql *s, const char *text, const char *values, ...)
{
	va_list ap;

	va_start(ap, values);
	sqlite3_stmt *st = ask(s, text, values, ap);
	va_end(ap);
	return st;
}

int sql_step(struct sql *s, sqlite3_stmt *st)
{
	int rc = st ? sqlite3_step(st) : sqlite3_extended_errcode(s->db);

	/* A table or column that is not there: no file of ours. */
	if (!st && rc == SQLITE_ERROR)
		return -EUCLEAN;
	return rc == SQLITE_ROW ? 1 : sql_error(s, rc);
}

void sql_end(sqlite3_stmt *st)
{
	if (!st)
		return;
	sqlite3_reset(st);
	sqlite3_clear_bindings(st);
}

int sql_run(struct sql *s, const char *text, const char *values, ...)
{
	va_list ap;

	va_start(ap, values);
	sqlite3_stmt *st = ask(s, text, values, ap);
	va_end(ap);
	int r = sql_step(s, st);
	sql_end(st);
	return r < 0 ? r : 0;
}

int sql_number(struct sql *s, const char *text, int64_t none, int64_t *ret)
{
	sqlite3_stmt *st = sql_ask(s, text, "");
	int r = sql_step(s, st);

	if (r >= 0)
		*ret = r && sqlite3_column_type(st, 0) != SQLITE_NULL ? sqlite3_column_int64(st, 0)
								      : none;
	sql_end(st);
	return r < 0 ? r : 0;
}

int sql_begin(struct sql *s)
{
	return sql_run(s, "BEGIN IMMEDIATE", "");
}

int sql_commit(struct sql *s)
{
	int r = sql_run(s, "COMMIT", "");

	if (r)
		sql_rollback(s);
	return r;
}

void sql_rollback(struct sql *s)
{
	if (s->db && !sqlite3_get_autocommit(s->db))
		sql_run(s, "ROLLBACK", "");
}
