/*
 * A window becomes a row of its day: its entries are translated to the ids of the day's dictionary,
 * and what the dictionary has new is written in the same transaction. A message is known by
 * instance, sequence and part, also after it was packed, so one that comes twice is stored once.
 */
#include <errno.h>

#include "store/local_internal.h"

#define FUTURE_MS 3600000ull
#define LEVEL     3

struct remap *local_translation(struct local_store *s, const struct window *w,
				const struct profile *dict, const struct partition *b)
{
	struct translation *t = &s->translations[0];

	for (int i = 0; i < LOCAL_TRANSLATIONS; i++) {
		struct translation *n = &s->translations[i];
		if (n->from == dict && n->epoch == w->epoch && n->to == b->id &&
		    n->stacks <= dict->stack_count && n->series <= dict->series_count &&
		    memcmp(n->instance, w->instance, 16) == 0) {
			t = n;
			goto found;
		}
		if (n->used < t->used)
			t = n;
	}
	remap_done(&t->map);
	t->from = dict;
	t->epoch = w->epoch;
	t->to = b->id;
	memcpy(t->instance, w->instance, 16);
found:
	t->used = ++s->clock;
	t->stacks = dict->stack_count;
	t->series = dict->series_count;
	return &t->map;
}

/* The window's rows under the ids of the day; returns how many samples found no room. */
static uint64_t translate(struct local_store *s, const struct profile *dict, const struct window *w,
			  struct partition *b, uint64_t *ret_samples)
{
	struct remap *m = local_translation(s, w, dict, b);
	struct columns *c = &s->columns;
	const uint16_t *times = w->times;
	uint64_t other = 0;

	columns_clear(c);
	columns_window(c, w->start_ms, w->length_ms);
	*ret_samples = 0;
	for (uint32_t i = 0; i < w->row_count; i++) {
		const struct window_row *r = &w->rows[i];
		uint32_t series = r->series, stack = r->stack;
		if (!remap_row(m, dict, &series, &stack, b->dict.p, &s->day_caps))
			other += r->count;
		columns_add(c, series, stack, 0, r->count, r->value, times,
			    times ? (uint32_t)r->count : 0);
		if (times)
			times += r->count;
		*ret_samples += r->count;
	}
	columns_sort_merge(c);
	return other;
}

static int instance_id(struct partition *b, const uint8_t instance[static 16], int64_t *ret)
{
	CLEANUP(sql_endp)
	sqlite3_stmt *st = sql_ask(&b->db, "SELECT id FROM instances WHERE instance = ?", "b",
				   instance, (size_t)16);
	int r = sql_step(&b->db, st);

	if (r > 0)
		*ret = sqlite3_column_int64(st, 0);
	return r < 0 ? r : !r; /* 1: not there */
}

/* Messages of a pack: for each, instance and sequence (differences, zigzag), part. */
static bool packed_has(const void *bytes, size_t len, int64_t instance, uint64_t sequence,
		       uint32_t part)
{
	struct unpack in = {bytes, (const uint8_t *)bytes + len, false};
	int64_t id = 0;
	uint64_t seq = 0;

	while (in.at < in.end && !in.bad) {
		id += unpack_i64(&in);
		seq += (uint64_t)unpack_i64(&in);
		uint64_t p = unpack_u64(&in);
		if (id == instance && seq == sequence && p == part && !in.bad)
			return true;
	}
	return false;
}

/* 1: it is stored already, 0: not, or -errno. */
static int is_known(struct partition *b, const struct window *w, int64_t slot)
{
	int64_t instance;
	int r = instance_id(b, w->instance, &instance);

	if (r)
		return r < 0 ? r : 0;
	CLEANUP(sql_endp)
	sqlite3_stmt *st = sql_ask(&b->db,
				   "SELECT 1 FROM windows WHERE slot = ? AND instance = ? AND"
				   " sequence = ? AND part = ?",
				   "iiii", slot, instance, (int64_t)w->sequence, (int64_t)w->part);
	r = sql_step(&b->db, st);
	if (r)
		return r;
	CLEANUP(sql_endp)
	sqlite3_stmt *pack =
		sql_ask(&b->db, "SELECT messages FROM slots WHERE slot = ?", "i", slot);
	r = sql_step(&b->db, pack);
	if (r <= 0)
		return r;
	return packed_has(sqlite3_column_blob(pack, 0), (size_t)sqlite3_column_bytes(pack, 0),
			  instance, w->sequence, w->part);
}

static int write_window(struct local_store *s, struct partition *b, const struct window *w,
			int64_t slot, uint64_t samples, uint64_t now_ms)
{
	int64_t instance, type;
	struct pack counts = {};

	int r = instance_id(b, w->instance, &instance);
	if (r == 1) {
		r = sql_run(&b->db, "INSERT INTO instances(instance) VALUES(?)", "b", w->instance,
			    (size_t)16);
		instance = sqlite3_last_insert_rowid(b->db.db);
	}
	r = r ? r : partition_type(b, w->type, w->unit, w->period, &type);
	if (r)
		return r;
	s->bytes.len = s->more.len = 0;
	r = columns_write(&s->columns, w->period, LEVEL, &s->compressor, &s->bytes);
	if (w->times)
		r = r ? r : columns_write_times(&s->columns, LEVEL, &s->compressor, &s->more);
	if (r)
		return r;
	accounts_pack(&w->counts, samples, &counts);
	r = sql_run(
		&b->db,
		"INSERT INTO windows(id, slot, instance, sequence, part, received, type, counts,"
		" rows, times) VALUES(?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
		"iiiiiiibbb", b->next, slot, instance, (int64_t)w->sequence, (int64_t)w->part,
		(int64_t)now_ms, type, counts.bytes, counts.len, s->bytes.bytes, s->bytes.len,
		w->times ? s->more.bytes : NULL, s->more.len);
	pack_done(&counts);
	return r;
}

static int append(struct local_store *s, struct partition *b, const struct profile *dict,
		  const struct window *w, uint64_t now_ms)
{
	int64_t slot = (int64_t)(w->start_ms / 1000 / SLOT_S * SLOT_S);
	struct accounts_entry entry;
	struct entries_mark mark;
	uint64_t samples;

	int r = is_known(b, w, slot);
	if (r)
		return r < 0 ? r : -EEXIST;
	accounts_look(&s->accounts, w, &entry);
	uint64_t other = translate(s, dict, w, b, &samples);
	s->columns.windows[0].messages = 1;
	s->columns.windows[0].lost = entry.lost;
	s->columns.windows[0].restarted = entry.restarted;

	r = sql_begin(&b->db);
	r = r ? r : dict_write(&b->dict, &b->db, &mark);
	r = r ? r : write_window(s, b, w, slot, samples, now_ms);
	if (r)
		sql_rollback(&b->db);
	else
		r = sql_commit(&b->db);
	if (r)
		return r;
	dict_written(&b->dict, &mark);
	local_todo(s, b->number);
	accounts_add(&s->accounts, w, samples, b->number, b->id, b->next++);
	s->stats.windows++;
	s->stats.samples += samples;
	s->stats.other_samples += other;
	s->stats.first_ms = s->stats.first_ms ? MIN(s->stats.first_ms, w->start_ms) : w->start_ms;
	s->stats.last_ms = MAX(s->stats.last_ms, w->start_ms + w->length_ms);
	return 0;
}

static int in_range(struct local_store *s, const struct window *w, uint64_t now_ms,
		    struct store_error *e)
{
	if (w->start_ms > now_ms + FUTURE_MS) {
		local_say(e, "the window begins %.1f hours in the future",
			  (double)(w->start_ms - now_ms) / 3600e3);
		return -ERANGE;
	}
	if (w->start_ms + s->o.retention_ms < now_ms || w->start_ms < s->accounts.floor_ms) {
		local_say(e, "the window is older than the retention time");
		return -ERANGE;
	}
	return 0;
}

/* The file is named: other days of the store may be of this version. */
static void say_unwritten(const struct local_store *s, const struct window *w, int r,
			  struct store_error *e)
{
	CLEANUP(freep)
	char *day = partition_path(s->dir, PARTITION_RAW, (int64_t)(w->start_ms / DAY_MS));

	if (!e || e->text[0])
		return;
	if (r == -EPROTONOSUPPORT)
		local_say(e,
			  "%s: cannot write: it comes from a newer version of smolder; use that "
			  "one, or "
			  "another store",
			  day);
	else
		local_say(e, "%s: cannot write: %s", s->dir, strerror(-r));
}

int local_append(void *self, const struct profile *dict, const struct window *w, uint64_t now_ms,
		 struct store_error *ret_err)
{
	struct local_store *s = self;
	struct partition *b;

	int r = s->o.read_only ? -EROFS : in_range(s, w, now_ms, ret_err);
	if (r) {
		s->stats.refused += r == -ERANGE;
		return r;
	}
	r = local_check_lock(s, ret_err);
	for (int tries = 0; !r && tries < 2; tries++) {
		r = local_day(s, (int64_t)(w->start_ms / DAY_MS), &b);
		if (r)
			break;
		r = window_is_findings(w) ? local_append_findings(b, w)
		    : window_is_spans(w)  ? local_append_spans(s, b, dict, w)
					  : append(s, b, dict, w, now_ms);
		if (r == -EEXIST || !r)
			break;
		if (r == -ENOBUFS || r == -EFBIG) {
			local_say(ret_err,
				  r == -EFBIG ? "the window is larger than the store accepts"
					      : "there are too many profile types on that day");
			s->stats.refused++;
			return -ERANGE;
		}
		if (r == -EUCLEAN) {
			local_drop(s, b, r); /* and once more, in a new file */
			r = tries ? r : 0;
		} else if (r == -ENOSPC || r == -EAGAIN) {
			if (partition_load_types(b) < 0)
				local_drop(s, b, 0);
		} else {
			local_drop(s, b, 0);
		}
	}
	if (r == -EEXIST) {
		s->stats.known++;
		return r;
	}
	if (r) {
		s->stats.failed++;
		say_unwritten(s, w, r, ret_err);
		r = r == -ENOSPC || r == -EDQUOT  ? -ENOSPC
		    : r == -EROFS || r == -EACCES ? -EROFS
						  : -EIO;
	}
	return r;
}
