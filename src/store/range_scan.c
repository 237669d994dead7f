#include "store/range_scan.h"

#include <errno.h>
#include <time.h>

#define RAW_SPAN                                                                                   \
	(6 * 12) /* slots: up to so many the day's own dictionary is quicker than the month's */
#define SLOTS_MAX (12 * 24 * 366 * 20)

enum choice { NOTHING, RAW, SLOT, HOUR };

struct raw_day {
	int64_t day;
	struct partition *partition; /* in a read transaction; NULL: none, or not needed */
	int64_t id;
};

struct plan {
	int64_t first; /* slots, in units of SLOT_S */
	uint32_t count;
	uint8_t *choice;
	int64_t *through; /* of the day; 0: it has nothing */
	struct raw_day *days;
	uint32_t day_count;
	uint32_t raw_slots, done, todo; /* blobs read, and to read */
};

static void plan_done(struct plan *p)
{
	for (uint32_t i = 0; i < p->day_count; i++)
		partition_close(p->days[i].partition);
	free(p->days);
	free(p->choice);
	free(p->through);
}

/* The range, no wider than the files that there are. */
static void bound(struct range_scan *w, struct plan *p)
{
	CLEANUP(freep) int64_t *days = NULL, *months = NULL;
	uint32_t d = local_list(w->s->dir, LOCAL_RAW, &days);
	uint32_t m = local_list(w->s->dir, LOCAL_ROLL, &months);
	int64_t from = INT64_MAX, to = 0;

	for (uint32_t i = 0; i < d; i++) {
		from = MIN(from, days[i] * DAY_S);
		to = MAX(to, (days[i] + 1) * DAY_S);
	}
	for (uint32_t i = 0; i < m; i++) {
		struct tm tm = {.tm_year = (int)(months[i] / 12) - 1900,
				.tm_mon = (int)(months[i] % 12),
				.tm_mday = 1};
		from = MIN(from, timegm(&tm));
		tm.tm_mon++;
		to = MAX(to, timegm(&tm));
	}
	from = MAX(from, (int64_t)(w->from_ms / 1000));
	to = MIN(to, (int64_t)((w->to_ms + 999) / 1000));
	if (from >= to)
		return;
	p->first = from / SLOT_S;
	p->count = (uint32_t)MIN((to + SLOT_S - 1) / SLOT_S - p->first, SLOTS_MAX);
	p->choice = mem_alloc_array(p->count, 1);
	p->through = mem_alloc_array(p->count, sizeof(*p->through));
	p->days = mem_alloc_array(d + 1, sizeof(*p->days));
	for (uint32_t i = 0; i < d; i++)
		if ((days[i] + 1) * DAY_S > p->first * SLOT_S &&
		    days[i] * DAY_S < (p->first + p->count) * SLOT_S)
			p->days[p->day_count++].day = days[i];
}

static void damaged(struct range_scan *w, enum partition_kind kind, int64_t number, int r)
{
	struct store_answer *a = w->answer;

	if (r == -ENOENT)
		return;
	a->damaged++;
	a->refused += r == -EACCES || r == -EPERM;
	a->newer += r == -EPROTONOSUPPORT;
	if (!a->trouble[0]) {
		CLEANUP(freep) char *path = partition_path("", kind, number);
		snprintf(a->trouble, sizeof(a->trouble), "%s", path + 1);
	}
}

/* Which slots the day has, and up to where. */
static int plan_day(struct plan *p, struct raw_day *d)
{
	int r;
	CLEANUP(sql_endp)
	sqlite3_stmt *st = sql_ask(&d->partition->db,
				   "SELECT slot, through FROM slots WHERE slot >= ?1 AND slot < ?2"
				   " UNION ALL SELECT slot, max(id) FROM windows WHERE slot >= ?1"
				   " AND slot < ?2 GROUP BY slot",
				   "ii", p->first * SLOT_S, (p->first + p->count) * SLOT_S);

	while ((r = sql_step(&d->partition->db, st)) > 0) {
		int64_t i = sqlite3_column_int64(st, 0) / SLOT_S - p->first;
		if (i < 0 || i >= p->count)
			continue;
		p->through[i] = MAX(p->through[i], sqlite3_column_int64(st, 1));
		p->choice[i] = RAW;
	}
	return r;
}

static void plan_days(struct range_scan *w, struct plan *p)
{
	for (uint32_t i = 0; i < p->day_count; i++) {
		struct raw_day *d = &p->days[i];
		int r = partition_open(w->s->dir, PARTITION_RAW, d->day, SQL_READ, &d->partition);
		if (!r) {
			d->id = d->partition->id;
			r = sql_run(&d->partition->db, "BEGIN", "");
			r = r ? r : plan_day(p, d);
		}
		if (r) {
			damaged(w, PARTITION_RAW, d->day, r);
			partition_close(d->partition);
			d->partition = NULL;
		}
	}
}

static int64_t raw_id(const struct plan *p, int64_t slot)
{
	for (uint32_t i = 0; i < p->day_count; i++)
		if (p->days[i].day == slot * SLOT_S / DAY_S)
			return p->days[i].id;
	return 0;
}

static bool is_inside(const struct range_scan *w, const struct plan *p, uint32_t i)
{
	uint64_t start = (uint64_t)(p->first + i) * SLOT_S * 1000;

	return start >= w->from_ms && start + SLOT_S * 1000 <= w->to_ms;
}

/* Where the month's sum of five minutes is whole, and better than the windows: it is chosen. */
static int plan_month(struct range_scan *w, struct plan *p, struct partition *m, bool prefer_raw)
{
	int r;
	CLEANUP(sql_endp)
	sqlite3_stmt *st = sql_ask(
		&m->db, "SELECT slot, raw, through FROM rolled WHERE slot >= ? AND slot < ?", "ii",
		p->first * SLOT_S, (p->first + p->count) * SLOT_S);

	while ((r = sql_step(&m->db, st)) > 0) {
		int64_t slot = sqlite3_column_int64(st, 0) / SLOT_S, i = slot - p->first;
		if (i < 0 || i >= p->count)
			continue;
		if (p->choice[i] == RAW && (prefer_raw || !is_inside(w, p, (uint32_t)i) ||
					    sqlite3_column_int64(st, 1) != raw_id(p, slot) ||
					    sqlite3_column_int64(st, 2) < p->through[i]))
			continue;
		p->choice[i] = SLOT;
	}
	return r;
}

/* Hours all of whose five minutes are sums, or nothing. */
static int plan_hours(struct range_scan *w, struct plan *p, struct partition *m)
{
	int r;
	CLEANUP(sql_endp)
	sqlite3_stmt *st = sql_ask(&m->db,
				   "SELECT DISTINCT slot FROM rolls WHERE span = 3600 AND slot >= ?"
				   " AND slot < ? AND slot NOT IN (SELECT hour FROM stale)",
				   "ii", p->first * SLOT_S, (p->first + p->count) * SLOT_S);

	while ((r = sql_step(&m->db, st)) > 0) {
		int64_t first = sqlite3_column_int64(st, 0) / SLOT_S - p->first;
		bool all = first >= 0 && first + 12 <= p->count;
		for (int64_t i = first; all && i < first + 12; i++)
			all = is_inside(w, p, (uint32_t)i) && p->choice[i] != RAW;
		for (int64_t i = first; all && i < first + 12; i++)
			p->choice[i] = HOUR;
	}
	return r;
}

static bool go_on(struct range_scan *w, struct plan *p)
{
	double all = p->todo ? (double)p->done / p->todo : 0;

	p->done++;
	return !w->s->o.progress || w->s->o.progress(w->s->o.progress_ctx, MIN(all, 1));
}

/* The answer is of the time that windows tell of, also where they have nothing that matches. */
static void cover(struct range_scan *w, const struct columns_window *of)
{
	uint64_t end = of->start_ms + of->length_ms;

	w->covered_from = w->covered_to ? MIN(w->covered_from, of->start_ms) : of->start_ms;
	w->covered_to = MAX(w->covered_to, end);
}

/* Reads a blob and hands it on. */
static int visit(struct range_scan *w, struct plan *p, struct scanned_blob *b, sqlite3_stmt *st,
		 int column)
{
	const void *blob = sqlite3_column_blob(st, column);
	size_t len = (size_t)sqlite3_column_bytes(st, column);

	if (p->done % 16 == 0 && !go_on(w, p))
		return -ECANCELED;
	p->done++;
	w->answer->bytes += len;
	if (columns_open(b->rows, blob, len, b->type->period) < 0)
		return -EUCLEAN;
	for (uint32_t i = 0; i < b->rows->window_count; i++) {
		if (!range_scan_wants(b, i))
			continue;
		cover(w, &b->rows->windows[i]);
		w->answer->windows += b->rows->windows[i].messages;
		w->answer->lost += b->rows->windows[i].lost;
	}
	int r = w->blob(w->ctx, b);
	return r ? r : b->rows->bad ? -EUCLEAN : 0;
}

/*
 * The same for the row of that id. Lists of what there is are read from an index alone, so that
 * blobs which are not wanted are not touched.
 */
static int visit_row(struct range_scan *w, struct plan *p, struct scanned_blob *b, struct sql *db,
		     const char *text, int64_t id)
{
	CLEANUP(sql_endp) sqlite3_stmt *st = sql_ask(db, text, "i", id);
	int r = sql_step(db, st);

	return r > 0 ? visit(w, p, b, st, 0) : r;
}

static const struct partition_type *wanted_type(const struct range_scan *w,
						const struct partition *b, int64_t id)
{
	const struct partition_type *t = partition_type_by_id(b, id);

	return t && (w->all_types || strcmp(t->type, w->q->type) == 0) ? t : NULL;
}

/* ---- a day -------------------------------------------------------------------------------------
 */

struct times_file {
	struct sql db;
	int64_t hour;
};

/* The times of a pack, if they are kept: a statement that stands on them, or NULL. */
static sqlite3_stmt *pack_times(struct range_scan *w, struct times_file *f, int64_t slot,
				int64_t type, int64_t raw, int64_t through)
{
	if (!f->db.db || f->hour != slot / HOUR_S) {
		CLEANUP(freep) char *path = local_times_path(w->s->dir, slot / HOUR_S);
		sql_close(&f->db);
		f->hour = slot / HOUR_S;
		if (sql_open(&f->db, path, SQL_READ, NULL) < 0)
			return NULL;
	}
	sqlite3_stmt *st = sql_ask(&f->db,
				   "SELECT times FROM times WHERE slot = ? AND type = ? AND raw = ?"
				   " AND through = ?",
				   "iiii", slot, type, raw, through);
	if (sql_step(&f->db, st) > 0)
		return st;
	sql_end(st);
	return NULL;
}

/* Whether a row of packs or windows, which begins with slot and type, is asked for. */
static bool wants_row(const struct range_scan *w, const struct plan *p, const struct partition *b,
		      sqlite3_stmt *st, struct scanned_blob *blob)
{
	int64_t slot = sqlite3_column_int64(st, 0);

	blob->type = wanted_type(w, b, sqlite3_column_int64(st, 1));
	return blob->type && p->choice[slot / SLOT_S - p->first] == RAW;
}

/* The times of rows, if the statement has readable ones; else NULL. */
static struct columns_times *read_times(struct columns_times *t, sqlite3_stmt *st, int column)
{
	if (!st || sqlite3_column_type(st, column) != SQLITE_BLOB ||
	    columns_times_open(t, sqlite3_column_blob(st, column),
			       (size_t)sqlite3_column_bytes(st, column)) != 0)
		return NULL;
	return t;
}

static int scan_packs(struct range_scan *w, struct plan *p, struct partition *b,
		      struct scanned_blob *blob)
{
	struct columns_times times = {};
	struct times_file file = {};
	int r;
	CLEANUP(sql_endp)
	sqlite3_stmt *st = sql_ask(&b->db,
				   "SELECT p.slot, p.type, p.id, s.through FROM packs p"
				   " JOIN slots s ON s.slot = p.slot"
				   " WHERE p.slot >= ? AND p.slot < ? ORDER BY p.slot",
				   "ii", p->first * SLOT_S, (p->first + p->count) * SLOT_S);

	while ((r = sql_step(&b->db, st)) > 0) {
		if (!wants_row(w, p, b, st, blob))
			continue;
		sqlite3_stmt *of = NULL;
		if (w->times)
			of = pack_times(w, &file, sqlite3_column_int64(st, 0), blob->type->id,
					b->id, sqlite3_column_int64(st, 3));
		blob->times = read_times(&times, of, 0);
		r = visit_row(w, p, blob, &b->db, "SELECT rows FROM packs WHERE id = ?",
			      sqlite3_column_int64(st, 2));
		sql_end(of);
		if (r)
			break;
	}
	blob->times = NULL;
	columns_times_done(&times);
	sql_close(&file.db);
	return r;
}

static int scan_windows(struct range_scan *w, struct plan *p, struct partition *b,
			struct scanned_blob *blob)
{
	struct columns_times times = {};
	int r;
	CLEANUP(sql_endp)
	sqlite3_stmt *st = sql_ask(&b->db,
				   "SELECT slot, type, rows, times FROM windows"
				   " WHERE slot >= ? AND slot < ? ORDER BY slot, id",
				   "ii", p->first * SLOT_S, (p->first + p->count) * SLOT_S);

	while ((r = sql_step(&b->db, st)) > 0) {
		if (!wants_row(w, p, b, st, blob))
			continue;
		blob->times = read_times(&times, w->times ? st : NULL, 3);
		r = visit(w, p, blob, st, 2);
		if (r)
			break;
	}
	blob->times = NULL;
	columns_times_done(&times);
	return r;
}

static int scan_rolls(struct range_scan *w, struct plan *p, struct partition *b,
		      struct scanned_blob *blob)
{
	int r;
	CLEANUP(sql_endp)
	sqlite3_stmt *st =
		sql_ask(&b->db,
			"SELECT span, slot, type, id FROM rolls WHERE span IN (300, 3600)"
			" AND slot >= ? AND slot < ? ORDER BY span, slot",
			"ii", p->first * SLOT_S, (p->first + p->count) * SLOT_S);

	while ((r = sql_step(&b->db, st)) > 0) {
		enum choice kind = sqlite3_column_int64(st, 0) == HOUR_S ? HOUR : SLOT;
		int64_t i = sqlite3_column_int64(st, 1) / SLOT_S - p->first;
		blob->type = wanted_type(w, b, sqlite3_column_int64(st, 2));
		if (!blob->type || i < 0 || i >= p->count || p->choice[i] != kind)
			continue;
		r = visit_row(w, p, blob, &b->db, "SELECT rows FROM rolls WHERE id = ?",
			      sqlite3_column_int64(st, 3));
		if (r)
			break;
	}
	return r;
}

/* All that is wanted of one file. What it holds counts as damaged from where it is. */
static int scan_partition(struct range_scan *w, struct plan *p, struct partition *b)
{
	struct columns_reader rows = {};
	struct dict_view view = {};
	struct scanned_blob blob = {
		.rows = &rows,
		.from_ms = w->from_ms,
		.to_ms = w->to_ms,
		.sum = b->kind == PARTITION_ROLL,
	};

	int r = dict_view_load(&view, &b->db);
	w->answer->files++;
	w->answer->bytes += view.bytes;
	if (!r && !(r = w->file(w->ctx, &view))) {
		if (b->kind == PARTITION_ROLL) {
			r = scan_rolls(w, p, b, &blob);
		} else {
			r = scan_packs(w, p, b, &blob);
			r = r ? r : scan_windows(w, p, b, &blob);
		}
		int end = w->file_end(w->ctx);
		r = r ? r : end;
	}
	if (r && r != -ECANCELED && r != -ENODATA && r != -ENOBUFS) {
		damaged(w, b->kind, b->number, r);
		r = 0;
	}
	columns_reader_done(&rows);
	dict_view_done(&view);
	return r;
}

static bool day_is_used(const struct plan *p, int64_t day)
{
	for (uint32_t i = 0; i < p->count; i++)
		if (p->choice[i] == RAW && (p->first + i) * SLOT_S / DAY_S == day)
			return true;
	return false;
}

static bool month_is_used(const struct plan *p, int64_t month)
{
	for (uint32_t i = 0; i < p->count; i++)
		if ((p->choice[i] == SLOT || p->choice[i] == HOUR) &&
		    partition_month((p->first + i) * SLOT_S) == month)
			return true;
	return false;
}

static void count_blobs(struct range_scan *w, struct plan *p)
{
	for (uint32_t i = 0; i < p->count; i++) {
		bool next_hour = (p->first + i) % 12 == 0;
		p->todo += p->choice[i] == RAW || p->choice[i] == SLOT ||
			   (p->choice[i] == HOUR && next_hour);
		if (p->choice[i] == SLOT) {
			uint64_t start = (uint64_t)(p->first + i) * SLOT_S * 1000;
			w->answer->from_ms = MIN(w->answer->from_ms, start);
			w->answer->to_ms = MAX(w->answer->to_ms, start + SLOT_S * 1000);
		}
	}
}

/* Decides about a month while it is open, reads it, and closes it. */
static int scan_month(struct range_scan *w, struct plan *p, int64_t month, bool prefer_raw,
		      bool read)
{
	CLEANUP(partition_closep) struct partition *m = NULL;
	int r = partition_open(w->s->dir, PARTITION_ROLL, month, SQL_READ, &m);

	if (!r)
		r = sql_run(&m->db, "BEGIN", "");
	if (!r && !read) {
		r = plan_month(w, p, m, prefer_raw);
		if (!r && w->hours)
			r = plan_hours(w, p, m);
	} else if (!r) {
		return scan_partition(w, p, m);
	}
	if (r)
		damaged(w, PARTITION_ROLL, month, r);
	return 0;
}

static int scan_all(struct range_scan *w, struct plan *p)
{
	CLEANUP(freep) int64_t *months = NULL;
	uint32_t count = 0;
	int r = 0;

	plan_days(w, p);
	if (!w->q->raw_only && !w->times)
		count = local_list(w->s->dir, LOCAL_ROLL, &months);
	int64_t first = partition_month(p->first * SLOT_S);
	int64_t last = partition_month((p->first + p->count) * SLOT_S - 1);
	for (uint32_t i = 0; i < count; i++)
		if (months[i] >= first && months[i] <= last)
			scan_month(w, p, months[i], w->prefer_raw || p->count <= RAW_SPAN, false);
	count_blobs(w, p);
	for (uint32_t i = 0; i < p->day_count; i++) {
		if (!day_is_used(p, p->days[i].day)) {
			partition_close(p->days[i].partition);
			p->days[i].partition = NULL;
		}
	}
	for (uint32_t i = 0; i < count && !r; i++)
		if (months[i] >= first && months[i] <= last && month_is_used(p, months[i]))
			r = scan_month(w, p, months[i], false, true);
	for (uint32_t i = 0; i < p->day_count && !r; i++) {
		if (!p->days[i].partition)
			continue;
		r = scan_partition(w, p, p->days[i].partition);
		partition_close(p->days[i].partition);
		p->days[i].partition = NULL;
	}
	return r;
}

int range_scan(struct range_scan *w)
{
	struct plan p = {};
	int r = 0;

	w->answer->from_ms = w->from_ms;
	w->answer->to_ms = w->to_ms;
	bound(w, &p);
	if (p.count)
		r = scan_all(w, &p);
	plan_done(&p);
	if (w->covered_to) {
		w->answer->from_ms = MAX(w->answer->from_ms, w->covered_from);
		w->answer->to_ms = MIN(w->answer->to_ms, w->covered_to);
	}
	return r;
}
