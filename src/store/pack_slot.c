/*
 * What is done as time passes: the windows of five minutes are packed, added to the month's
 * roll-up, and their sample times go to a file of their own; of twelve roll-ups one of an hour is
 * made.
 *
 * Each of these is a transaction in another file, and the process may end between any two:
 *
 * 1. accounts.db counts the windows. Only then are they packed, for counts are made up for from
 *    windows that are not.
 * 2. The month adds those windows that it has not added: `rolled` says for each five minutes from
 *    which file of the day, and up to which id, it did. So none is added twice or left out, and
 *    what came late, or into a new file after the day's was lost, is added to what is there.
 * 3. times/HOUR.db gets the sample times of the pack that is about to be, under its `through`.
 * 4. The day replaces the windows and the pack by one pack, with its `through`.
 *
 * A reader uses a roll-up only if it has all that the day has: by 2, if `rolled` names the day's
 * file and is not behind it. An hour whose five minutes changed is named in `stale` by the same
 * transaction, and not used until it is made anew.
 */
#include <errno.h>
#include <sys/stat.h>

#include "store/local_internal.h"

#define PACK_LEVEL 6
#define CUTS_MAX   16 /* halves of the rows of a blob that is too large */

static const char times_schema[] =
	"CREATE TABLE meta(key TEXT PRIMARY KEY, value) WITHOUT ROWID;"
	"INSERT INTO meta VALUES('format', 1);"
	"CREATE TABLE times(id INTEGER PRIMARY KEY, slot INTEGER NOT NULL, type INTEGER NOT NULL,"
	" raw INTEGER NOT NULL, through INTEGER NOT NULL, times BLOB NOT NULL);"
	"CREATE UNIQUE INDEX times_by_slot ON times(slot, type, raw, through);";

struct gather { /* room that is used again and again */
	struct columns_reader rows;
	struct columns_times times;
	uint16_t *steps;
	size_t step_cap;
};

static void gather_done(struct gather *g)
{
	columns_reader_done(&g->rows);
	columns_times_done(&g->times);
	free(g->steps);
}

static void window_add(struct columns_window *to, const struct columns_window *from)
{
	to->messages += from->messages;
	to->lost += from->lost;
	to->restarted |= from->restarted;
}

/* Adds a blob, and the times of its rows if there are any, to `c`. */
static int gather(struct gather *g, const void *blob, size_t len, const void *times,
		  size_t times_len, uint64_t period, struct columns *c)
{
	struct columns_row row;
	uint32_t known = 0;

	if (columns_open(&g->rows, blob, len, period) < 0 ||
	    (times && columns_times_open(&g->times, times, times_len) < 0))
		return -EUCLEAN;
	CLEANUP(freep)
	uint32_t *place = mem_alloc_array(g->rows.window_count + 1, sizeof(*place));
	for (uint32_t i = 0; i < g->rows.window_count; i++) {
		const struct columns_window *w = &g->rows.windows[i];
		place[i] = columns_window(c, w->start_ms, w->length_ms);
		window_add(&c->windows[place[i]], w);
	}
	while (columns_next(&g->rows, &row)) {
		if (times &&
		    !columns_times_next(&g->times, row.count, &g->steps, &g->step_cap, &known))
			return -EUCLEAN;
		columns_add(c, COLUMNS_SERIES(row.key), COLUMNS_STACK(row.key),
			    place[COLUMNS_WINDOW(row.key)], row.count, row.value, g->steps, known);
	}
	return g->rows.bad ? -EUCLEAN : 0;
}

/* The same for a column of a statement's row. */
static int gather_column(struct gather *g, sqlite3_stmt *st, int column, int times, uint64_t period,
			 struct columns *c)
{
	return gather(g, sqlite3_column_blob(st, column), (size_t)sqlite3_column_bytes(st, column),
		      times < 0 ? NULL : sqlite3_column_blob(st, times),
		      times < 0 ? 0 : (size_t)sqlite3_column_bytes(st, times), period, c);
}

/* ---- one slot ----------------------------------------------------------------------------------
 */

struct slot {
	int64_t start;        /* seconds */
	bool packed;          /* there is a pack */
	int64_t was, through; /* `through` of the pack, and of what it is to be */
	struct pack messages;
	int64_t *types;
	uint32_t type_count, type_cap;
	struct gather gather;
};

static void slot_done(struct slot *s)
{
	pack_done(&s->messages);
	free(s->types);
	gather_done(&s->gather);
}

struct message {
	int64_t instance;
	uint64_t sequence, part;
};

static int message_order(const void *a, const void *b)
{
	const struct message *x = a, *y = b;

	if (x->instance != y->instance)
		return x->instance < y->instance ? -1 : 1;
	if (x->sequence != y->sequence)
		return x->sequence < y->sequence ? -1 : 1;
	return (x->part > y->part) - (x->part < y->part);
}

/* The messages of the pack and those that waited, as in store.c. */
static int join_messages(struct partition *b, struct slot *s, const void *bytes, size_t len)
{
	struct unpack in = {bytes, (const uint8_t *)bytes + len, false};
	struct message m = {};
	CLEANUP(freep) struct message *all = NULL;
	size_t count = 0, cap = 0;
	int r;

	while (in.at < in.end) {
		m.instance += unpack_i64(&in);
		m.sequence += (uint64_t)unpack_i64(&in);
		m.part = unpack_u64(&in);
		if (in.bad)
			return -EUCLEAN;
		MEM_GROW(all, count, cap);
		all[count++] = m;
	}
	CLEANUP(sql_endp)
	sqlite3_stmt *st =
		sql_ask(&b->db, "SELECT id, instance, sequence, part FROM windows WHERE slot = ?",
			"i", s->start);
	while ((r = sql_step(&b->db, st)) > 0) {
		s->through = MAX(s->through, sqlite3_column_int64(st, 0));
		MEM_GROW(all, count, cap);
		all[count++] = (struct message){sqlite3_column_int64(st, 1),
						(uint64_t)sqlite3_column_int64(st, 2),
						(uint64_t)sqlite3_column_int64(st, 3)};
	}
	if (count)
		qsort(all, count, sizeof(*all), message_order);
	m = (struct message){};
	for (size_t i = 0; i < count; i++) {
		pack_i64(&s->messages, all[i].instance - m.instance);
		pack_i64(&s->messages, (int64_t)(all[i].sequence - m.sequence));
		pack_u64(&s->messages, all[i].part);
		m = all[i];
	}
	return r;
}

static int slot_load(struct partition *b, int64_t start, struct slot *ret)
{
	int r;

	*ret = (struct slot){.start = start};
	CLEANUP(sql_endp)
	sqlite3_stmt *st =
		sql_ask(&b->db, "SELECT through, messages FROM slots WHERE slot = ?", "i", start);
	if ((r = sql_step(&b->db, st)) < 0)
		return r;
	if (r) {
		ret->packed = true;
		ret->was = ret->through = sqlite3_column_int64(st, 0);
	}
	r = join_messages(b, ret, r ? sqlite3_column_blob(st, 1) : NULL,
			  r ? (size_t)sqlite3_column_bytes(st, 1) : 0);
	if (r)
		return r;
	CLEANUP(sql_endp)
	sqlite3_stmt *types = sql_ask(&b->db,
				      "SELECT type FROM windows WHERE slot = ?1 UNION"
				      " SELECT type FROM packs WHERE slot = ?1",
				      "i", start);
	while ((r = sql_step(&b->db, types)) > 0) {
		MEM_GROW(ret->types, ret->type_count, ret->type_cap);
		ret->types[ret->type_count++] = sqlite3_column_int64(types, 0);
	}
	return r;
}

/* What the day has of a type: the pack, if wanted, and windows after an id. */
static int slot_gather(struct partition *b, struct slot *s, int64_t type, bool pack, int64_t after,
		       sqlite3_stmt *pack_times, bool times, struct columns *c)
{
	const struct partition_type *t = partition_type_by_id(b, type);
	int r = 0;

	columns_clear(c);
	if (!t)
		return -EUCLEAN;
	if (pack) {
		CLEANUP(sql_endp)
		sqlite3_stmt *st =
			sql_ask(&b->db, "SELECT rows FROM packs WHERE slot = ? AND type = ?", "ii",
				s->start, type);
		r = sql_step(&b->db, st);
		if (r > 0)
			r = gather(&s->gather, sqlite3_column_blob(st, 0),
				   (size_t)sqlite3_column_bytes(st, 0),
				   pack_times ? sqlite3_column_blob(pack_times, 0) : NULL,
				   pack_times ? (size_t)sqlite3_column_bytes(pack_times, 0) : 0,
				   t->period, c);
		if (r)
			return r;
	}
	CLEANUP(sql_endp)
	sqlite3_stmt *st = sql_ask(&b->db,
				   "SELECT rows, times FROM windows WHERE slot = ? AND type = ? "
				   "AND id > ? ORDER BY id",
				   "iii", s->start, type, after);
	while ((r = sql_step(&b->db, st)) > 0) {
		r = gather_column(&s->gather, st, 0, times ? 1 : -1, t->period, c);
		if (r)
			return r;
	}
	return r;
}

/* ---- roll-ups ----------------------------------------------------------------------------------
 */

/* Rows of a day as one window of the month's, added to `to`. */
static void translate(struct local_store *s, struct partition *day, struct partition *month,
		      const struct columns *from, uint32_t window, struct columns *to)
{
	if (day->month_id != month->id) {
		remap_done(&day->to_month);
		day->month_id = month->id;
	}
	for (uint32_t i = 0; i < from->window_count; i++)
		window_add(&to->windows[window], &from->windows[i]);
	for (size_t i = 0; i < from->row_count; i++) {
		const struct columns_row *r = &from->rows[i];
		uint32_t series = COLUMNS_SERIES(r->key), stack = COLUMNS_STACK(r->key);
		if (!remap_row(&day->to_month, day->dict.p, &series, &stack, month->dict.p,
			       &s->month_caps))
			s->stats.rolled_other += r->count;
		columns_add(to, series, stack, window, r->count, r->value, NULL, 0);
	}
}

/*
 * The rows as a blob, in s->bytes. Of more than one holds, the smallest are counted together, as is
 * what a dictionary has no room for.
 */
static int write_rows(struct local_store *s, struct partition *b, struct columns *c,
		      uint64_t period, uint64_t *other)
{
	int r = -EFBIG;

	for (int tries = 0; tries < CUTS_MAX && r == -EFBIG; tries++) {
		if (tries)
			*other += columns_cut(c, remap_other(b->dict.p));
		s->bytes.len = 0;
		r = columns_write(c, period, PACK_LEVEL, &s->compressor, &s->bytes);
	}
	return r;
}

static int write_roll(struct local_store *s, struct partition *month, int64_t span, int64_t start,
		      int64_t type, uint64_t period, struct columns *c)
{
	columns_sort_merge(c);
	int r = write_rows(s, month, c, period, &s->stats.rolled_other);
	if (r)
		return r;
	return sql_run(&month->db,
		       "INSERT OR REPLACE INTO rolls(span, slot, type, rows) VALUES(?, ?, ?, ?)",
		       "iiib", span, start, type, s->bytes.bytes, s->bytes.len);
}

/* What is there of five minutes, an hour, as one window. */
static int gather_rolls(struct partition *month, struct gather *g, int64_t start, int64_t end,
			int64_t type, uint64_t period, uint32_t length_ms, struct columns *c)
{
	struct columns part = {};
	int r;

	columns_clear(c);
	uint32_t window = columns_window(c, (uint64_t)start * 1000, length_ms);
	CLEANUP(sql_endp)
	sqlite3_stmt *st = sql_ask(&month->db,
				   "SELECT rows FROM rolls WHERE span = 300 AND slot >= ? AND"
				   " slot < ? AND type = ?",
				   "iii", start, end, type);
	while ((r = sql_step(&month->db, st)) > 0) {
		columns_clear(&part);
		r = gather_column(g, st, 0, -1, period, &part);
		if (r)
			break;
		for (uint32_t i = 0; i < part.window_count; i++)
			window_add(&c->windows[window], &part.windows[i]);
		for (size_t i = 0; i < part.row_count; i++)
			columns_add(c, COLUMNS_SERIES(part.rows[i].key),
				    COLUMNS_STACK(part.rows[i].key), window, part.rows[i].count,
				    part.rows[i].value, NULL, 0);
	}
	columns_done(&part);
	return r;
}

static int roll_type(struct local_store *s, struct partition *day, struct partition *month,
		     struct slot *slot, int64_t type, bool pack, int64_t after)
{
	struct columns new = {};
	int64_t month_type = 0;
	int r = slot_gather(day, slot, type, pack, after, NULL, false, &new);
	const struct partition_type *t = partition_type_by_id(day, type);

	if (r == -EUCLEAN)
		r = -EBADMSG; /* the day, not the month, is damaged */
	if (!r && new.window_count) {
		r = partition_type(month, t->type, t->unit, t->period, &month_type);
		r = r ? r
		      : gather_rolls(month, &slot->gather, slot->start, slot->start + 1, month_type,
				     t->period, SLOT_S * 1000, &s->columns);
		if (!r) {
			translate(s, day, month, &new, 0, &s->columns);
			r = write_roll(s, month, SLOT_S, slot->start, month_type, t->period,
				       &s->columns);
		}
	}
	columns_done(&new);
	return r;
}

static int roll_slot(struct local_store *s, struct partition *day, struct partition *month,
		     struct slot *slot)
{
	struct entries_mark mark;
	int64_t raw = 0, through = 0, hour = slot->start / HOUR_S * HOUR_S;
	int r;

	{
		CLEANUP(sql_endp)
		sqlite3_stmt *st =
			sql_ask(&month->db, "SELECT raw, through FROM rolled WHERE slot = ?", "i",
				slot->start);
		if ((r = sql_step(&month->db, st)) < 0)
			return r;
		if (r) {
			raw = sqlite3_column_int64(st, 0);
			through = sqlite3_column_int64(st, 1);
		}
	}
	bool same = raw == day->id;
	if (same && through >= slot->through)
		return 0;
	/* The month is older than the day, as from a backup: begin anew. */
	bool anew = same && through < slot->was;
	bool pack = slot->packed && (!same || anew);

	r = sql_begin(&month->db);
	if (anew)
		r = r ? r
		      : sql_run(&month->db, "DELETE FROM rolls WHERE span = 300 AND slot = ?", "i",
				slot->start);
	for (uint32_t i = 0; i < slot->type_count && !r; i++)
		r = roll_type(s, day, month, slot, slot->types[i], pack,
			      same && !anew ? through : 0);
	r = r ? r : dict_write(&month->dict, &month->db, &mark);
	r = r ? r
	      : sql_run(&month->db, "INSERT OR REPLACE INTO rolled VALUES(?, ?, ?)", "iii",
			slot->start, day->id, slot->through);
	r = r ? r : sql_run(&month->db, "INSERT OR IGNORE INTO stale VALUES(?)", "i", hour);
	if (r)
		sql_rollback(&month->db);
	else
		r = sql_commit(&month->db);
	if (r)
		return r;
	dict_written(&month->dict, &mark);
	local_todo_month(s, month->number);
	s->stats.rolls++;
	return 0;
}

int local_roll_hour(struct local_store *s, struct partition *month, int64_t hour)
{
	struct entries_mark mark;
	struct gather g = {};
	int r = sql_begin(&month->db);

	for (uint32_t i = 0; i < month->type_count && !r; i++) {
		const struct partition_type *t = &month->types[i];
		r = gather_rolls(month, &g, hour, hour + HOUR_S, t->id, t->period, HOUR_S * 1000,
				 &s->columns);
		if (!r && s->columns.windows[0].messages)
			r = write_roll(s, month, HOUR_S, hour, t->id, t->period, &s->columns);
	}
	gather_done(&g);
	r = r ? r : dict_write(&month->dict, &month->db, &mark);
	r = r ? r : sql_run(&month->db, "DELETE FROM stale WHERE hour = ?", "i", hour);
	if (r)
		sql_rollback(&month->db);
	else
		r = sql_commit(&month->db);
	if (!r)
		dict_written(&month->dict, &mark);
	s->stats.rolls += !r;
	return r;
}

/* ---- packing -----------------------------------------------------------------------------------
 */

/*
 * Writes the pack of a type to the day, in the caller's transaction, and its times (`times` is
 * NULL: they are no longer kept) in theirs.
 */
static int pack_type(struct local_store *s, struct partition *day, struct slot *slot, int64_t type,
		     struct sql *times)
{
	struct columns *c = &s->columns;
	const struct partition_type *t = partition_type_by_id(day, type);
	int r = 0;

	CLEANUP(sql_endp) sqlite3_stmt *old = NULL;
	if (times && slot->packed) {
		old = sql_ask(times,
			      "SELECT times FROM times WHERE slot = ? AND type = ? AND raw = ? AND"
			      " through = ?",
			      "iiii", slot->start, type, day->id, slot->was);
		if ((r = sql_step(times, old)) < 0)
			return r;
	}
	r = slot_gather(day, slot, type, slot->packed, 0, r ? old : NULL, times, c);
	if (r)
		return r;
	columns_sort_merge(c);
	s->more.len = 0;
	r = write_rows(s, day, c, t->period, &s->stats.other_samples);
	r = r ? r
	      : sql_run(&day->db, "INSERT OR REPLACE INTO packs(slot, type, rows) VALUES(?, ?, ?)",
			"iib", slot->start, type, s->bytes.bytes, s->bytes.len);
	if (r || !times || !c->time_count)
		return r;
	if (columns_write_times(c, PACK_LEVEL, &s->compressor, &s->more) == -EFBIG) {
		s->stats.untimed_packs++; /* more than anybody could read: rows without times */
		return 0;
	}
	return sql_run(times,
		       "INSERT OR REPLACE INTO times(slot, type, raw, through, times)"
		       " VALUES(?, ?, ?, ?, ?)",
		       "iiiib", slot->start, type, day->id, slot->through, s->more.bytes,
		       s->more.len);
}

static int open_times(struct local_store *s, int64_t slot, struct sql *ret)
{
	CLEANUP(freep) char *path = local_times_path(s->dir, slot / HOUR_S);
	CLEANUP(freep) char *folder = mem_printf("%s/times", s->dir);

	mkdir(folder, 0750);
	int r = sql_open(ret, path, SQL_WRITE, times_schema);
	if (r == -EUCLEAN) {
		local_set_aside(s, path);
		r = sql_open(ret, path, SQL_WRITE, times_schema);
	}
	return r;
}

static int pack_in(struct local_store *s, struct partition *day, struct slot *slot,
		   struct sql *times)
{
	struct entries_mark mark;
	int r = times ? sql_begin(times) : 0;

	r = r ? r : sql_begin(&day->db);
	for (uint32_t i = 0; i < slot->type_count && !r; i++)
		r = pack_type(s, day, slot, slot->types[i], times);
	if (times)
		r = r ? r
		      : sql_run(times,
				"DELETE FROM times WHERE slot = ? AND (raw != ? OR through < ?)",
				"iii", slot->start, day->id, slot->was);
	r = r ? r
	      : sql_run(&day->db, "INSERT OR REPLACE INTO slots VALUES(?, ?, ?)", "iib",
			slot->start, slot->through, slot->messages.bytes, slot->messages.len);
	r = r ? r : sql_run(&day->db, "DELETE FROM windows WHERE slot = ?", "i", slot->start);
	r = r ? r : dict_write(&day->dict, &day->db, &mark);
	/* The times first: a pack without them would be all there is. */
	if (times && !r)
		r = sql_commit(times);
	if (!r)
		r = sql_commit(&day->db);
	if (r) {
		if (times)
			sql_rollback(times);
		sql_rollback(&day->db);
		return r;
	}
	dict_written(&day->dict, &mark);
	return 0;
}

static int pack_slot(struct local_store *s, struct partition *day, struct slot *slot,
		     uint64_t now_ms)
{
	struct sql times;

	if ((uint64_t)slot->start * 1000 + s->o.times_ms < now_ms)
		return pack_in(s, day, slot, NULL);
	int r = open_times(s, slot->start, &times);
	if (r)
		return r;
	r = pack_in(s, day, slot, &times);
	sql_close(&times);
	return r;
}

int local_pack_slot(struct local_store *s, int64_t day_number, int64_t start, uint64_t now_ms)
{
	struct partition *day, *month;
	struct slot slot = {};

	int r = accounts_sync(&s->accounts);
	if (r == -EUCLEAN) {
		local_set_aside(s, s->accounts.path);
		r = accounts_sync(&s->accounts);
	}
	r = r ? r : local_day(s, day_number, &day);
	if (r)
		return r;
	r = slot_load(day, start, &slot);
	if (!r) {
		r = local_month(s, partition_month(start), &month);
		if (!r) {
			r = roll_slot(s, day, month, &slot);
			if (r && r != -EBADMSG)
				local_drop(s, month, r);
		}
		if (r == -EUCLEAN)
			r = -EAGAIN; /* a new month has begun: once more, with that */
		else if (r == -EBADMSG)
			r = -EUCLEAN;
		else if (!r && slot.through != slot.was)
			r = pack_slot(s, day, &slot, now_ms);
	}
	slot_done(&slot);
	if (r && r != -ENOSPC && r != -EAGAIN)
		local_drop(s, day, r);
	s->stats.packs += !r;
	return r;
}
