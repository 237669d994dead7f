/*
 * What is to be done as time passes, one step at a time: which five minutes are over and quiet,
 * what the month does not have yet, which hours are to be summed up; pack_slot.c does it.
 */
#include <errno.h>

#include "store/local_internal.h"

#define LOOK_MS   20000
#define QUIET_MS  30000 /* after the latest message of five minutes they are packed */
#define HOUR_LATE 360   /* seconds after an hour until it is summed up */

static void todo_remove(struct local_todo *t, uint32_t i)
{
	t->numbers[i] = t->numbers[--t->count];
}

/* Five minutes that are over and quiet: 1, 0 when there are none (*ret: 1 if some will be). */
static int ready(struct partition *b, uint64_t now_ms, int64_t *ret)
{
	CLEANUP(sql_endp)
	sqlite3_stmt *st =
		sql_ask(&b->db,
			"SELECT slot, max(received) <= ?1 OR max(received) > ?2 FROM windows"
			" GROUP BY slot ORDER BY slot",
			"ii", (int64_t)(now_ms - QUIET_MS), (int64_t)(now_ms + HOUR_S * 1000));
	int r, waiting = 0;

	while ((r = sql_step(&b->db, st)) > 0) {
		*ret = sqlite3_column_int64(st, 0);
		waiting = 1;
		if (sqlite3_column_int(st, 1) && (*ret + SLOT_S) * 1000 <= (int64_t)now_ms)
			return 1;
	}
	*ret = waiting;
	return r;
}

static bool pack_step(struct local_store *s, uint64_t now_ms)
{
	for (uint32_t i = 0; i < s->pack_days.count;) {
		int64_t day = s->pack_days.numbers[i], slot = 0;
		struct partition *b;
		int r = local_day(s, day, &b);
		if (!r) {
			r = ready(b, now_ms, &slot);
			if (r == -EUCLEAN)
				local_drop(s, b, r);
		}
		if (r > 0)
			return local_pack_slot(s, day, slot, now_ms) == 0;
		if (r < 0)
			return false; /* later */
		if (!slot)
			todo_remove(&s->pack_days, i);
		else
			i++;
	}
	return false;
}

/* Five minutes that the day has packed and the month does not have: 1, 0 or -errno. */
static int unrolled(struct local_store *s, int64_t day, int64_t *ret)
{
	CLEANUP(partition_closep) struct partition *b = NULL;
	CLEANUP(partition_closep) struct partition *m = NULL;
	int r = partition_open(s->dir, PARTITION_RAW, day, SQL_READ, &b);

	if (r)
		return r == -ENOENT ? 0 : r;
	int64_t waiting;
	r = sql_number(&b->db, "SELECT count(*) FROM windows", 0, &waiting);
	if (!r && waiting)
		local_todo(s, day);
	if (!r)
		r = partition_open(s->dir, PARTITION_ROLL, partition_month(day * DAY_S), SQL_READ,
				   &m);
	if (r && r != -ENOENT)
		return r;
	CLEANUP(sql_endp)
	sqlite3_stmt *st = sql_ask(&b->db, "SELECT slot, through FROM slots ORDER BY slot", "");
	while ((r = sql_step(&b->db, st)) > 0) {
		*ret = sqlite3_column_int64(st, 0);
		if (!m)
			return 1;
		CLEANUP(sql_endp)
		sqlite3_stmt *have = sql_ask(
			&m->db, "SELECT raw = ? AND through >= ? FROM rolled WHERE slot = ?", "iii",
			b->id, sqlite3_column_int64(st, 1), *ret);
		r = sql_step(&m->db, have);
		if (r < 0)
			return r;
		if (!r || !sqlite3_column_int(have, 0))
			return 1;
	}
	return r;
}

static bool audit_step(struct local_store *s, uint64_t now_ms)
{
	if (!s->audit_days.count)
		return false;
	int64_t day = s->audit_days.numbers[0], slot = 0;
	int r = unrolled(s, day, &slot);
	if (r > 0)
		return local_pack_slot(s, day, slot, now_ms) == 0;
	todo_remove(&s->audit_days, 0);
	return r == 0;
}

static int stale_hour(struct sql *db, int64_t now, int64_t *ret)
{
	CLEANUP(sql_endp)
	sqlite3_stmt *st = sql_ask(db, "SELECT hour FROM stale ORDER BY hour", "");
	int r = sql_step(db, st);

	if (r <= 0)
		return r; /* none at all */
	*ret = sqlite3_column_int64(st, 0);
	return *ret + HOUR_S + HOUR_LATE <= now ? 1 : 2; /* now, or later */
}

static bool hour_step(struct local_store *s, uint64_t now_ms)
{
	for (uint32_t i = 0; i < s->hour_months.count;) {
		int64_t month = s->hour_months.numbers[i], hour = 0;
		struct partition *b = NULL;
		int r;
		if (s->month && s->month->number == month) {
			r = stale_hour(&s->month->db, (int64_t)(now_ms / 1000), &hour);
		} else {
			r = partition_open(s->dir, PARTITION_ROLL, month, SQL_READ, &b);
			r = r ? MIN(r, 0) : stale_hour(&b->db, (int64_t)(now_ms / 1000), &hour);
			partition_close(b);
		}
		if (r == 1 && local_month(s, month, &b) == 0) {
			r = local_roll_hour(s, b, hour);
			if (r)
				local_drop(s, b, r);
			return r == 0;
		}
		if (r == 0 || r == -ENOENT)
			todo_remove(&s->hour_months, i);
		else
			i++;
	}
	return false;
}

static bool join_step(struct local_store *s)
{
	for (int i = 0; i <= LOCAL_DAYS; i++) {
		struct partition *b = i < LOCAL_DAYS ? s->days[i] : s->month;
		if (b && dict_join(&b->dict, &b->db) > 0)
			return true;
	}
	return false;
}

int local_pack_day(struct local_store *s, int64_t day)
{
	struct partition *b;
	int64_t slot = 0;
	int r;

	for (;;) {
		r = local_day(s, day, &b);
		if (r)
			return r;
		r = sql_number(&b->db, "SELECT min(slot) FROM windows", -1, &slot);
		if (!r && slot < 0)
			break;
		r = r ? r : local_pack_slot(s, day, slot, UINT64_MAX / 2);
		if (r)
			return r;
	}
	while ((r = unrolled(s, day, &slot)) > 0)
		if ((r = local_pack_slot(s, day, slot, UINT64_MAX / 2)) < 0)
			break;
	return r;
}

/* Packing needs far more room than a window does, and only every five minutes. */
static void give_back(struct local_store *s)
{
	columns_done(&s->columns);
	compressor_done(&s->compressor);
	pack_done(&s->bytes);
	pack_done(&s->more);
	for (int i = 0; i < LOCAL_DAYS; i++)
		if (s->days[i])
			compressor_done(&s->days[i]->dict.compressor);
	if (s->month)
		compressor_done(&s->month->dict.compressor);
}

bool local_maintain(void *self, uint64_t now_ms)
{
	struct local_store *s = self;
	bool was_busy = s->busy;

	if (s->o.read_only)
		return false;
	if (!was_busy && now_ms >= s->look_ms && now_ms < s->look_ms + LOOK_MS)
		return false;
	s->look_ms = now_ms;
	s->busy = pack_step(s, now_ms) || audit_step(s, now_ms) || hour_step(s, now_ms) ||
		  join_step(s) || local_retain(s, now_ms);
	if (was_busy && !s->busy)
		give_back(s);
	return s->busy;
}
