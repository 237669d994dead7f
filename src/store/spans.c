/*
 * Spans: a table in the file of the day, with a row for each message of them: which samples of
 * which (series, stack) belong to which spans of traces (window_write_spans()), under the day's
 * ids. They are not packed: ids of traces are random, so nothing would be saved. When those of a
 * day are more than their share, the oldest go. Files of older versions have no such table: it is
 * made when it is needed.
 */
#include <errno.h>

#include "store/local_internal.h"

#define SCHEMA                                                                                     \
	"CREATE TABLE IF NOT EXISTS spans(id INTEGER PRIMARY KEY, instance BLOB NOT NULL,"         \
	" sequence INTEGER NOT NULL, part INTEGER NOT NULL, type INTEGER NOT NULL,"                \
	" start INTEGER NOT NULL, length INTEGER NOT NULL, rows BLOB NOT NULL,"                    \
	" UNIQUE(instance, sequence, part))"
#define LEVEL     3
#define SHARE     32 /* of the store: what the spans of a day may take */
#define KEPT      7  /* of 8, when they are more than that */
#define BYTES_MAX (1u << 20)

static int has_table(struct partition *b)
{
	int64_t there = 0;
	int r = sql_number(&b->db, "SELECT 1 FROM sqlite_master WHERE name = 'spans'", 0, &there);

	return r ? r : there != 0;
}

/* The rows by the ids of the day. */
static void translate(struct local_store *s, const struct profile *dict, const struct window *w,
		      struct partition *b, struct window *ret)
{
	struct remap *m = local_translation(s, w, dict, b);

	*ret = (struct window){
		.period = w->period,
		.spans = mem_dup(w->spans, w->span_count * sizeof(*w->spans)),
		.span_count = w->span_count,
		.span_rows = mem_dup(w->span_rows, w->span_row_count * sizeof(*w->span_rows)),
	};
	struct window_span_row *rows = ret->span_rows;
	for (uint32_t i = 0; i < w->span_row_count; i++) {
		struct window_span_row *r = &rows[i];
		remap_row(m, dict, &r->series, &r->stack, b->dict.p, &s->day_caps);
	}
	ret->span_row_count = window_sort_spans(rows, w->span_row_count);
}

/* The oldest go, if there are more than may be. */
static int make_room(struct local_store *s, struct partition *b, int64_t more, int64_t *ret_bytes)
{
	int64_t bytes = b->span_bytes, most = (int64_t)(s->o.max_bytes / SHARE);
	int r = 0;

	if (bytes < 0)
		r = sql_number(&b->db, "SELECT sum(length(rows)) FROM spans", 0, &bytes);
	bytes += more;
	if (r || bytes <= most) {
		*ret_bytes = bytes;
		return r;
	}
	r = sql_run(&b->db,
		    "DELETE FROM spans WHERE id <= (SELECT id FROM (SELECT id,"
		    " sum(length(rows)) OVER (ORDER BY id DESC) AS newer FROM spans)"
		    " WHERE newer > ? ORDER BY id DESC LIMIT 1)",
		    "i", most / 8 * KEPT);
	s->stats.spans_expired += r ? 0 : (uint64_t)sqlite3_changes(b->db.db);
	return r ? r : sql_number(&b->db, "SELECT sum(length(rows)) FROM spans", 0, ret_bytes);
}

static int write_spans(struct local_store *s, struct partition *b, const struct window *w,
		       const struct window *rows, int64_t *ret_bytes)
{
	int64_t type;
	struct pack plain = {};
	int r = sql_run(&b->db, SCHEMA, "");

	r = r ? r : partition_type(b, w->type, w->unit, w->period, &type);
	if (r)
		return r;
	window_write_spans(rows, &plain);
	s->bytes.len = 0;
	compressor_pack(&s->compressor, plain.bytes, plain.len, LEVEL, &s->bytes);
	pack_done(&plain);
	r = sql_run(&b->db,
		    "INSERT OR IGNORE INTO spans(instance, sequence, part, type, start, length,"
		    " rows) VALUES(?, ?, ?, ?, ?, ?, ?)",
		    "biiiiib", w->instance, sizeof(w->instance), (int64_t)w->sequence,
		    (int64_t)w->part, type, (int64_t)w->start_ms, (int64_t)w->length_ms,
		    s->bytes.bytes, s->bytes.len);
	if (!r && !sqlite3_changes(b->db.db))
		return -EEXIST;
	return r ? r : make_room(s, b, (int64_t)s->bytes.len, ret_bytes);
}

int local_append_spans(struct local_store *s, struct partition *b, const struct profile *dict,
		       const struct window *w)
{
	struct entries_mark mark;
	struct window rows;
	int64_t bytes = b->span_bytes;

	translate(s, dict, w, b, &rows);
	int r = sql_begin(&b->db);
	r = r ? r : dict_write(&b->dict, &b->db, &mark);
	r = r ? r : write_spans(s, b, w, &rows, &bytes);
	window_done(&rows);
	if (r) {
		sql_rollback(&b->db);
		/* What it added to the dictionary is written with the next. */
		if (r == -EEXIST && partition_load_types(b) < 0)
			return -EIO;
		return r;
	}
	r = sql_commit(&b->db);
	if (r)
		return r;
	dict_written(&b->dict, &mark);
	b->span_bytes = bytes;
	return 0;
}

int local_drop_spans(struct partition *b)
{
	int r = has_table(b);

	b->span_bytes = -1;
	return r > 0 ? sql_run(&b->db, "DELETE FROM spans", "") : r;
}

/* ---- reading --------------------------------------------------------------------------------- */

static int visit(struct span_scan *w, const struct partition *b, sqlite3_stmt *st,
		 struct compressor *z)
{
	const struct partition_type *t = partition_type_by_id(b, sqlite3_column_int64(st, 0));
	uint64_t start = (uint64_t)sqlite3_column_int64(st, 1);
	size_t len;

	if (!t || strcmp(t->type, w->q->type) != 0)
		return 0;
	int r = compressor_unpack(z, sqlite3_column_blob(st, 3),
				  (size_t)sqlite3_column_bytes(st, 3), BYTES_MAX, &len);
	if (r)
		return -EUCLEAN;
	struct unpack in = {z->bytes, z->bytes + len, false};
	struct window rows = {
		.start_ms = start,
		.length_ms = (uint32_t)sqlite3_column_int64(st, 2),
		.period = t->period,
	};
	r = window_read_spans(&in, &rows) ? w->spans(w->ctx, t, &rows) : -EUCLEAN;
	w->answer->bytes += len;
	w->answer->windows++;
	w->answer->from_ms = MIN(w->answer->from_ms, start);
	w->answer->to_ms = MAX(w->answer->to_ms, start + rows.length_ms);
	window_done(&rows);
	return r;
}

static int scan_day(struct span_scan *w, struct partition *b, const struct dict_view *v)
{
	struct compressor z = {};
	CLEANUP(sql_endp)
	sqlite3_stmt *st = sql_ask(&b->db,
				   "SELECT type, start, length, rows FROM spans"
				   " WHERE start + length > ? AND start < ? ORDER BY id",
				   "ii", (int64_t)w->from_ms, (int64_t)w->to_ms);
	int r = w->file(w->ctx, v), end;

	for (unsigned n = 0; !r && (r = sql_step(&b->db, st)) > 0; n++) {
		const struct store_options *o = &w->s->o;
		r = n % 16 == 0 && o->progress && !o->progress(o->progress_ctx, 0)
			    ? -ECANCELED
			    : visit(w, b, st, &z);
	}
	end = w->file_end(w->ctx);
	compressor_done(&z);
	return r ? r : end;
}

static int read_day(struct span_scan *w, int64_t day)
{
	CLEANUP(partition_closep) struct partition *b = NULL;
	struct dict_view view = {};
	int r = partition_open(w->s->dir, PARTITION_RAW, day, SQL_READ, &b);

	r = r ? r : sql_run(&b->db, "BEGIN", "");
	r = r ? r : has_table(b);
	if (r <= 0)
		return r == -ENOENT ? 0 : r;
	r = dict_view_load(&view, &b->db);
	w->answer->files++;
	w->answer->bytes += view.bytes;
	r = r ? r : scan_day(w, b, &view);
	dict_view_done(&view);
	return r;
}

int span_scan(struct span_scan *w)
{
	CLEANUP(freep) int64_t *days = NULL;
	uint32_t count = local_list(w->s->dir, LOCAL_RAW, &days);
	int r = 0;

	w->answer->from_ms = w->to_ms;
	w->answer->to_ms = w->from_ms;
	for (uint32_t i = 0; i < count && !r; i++) {
		uint64_t start = (uint64_t)days[i] * DAY_MS;
		if (start >= w->to_ms || start + DAY_MS <= w->from_ms)
			continue;
		r = read_day(w, days[i]);
		if (r && r != -ECANCELED && r != -EINVAL) {
			w->answer->damaged++;
			r = 0;
		}
	}
	if (!w->answer->windows) {
		w->answer->from_ms = w->from_ms;
		w->answer->to_ms = w->to_ms;
	}
	return r;
}
