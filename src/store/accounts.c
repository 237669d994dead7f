#include "store/accounts.h"

#include <errno.h>

#define DAYS_MAX 4096

static const char schema[] = "CREATE TABLE meta(key TEXT PRIMARY KEY, value) WITHOUT ROWID;"
			     "INSERT INTO meta VALUES('format', 1);"
			     "CREATE TABLE accounts(id INTEGER PRIMARY KEY, instance BLOB NOT "
			     "NULL, counts BLOB NOT NULL,"
			     " last INTEGER NOT NULL, next_base INTEGER);"
			     "CREATE TABLE days(day INTEGER PRIMARY KEY, id INTEGER NOT NULL, "
			     "through INTEGER NOT NULL);";

void accounts_pack(const struct window_counts *c, uint64_t samples, struct pack *out)
{
	pack_u64(out, c->base);
	pack_u64(out, c->taken);
	for (int i = 0; i < WINDOW_LOST_REASONS; i++)
		pack_u64(out, c->lost[i]);
	pack_u64(out, samples);
}

bool accounts_unpack(const void *bytes, size_t len, struct window_counts *ret, uint64_t *samples)
{
	struct unpack in = {bytes, (const uint8_t *)bytes + len, false};

	ret->base = unpack_u64(&in);
	ret->taken = unpack_u64(&in);
	for (int i = 0; i < WINDOW_LOST_REASONS; i++)
		ret->lost[i] = unpack_u64(&in);
	*samples = unpack_u64(&in);
	return !in.bad && in.at == in.end;
}

static struct account *add(struct accounts *a)
{
	MEM_GROW(a->all, a->count, a->cap);
	a->all[a->count] = (struct account){};
	return &a->all[a->count++];
}

/* As it is in the file: the instance, and the type behind it, but for that of most. */
#define USUAL_TYPE "cpu"

static void write_key(const struct account *n, struct pack *out)
{
	pack_raw(out, n->instance, sizeof(n->instance));
	if (strcmp(n->type, USUAL_TYPE) != 0)
		pack_raw(out, n->type, strlen(n->type));
}

static bool read_key(struct account *n, const void *key, size_t len)
{
	if (!key || len < sizeof(n->instance) || len >= sizeof(n->instance) + sizeof(n->type))
		return false;
	memcpy(n->instance, key, sizeof(n->instance));
	snprintf(n->type, sizeof(n->type), "%s", USUAL_TYPE);
	if (len > sizeof(n->instance))
		snprintf(n->type, sizeof(n->type), "%.*s", (int)(len - sizeof(n->instance)),
			 (const char *)key + sizeof(n->instance));
	return true;
}

static int load_accounts(struct accounts *a)
{
	int r;
	CLEANUP(sql_endp)
	sqlite3_stmt *st = sql_ask(
		&a->db, "SELECT instance, counts, last, next_base FROM accounts ORDER BY id", "");

	a->count = 0;
	while ((r = sql_step(&a->db, st)) > 0) {
		struct account *n = add(a);
		const void *instance = sqlite3_column_blob(st, 0);
		if (a->count > ACCOUNTS_MAX + 1 ||
		    !read_key(n, instance, (size_t)sqlite3_column_bytes(st, 0)) ||
		    !accounts_unpack(sqlite3_column_blob(st, 1),
				     (size_t)sqlite3_column_bytes(st, 1), &n->counts, &n->stored))
			return -EUCLEAN;
		n->last_ms = (uint64_t)sqlite3_column_int64(st, 2);
		n->followed = sqlite3_column_type(st, 3) != SQLITE_NULL;
		n->next_base = (uint64_t)sqlite3_column_int64(st, 3);
	}
	return r;
}

static int load_days(struct accounts *a)
{
	int r;
	CLEANUP(sql_endp)
	sqlite3_stmt *st = sql_ask(&a->db, "SELECT day, id, through FROM days", "");

	while ((r = sql_step(&a->db, st)) > 0 && a->day_count < DAYS_MAX) {
		MEM_GROW(a->days, a->day_count, a->day_cap);
		a->days[a->day_count++] = (struct accounts_day){
			sqlite3_column_int64(st, 0),
			sqlite3_column_int64(st, 1),
			sqlite3_column_int64(st, 2),
			false,
		};
	}
	return r < 0 ? r : 0;
}

int accounts_open(struct accounts *a, const char *path, enum sql_mode mode)
{
	int64_t floor = 0;

	*a = (struct accounts){};
	int r = sql_open(&a->db, path, mode, schema);
	r = r ? r : load_accounts(a);
	r = r ? r : load_days(a);
	r = r ? r : sql_number(&a->db, "SELECT value FROM meta WHERE key = 'floor'", 0, &floor);
	if (r) {
		accounts_done(a);
		a->changed = true;
	}
	a->path = mem_strdup(path);
	a->floor_ms = (uint64_t)floor;
	if (!a->count)
		add(a)->changed = true;
	return r;
}

void accounts_done(struct accounts *a)
{
	sql_close(&a->db);
	free(TAKE_PTR(a->all));
	free(TAKE_PTR(a->days));
	free(TAKE_PTR(a->path));
	a->count = a->cap = a->day_count = a->day_cap = 0;
	a->floor_ms = 0;
	a->changed = false;
}

static int write_account(struct accounts *a, uint32_t i)
{
	struct account *n = &a->all[i];
	struct pack counts = {}, key = {};

	write_key(n, &key);
	accounts_pack(&n->counts, n->stored, &counts);
	int r = n->followed
			? sql_run(&a->db, "INSERT OR REPLACE INTO accounts VALUES(?, ?, ?, ?, ?)",
				  "ibbii", (int64_t)i, key.bytes, key.len, counts.bytes, counts.len,
				  (int64_t)n->last_ms, (int64_t)n->next_base)
			: sql_run(&a->db,
				  "INSERT OR REPLACE INTO accounts VALUES(?, ?, ?, ?, NULL)",
				  "ibbi", (int64_t)i, key.bytes, key.len, counts.bytes, counts.len,
				  (int64_t)n->last_ms);
	pack_done(&counts);
	pack_done(&key);
	return r;
}

static int write_all(struct accounts *a)
{
	int r = sql_run(&a->db, "INSERT OR REPLACE INTO meta VALUES('floor', ?)", "i",
			(int64_t)a->floor_ms);

	r = r ? r : sql_run(&a->db, "DELETE FROM accounts WHERE id >= ?", "i", (int64_t)a->count);
	for (uint32_t i = 0; i < a->count && !r; i++)
		if (a->all[i].changed)
			r = write_account(a, i);
	for (uint32_t i = 0; i < a->day_count && !r; i++)
		if (a->days[i].changed)
			r = sql_run(&a->db, "INSERT OR REPLACE INTO days VALUES(?, ?, ?)", "iii",
				    a->days[i].day, a->days[i].id, a->days[i].through);
	return r;
}

int accounts_sync(struct accounts *a)
{
	if (!a->changed)
		return 0;
	if (!a->db.db || sql_is_gone(&a->db)) {
		/* It was deleted: all of it is written anew. */
		sql_close(&a->db);
		int opened = sql_open(&a->db, a->path, SQL_WRITE, schema);
		if (opened)
			return opened;
		for (uint32_t i = 0; i < a->count; i++)
			a->all[i].changed = true;
		for (uint32_t i = 0; i < a->day_count; i++)
			a->days[i].changed = true;
	}
	int r = sql_begin(&a->db);
	r = r ? r : write_all(a);
	if (r) {
		sql_rollback(&a->db);
		return r;
	}
	r = sql_commit(&a->db);
	if (r)
		return r;
	for (uint32_t i = 0; i < a->count; i++)
		a->all[i].changed = false;
	for (uint32_t i = 0; i < a->day_count; i++)
		a->days[i].changed = false;
	a->changed = false;
	return 0;
}

static struct accounts_day *find_day(const struct accounts *a, int64_t day)
{
	for (uint32_t i = a->day_count; i--;)
		if (a->days[i].day == day)
			return &a->days[i];
	return NULL;
}

int64_t accounts_through(const struct accounts *a, int64_t day, int64_t id)
{
	const struct accounts_day *d = find_day(a, day);

	return d && d->id == id ? d->through : 0;
}

static uint64_t lost_sum(const struct window_counts *c)
{
	uint64_t sum = 0;

	for (int i = 0; i < WINDOW_LOST_REASONS; i++)
		sum += c->lost[i];
	return sum;
}

static struct account *find(const struct accounts *a, const struct window *w)
{
	for (uint32_t i = a->count; i-- > 1;)
		if (memcmp(a->all[i].instance, w->instance, 16) == 0 &&
		    strcmp(a->all[i].type, w->type) == 0)
			return &a->all[i];
	return NULL;
}

/* The collector that the one of `w` follows, or NULL. */
static struct account *before(const struct accounts *a, const struct window *w)
{
	struct account *best = NULL;
	bool best_kin = false;

	for (uint32_t i = 1; w->counts.base && i < a->count; i++) {
		struct account *n = &a->all[i];
		bool kin = memcmp(n->instance, w->instance, 8) == 0;
		if (n->followed || strcmp(n->type, w->type) != 0 ||
		    n->counts.taken > w->counts.base ||
		    n->counts.base + n->stored + lost_sum(&n->counts) > w->counts.base)
			continue;
		if (!best || kin > best_kin ||
		    (kin == best_kin && n->counts.taken >= best->counts.taken)) {
			best = n;
			best_kin = kin;
		}
	}
	return best;
}

/* All that a collector took, as far as is known. */
static uint64_t took(const struct account *n)
{
	uint64_t end = n->followed ? n->next_base : n->counts.taken;
	uint64_t known = n->stored + lost_sum(&n->counts);

	return MAX(end > n->counts.base ? end - n->counts.base : 0, known);
}

/* What a collector that was followed took with it. */
static uint64_t died(const struct account *n, uint64_t next_base)
{
	uint64_t known = n->counts.base + n->stored + lost_sum(&n->counts);

	return next_base > known ? next_base - known : 0;
}

void accounts_look(const struct accounts *a, const struct window *w, struct accounts_entry *ret)
{
	const struct account *n = find(a, w), *last = n ? NULL : before(a, w);
	uint64_t lost = lost_sum(&w->counts), was = n ? lost_sum(&n->counts) : 0;

	ret->restarted = !n;
	ret->lost = lost > was ? lost - was : 0;
	if (last)
		ret->lost += died(last, w->counts.base);
}

/* Adds up the oldest ones that are done, so that there is room. */
static void forget(struct accounts *a)
{
	uint32_t oldest = 1;

	for (uint32_t i = 2; i < a->count; i++)
		if (a->all[i].followed > a->all[oldest].followed ||
		    (a->all[i].followed == a->all[oldest].followed &&
		     a->all[i].last_ms < a->all[oldest].last_ms))
			oldest = i;
	struct account *n = &a->all[oldest], *sum = &a->all[0];
	sum->counts.taken += took(n);
	sum->stored += n->stored;
	for (int i = 0; i < WINDOW_LOST_REASONS; i++)
		sum->counts.lost[i] += n->counts.lost[i];
	if (n->followed)
		sum->counts.lost[WINDOW_LOST_DIED] += died(n, n->next_base);
	memmove(n, n + 1, (a->count - oldest - 1) * sizeof(*n));
	a->count--;
	for (uint32_t i = 0; i < a->count; i++)
		a->all[i].changed = true;
}

void accounts_add(struct accounts *a, const struct window *w, uint64_t samples, int64_t day,
		  int64_t id, int64_t row)
{
	struct account *n = find(a, w);

	if (!n) {
		struct account *last = before(a, w);
		if (last) {
			last->followed = last->changed = true;
			last->next_base = w->counts.base;
		}
		if (a->count > ACCOUNTS_MAX)
			forget(a);
		n = add(a);
		memcpy(n->instance, w->instance, 16);
		snprintf(n->type, sizeof(n->type), "%s", w->type);
		n->counts = w->counts;
	}
	n->counts.taken = MAX(n->counts.taken, w->counts.taken);
	for (int i = 0; i < WINDOW_LOST_REASONS; i++)
		n->counts.lost[i] = MAX(n->counts.lost[i], w->counts.lost[i]);
	n->stored += samples;
	n->last_ms = MAX(n->last_ms, w->start_ms);
	n->changed = a->changed = true;

	struct accounts_day *d = find_day(a, day);
	if (!d) {
		if (a->day_count == DAYS_MAX) {
			memmove(a->days, a->days + 1, (DAYS_MAX - 1) * sizeof(*a->days));
			a->day_count--;
		}
		MEM_GROW(a->days, a->day_count, a->day_cap);
		d = &a->days[a->day_count++];
		*d = (struct accounts_day){.day = day};
	}
	*d = (struct accounts_day){day, id, row, true};
}

void accounts_set_floor(struct accounts *a, uint64_t floor_ms)
{
	if (floor_ms <= a->floor_ms)
		return;
	a->floor_ms = floor_ms;
	a->changed = true;
}

void accounts_sum(const struct accounts *a, uint64_t *ret_taken, uint64_t *ret_stored,
		  uint64_t ret_lost[static WINDOW_LOST_REASONS])
{
	*ret_taken = *ret_stored = 0;
	memset(ret_lost, 0, WINDOW_LOST_REASONS * sizeof(*ret_lost));
	for (uint32_t i = 0; i < a->count; i++) {
		const struct account *n = &a->all[i];
		*ret_stored += n->stored;
		for (int k = 0; k < WINDOW_LOST_REASONS; k++)
			ret_lost[k] += n->counts.lost[k];
		if (n->followed)
			ret_lost[WINDOW_LOST_DIED] += died(n, n->next_base);
		*ret_taken += took(n);
	}
}
