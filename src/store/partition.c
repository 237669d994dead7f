#include "store/partition.h"

#include <errno.h>
#include <sys/stat.h>
#include <time.h>

#define FORMAT    1
#define TYPES_MAX 1000

#define COMMON_SCHEMA                                                                              \
	"CREATE TABLE meta(key TEXT PRIMARY KEY, value) WITHOUT ROWID;"                            \
	"INSERT INTO meta VALUES('format', 1), ('id', abs(random() / 2));" DICT_SCHEMA             \
	"CREATE TABLE types(id INTEGER PRIMARY KEY, type TEXT NOT NULL, unit TEXT NOT NULL,"       \
	" period INTEGER NOT NULL);"

static const char *const schema[] = {
	[PARTITION_RAW] = COMMON_SCHEMA
	"CREATE TABLE instances(id INTEGER PRIMARY KEY, instance BLOB NOT NULL UNIQUE);"
	"CREATE TABLE windows(id INTEGER PRIMARY KEY, slot INTEGER NOT NULL,"
	" instance INTEGER NOT NULL, sequence INTEGER NOT NULL, part INTEGER NOT NULL,"
	" received INTEGER NOT NULL, type INTEGER NOT NULL, counts BLOB NOT NULL,"
	" rows BLOB NOT NULL, times BLOB);"
	"CREATE UNIQUE INDEX windows_by_message ON windows(slot, instance, sequence, part);"
	"CREATE TABLE packs(id INTEGER PRIMARY KEY, slot INTEGER NOT NULL, type INTEGER NOT NULL,"
	" rows BLOB NOT NULL);"
	"CREATE UNIQUE INDEX packs_by_slot ON packs(slot, type);"
	"CREATE TABLE slots(slot INTEGER PRIMARY KEY, through INTEGER NOT NULL,"
	" messages BLOB NOT NULL);",
	[PARTITION_ROLL] = COMMON_SCHEMA
	"CREATE TABLE rolls(id INTEGER PRIMARY KEY, span INTEGER NOT NULL, slot INTEGER NOT NULL,"
	" type INTEGER NOT NULL, rows BLOB NOT NULL);"
	"CREATE UNIQUE INDEX rolls_by_slot ON rolls(span, slot, type);"
	"CREATE TABLE rolled(slot INTEGER PRIMARY KEY, raw INTEGER NOT NULL,"
	" through INTEGER NOT NULL);"
	"CREATE TABLE stale(hour INTEGER PRIMARY KEY);",
};

char *partition_path(const char *dir, enum partition_kind kind, int64_t number)
{
	if (kind == PARTITION_ROLL)
		return mem_printf("%s/roll/%04d-%02d.db", dir, (int)(number / 12),
				  (int)(number % 12) + 1);
	struct tm tm;
	time_t t = number * DAY_S;
	gmtime_r(&t, &tm);
	return mem_printf("%s/raw/%04d-%02d-%02d.db", dir, tm.tm_year + 1900, tm.tm_mon + 1,
			  tm.tm_mday);
}

int64_t partition_number(enum partition_kind kind, const char *name)
{
	struct tm tm = {.tm_mday = 1};
	int n = 0;

	if (kind == PARTITION_RAW)
		sscanf(name, "%4d-%2d-%2d.db%n", &tm.tm_year, &tm.tm_mon, &tm.tm_mday, &n);
	else
		sscanf(name, "%4d-%2d.db%n", &tm.tm_year, &tm.tm_mon, &n);
	if (!n || name[n] || tm.tm_mon < 1 || tm.tm_mon > 12 || tm.tm_year < 1970)
		return -1;
	if (kind == PARTITION_ROLL)
		return (int64_t)tm.tm_year * 12 + tm.tm_mon - 1;
	tm.tm_year -= 1900;
	tm.tm_mon -= 1;
	return timegm(&tm) / DAY_S;
}

int64_t partition_month(int64_t slot)
{
	struct tm tm;
	time_t t = slot;

	gmtime_r(&t, &tm);
	return (int64_t)(tm.tm_year + 1900) * 12 + tm.tm_mon;
}

static void types_done(struct partition *b)
{
	for (uint32_t i = 0; i < b->type_count; i++) {
		free(b->types[i].type);
		free(b->types[i].unit);
	}
	b->type_count = 0;
}

static void add_type(struct partition *b, int64_t id, const char *type, const char *unit,
		     uint64_t period)
{
	MEM_GROW(b->types, b->type_count, b->type_cap);
	b->types[b->type_count++] =
		(struct partition_type){id, mem_strdup(type), mem_strdup(unit), period};
}

int partition_load_types(struct partition *b)
{
	int r;
	CLEANUP(sql_endp)
	sqlite3_stmt *st = sql_ask(&b->db, "SELECT id, type, unit, period FROM types", "");

	types_done(b);
	while ((r = sql_step(&b->db, st)) > 0) {
		const char *type = (const char *)sqlite3_column_text(st, 1);
		const char *unit = (const char *)sqlite3_column_text(st, 2);
		if (!type || !unit || b->type_count > TYPES_MAX)
			return -EUCLEAN;
		add_type(b, sqlite3_column_int64(st, 0), type, unit,
			 (uint64_t)sqlite3_column_int64(st, 3));
	}
	return r;
}

static int load(struct partition *b, enum sql_mode mode)
{
	int64_t format, last = 0, packed = 0;

	int r = sql_number(&b->db, "SELECT value FROM meta WHERE key = 'format'", 0, &format);
	r = r ? r : sql_number(&b->db, "SELECT value FROM meta WHERE key = 'id'", 0, &b->id);
	if (!r && format > FORMAT)
		return -EPROTONOSUPPORT;
	if (!r && (format < 1 || !b->id))
		return -EUCLEAN;
	r = r ? r : partition_load_types(b);
	if (r || mode == SQL_READ)
		return r;
	r = dict_load(&b->dict, &b->db);
	if (!r && b->kind == PARTITION_RAW) {
		r = sql_number(&b->db, "SELECT max(id) FROM windows", 0, &last);
		r = r ? r : sql_number(&b->db, "SELECT max(through) FROM slots", 0, &packed);
		b->next = MAX(last, packed) + 1;
		b->span_bytes = -1;
	}
	return r;
}

int partition_open(const char *dir, enum partition_kind kind, int64_t number, enum sql_mode mode,
		   struct partition **ret)
{
	CLEANUP(freep) char *path = partition_path(dir, kind, number);
	CLEANUP(partition_closep) struct partition *b = mem_alloc(sizeof(*b));

	b->kind = kind;
	b->number = number;
	if (mode == SQL_WRITE) {
		CLEANUP(freep)
		char *folder = mem_strndup(path, (size_t)(strrchr(path, '/') - path));
		mkdir(dir, 0750); /* if that fails, opening says why */
		mkdir(folder, 0750);
	}
	int r = sql_open(&b->db, path, mode, schema[kind]);
	r = r ? r : load(b, mode);
	if (!r)
		*ret = TAKE_PTR(b);
	return r;
}

void partition_close(struct partition *b)
{
	if (!b)
		return;
	types_done(b);
	free(b->types);
	dict_done(&b->dict);
	remap_done(&b->to_month);
	sql_close(&b->db);
	free(b);
}

int partition_type(struct partition *b, const char *type, const char *unit, uint64_t period,
		   int64_t *ret)
{
	int64_t id = 1;

	for (uint32_t i = 0; i < b->type_count; i++) {
		const struct partition_type *t = &b->types[i];
		if (strcmp(t->type, type) == 0 && strcmp(t->unit, unit) == 0 &&
		    t->period == period) {
			*ret = t->id;
			return 0;
		}
		id = MAX(id, t->id + 1);
	}
	if (b->type_count >= TYPES_MAX)
		return -ENOBUFS;
	int r = sql_run(&b->db, "INSERT INTO types(id, type, unit, period) VALUES(?, ?, ?, ?)",
			"itti", id, type, unit, (int64_t)period);
	if (r)
		return r;
	add_type(b, id, type, unit, period);
	*ret = id;
	return 0;
}

const struct partition_type *partition_type_by_id(const struct partition *b, int64_t id)
{
	for (uint32_t i = 0; i < b->type_count; i++)
		if (b->types[i].id == id)
			return &b->types[i];
	return NULL;
}
