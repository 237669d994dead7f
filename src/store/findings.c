/*
 * Findings: a table in the file of the day in which they were told of, a row for each. One that
 * lasts is a row that is replaced; one that lasts over midnight is a row in both files, of which
 * the later one is true. Files of older versions have no such table: it is made when it is needed.
 */
#include <errno.h>

#include "store/local_internal.h"
#include "store/operations.h"

#define SCHEMA                                                                                     \
	"CREATE TABLE IF NOT EXISTS findings(instance BLOB NOT NULL, id INTEGER NOT NULL,"         \
	" began INTEGER NOT NULL, until INTEGER NOT NULL, body BLOB NOT NULL,"                     \
	" PRIMARY KEY(instance, id)) WITHOUT ROWID"
#define DAY_MAX 10000 /* rows in a day's file: the oldest go */

static int write_one(struct partition *b, const struct finding *f)
{
	struct pack body = {};

	finding_write(f, &body);
	int r = sql_run(&b->db,
			"INSERT INTO findings(instance, id, began, until, body)"
			" VALUES(?, ?, ?, ?, ?) ON CONFLICT(instance, id) DO UPDATE"
			" SET until = excluded.until, body = excluded.body"
			" WHERE excluded.until >= until",
			"biiib", f->instance, sizeof(f->instance), (int64_t)f->id,
			(int64_t)f->began_ms, (int64_t)f->until_ms, body.bytes, body.len);
	pack_done(&body);
	return r;
}

int local_append_findings(struct partition *b, const struct window *w)
{
	int r = sql_begin(&b->db);

	r = r ? r : sql_run(&b->db, SCHEMA, "");
	for (uint32_t i = 0; i < w->finding_count && !r; i++)
		r = write_one(b, &w->findings[i]);
	r = r ? r
	      : sql_run(&b->db,
			"DELETE FROM findings WHERE (SELECT count(*) FROM findings) > ?"
			" AND until = (SELECT min(until) FROM findings)",
			"i", (int64_t)DAY_MAX);
	if (r)
		sql_rollback(&b->db);
	else
		r = sql_commit(&b->db);
	return r;
}

static int read_day(struct partition *b, const struct store_query *q, struct store_findings *to)
{
	int64_t there = 0;
	int r = sql_number(&b->db, "SELECT 1 FROM sqlite_master WHERE name = 'findings'", 0,
			   &there);

	if (r || !there)
		return r;
	CLEANUP(sql_endp)
	sqlite3_stmt *st = sql_ask(
		&b->db,
		"SELECT instance, body FROM findings WHERE began < ? AND until >= ?"
		" ORDER BY until DESC LIMIT ?",
		"iii", (int64_t)q->to_ms, (int64_t)q->from_ms, (int64_t)STORE_FINDINGS_MAX + 1);
	while ((r = sql_step(&b->db, st)) > 0) {
		const uint8_t *bytes = sqlite3_column_blob(st, 1);
		struct unpack in = {bytes, bytes + sqlite3_column_bytes(st, 1), false};
		struct finding f;
		finding_read(&in, &f);
		if (in.bad || sqlite3_column_bytes(st, 0) != sizeof(f.instance))
			continue;
		memcpy(f.instance, sqlite3_column_blob(st, 0), sizeof(f.instance));
		store_findings_add(to, &f);
	}
	return r;
}

static int by_time(const void *a, const void *b)
{
	const struct finding *x = a, *y = b;

	if (x->began_ms != y->began_ms)
		return x->began_ms < y->began_ms ? 1 : -1;
	return (x->id < y->id) - (x->id > y->id);
}

int local_findings(void *self, const struct store_query *q, struct store_findings *ret,
		   struct store_error *ret_err)
{
	struct local_store *s = self;
	CLEANUP(freep) int64_t *days = NULL;
	uint32_t count = local_list(s->dir, LOCAL_RAW, &days);
	int r = 0;

	(void)ret_err;
	*ret = (struct store_findings){};
	for (uint32_t i = count; i-- > 0 && !r;) {
		CLEANUP(partition_closep) struct partition *b = NULL;
		uint64_t start = (uint64_t)days[i] * DAY_MS;
		/* One may have begun on an earlier day: what it says of that is in later ones. */
		if (start >= q->to_ms || start + DAY_MS <= q->from_ms)
			continue;
		if (s->o.progress && !s->o.progress(s->o.progress_ctx, 1 - (double)i / count))
			r = -ECANCELED;
		else if (partition_open(s->dir, PARTITION_RAW, days[i], SQL_READ, &b) == 0)
			r = read_day(b, q, ret);
	}
	if (r)
		store_findings_done(ret);
	else
		qsort(ret->findings, ret->count, sizeof(*ret->findings), by_time);
	return r;
}
