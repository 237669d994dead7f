#include "store/local_internal.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <stdarg.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/sort.h"
#include "store/operations.h"

#define LIST_MAX   100000u
#define SERIES_TOP ((1u << 20) - 2) /* what ids have room for in columns.h */
#define STACKS_TOP ((1u << 24) - 2)
#define MONTH      8 /* a month may have so many times the entries of a day */

void local_say(struct store_error *e, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(e->text, sizeof(e->text), fmt, ap);
	va_end(ap);
}

static const char *folder_name(enum local_folder folder)
{
	static const char *const names[] = {"raw", "roll", "times"};

	return names[folder];
}

char *local_times_path(const char *dir, int64_t hour)
{
	struct tm tm;
	time_t t = hour * HOUR_S;

	gmtime_r(&t, &tm);
	return mem_printf("%s/times/%04d-%02d-%02dT%02d.db", dir, tm.tm_year + 1900, tm.tm_mon + 1,
			  tm.tm_mday, tm.tm_hour);
}

int64_t local_times_number(const char *name)
{
	struct tm tm = {};
	int n = 0;

	sscanf(name, "%4d-%2d-%2dT%2d.db%n", &tm.tm_year, &tm.tm_mon, &tm.tm_mday, &tm.tm_hour, &n);
	if (!n || name[n])
		return -1;
	tm.tm_year -= 1900;
	tm.tm_mon -= 1;
	return timegm(&tm) / HOUR_S;
}

uint32_t local_list(const char *dir, enum local_folder folder, int64_t **ret)
{
	CLEANUP(freep) char *path = mem_printf("%s/%s", dir, folder_name(folder));
	uint32_t count = 0, cap = 0;
	DIR *d = opendir(path);

	*ret = NULL;
	for (struct dirent *e; d && (e = readdir(d)) && count < LIST_MAX;) {
		int64_t n = folder == LOCAL_TIMES ? local_times_number(e->d_name)
			    : folder == LOCAL_RAW ? partition_number(PARTITION_RAW, e->d_name)
						  : partition_number(PARTITION_ROLL, e->d_name);
		if (n < 0)
			continue;
		MEM_GROW(*ret, count, cap);
		(*ret)[count++] = n;
	}
	if (d)
		closedir(d);
	sort_by_u64(*ret, count, sizeof(**ret));
	return count;
}

void local_set_aside(struct local_store *s, const char *path)
{
	static const char *const parts[] = {"", "-wal", "-shm"};

	s->stats.damaged_files++;
	for (unsigned n = 1; n < 1000; n++) {
		CLEANUP(freep) char *to = mem_printf("%s.damaged-%u", path, n);
		if (access(to, F_OK) == 0)
			continue;
		for (size_t i = 0; i < ARRAY_SIZE(parts); i++) {
			CLEANUP(freep) char *from = mem_printf("%s%s", path, parts[i]);
			CLEANUP(freep) char *aside = mem_printf("%s%s", to, parts[i]);
			rename(from, aside);
		}
		free(s->set_aside);
		s->set_aside = TAKE_PTR(to);
		return;
	}
	unlink(path); /* a thousand of them: no more */
}

static void put(struct local_todo *t, int64_t number)
{
	for (uint32_t i = 0; i < t->count; i++)
		if (t->numbers[i] == number)
			return;
	MEM_GROW(t->numbers, t->count, t->cap);
	t->numbers[t->count++] = number;
}

void local_todo(struct local_store *s, int64_t day)
{
	put(&s->pack_days, day);
}

void local_todo_audit(struct local_store *s, int64_t day)
{
	put(&s->audit_days, day);
}

void local_todo_month(struct local_store *s, int64_t month)
{
	put(&s->hour_months, month);
}

void local_drop(struct local_store *s, struct partition *b, int why)
{
	CLEANUP(freep) char *path = partition_path(s->dir, b->kind, b->number);

	for (int i = 0; i < LOCAL_DAYS; i++)
		if (s->days[i] == b)
			s->days[i] = NULL;
	if (s->month == b)
		s->month = NULL;
	if (why == -EUCLEAN && b->kind == PARTITION_ROLL) {
		/* What it held is made again from what raw days there are. */
		CLEANUP(freep) int64_t *days = NULL;
		uint32_t count = local_list(s->dir, LOCAL_RAW, &days);
		for (uint32_t i = 0; i < count; i++)
			if (partition_month(days[i] * DAY_S) == b->number)
				local_todo_audit(s, days[i]);
	}
	partition_close(b);
	if (why == -EUCLEAN)
		local_set_aside(s, path);
}

static int open_partition(struct local_store *s, enum partition_kind kind, int64_t number,
			  struct partition **ret)
{
	int r = partition_open(s->dir, kind, number, SQL_WRITE, ret);

	if (r == -EUCLEAN) {
		CLEANUP(freep) char *path = partition_path(s->dir, kind, number);
		local_set_aside(s, path);
		r = partition_open(s->dir, kind, number, SQL_WRITE, ret);
	}
	return r;
}

int local_day(struct local_store *s, int64_t day, struct partition **ret)
{
	struct partition **place = &s->days[0];

	for (int i = 0; i < LOCAL_DAYS; i++) {
		struct partition *b = s->days[i];
		if (b && b->number == day && sql_is_gone(&b->db)) {
			partition_close(b);
			s->days[i] = b = NULL;
		}
		if (b && b->number == day) {
			b->used = ++s->clock;
			*ret = b;
			return 0;
		}
		/* A free place, else the one that was not used for longest. */
		if (*place && (!b || b->used < (*place)->used))
			place = &s->days[i];
	}
	partition_close(*place);
	*place = NULL;
	int r = open_partition(s, PARTITION_RAW, day, place);
	if (r)
		return r;
	(*place)->used = ++s->clock;
	*ret = *place;
	return 0;
}

int local_month(struct local_store *s, int64_t month, struct partition **ret)
{
	if (!s->month || s->month->number != month || sql_is_gone(&s->month->db)) {
		partition_close(s->month);
		s->month = NULL;
		int r = open_partition(s, PARTITION_ROLL, month, &s->month);
		if (r)
			return r;
	}
	*ret = s->month;
	return 0;
}

/* The directory, and the lock that says who writes to it. */
static int lock(struct local_store *s, struct store_error *e)
{
	CLEANUP(freep) char *path = mem_printf("%s/pid", s->dir);
	char pid[32] = "";

	if (mkdir(s->dir, 0750) < 0 && errno != EEXIST) {
		int r = -errno;
		local_say(e, "%s: cannot create it: %s", s->dir, strerror(-r));
		return r;
	}
	CLEANUP(fd_closep) int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0644);
	if (fd < 0) {
		int r = -errno;
		local_say(e, "%s: cannot write: %s", path, strerror(-r));
		return r;
	}
	if (flock(fd, LOCK_EX | LOCK_NB) < 0) {
		if (pread(fd, pid, sizeof(pid) - 1, 0) > 0)
			e->pid = atoi(pid);
		local_say(e, "%s: in use by process %s, which writes to it", s->dir,
			  pid[0] ? strtok(pid, "\n") : "?");
		return -EBUSY;
	}
	snprintf(pid, sizeof(pid), "%d\n", (int)getpid());
	if (ftruncate(fd, 0) < 0 || pwrite(fd, pid, strlen(pid), 0) < 0) {
		int r = -errno;
		local_say(e, "%s: cannot write: %s", path, strerror(-r));
		return r;
	}
	if (s->lock >= 0)
		close(s->lock);
	s->lock = TAKE_FD(fd);
	return 0;
}

int local_check_lock(struct local_store *s, struct store_error *e)
{
	CLEANUP(freep) char *path = mem_printf("%s/pid", s->dir);
	struct stat here, held;

	if (stat(path, &here) == 0 && fstat(s->lock, &held) == 0 && here.st_ino == held.st_ino &&
	    here.st_dev == held.st_dev)
		return 0;
	int r = lock(s, e);
	if (r)
		return r;
	for (int i = 0; i < LOCAL_DAYS; i++) {
		partition_close(s->days[i]);
		s->days[i] = NULL;
	}
	partition_close(s->month);
	s->month = NULL;
	s->accounts.changed = true; /* they go on from what is in memory, in a new file */
	return 0;
}

/* A reader does not try the lock: a writer that is just starting would find it taken. */
uint64_t local_writer_ms(const struct local_store *s)
{
	CLEANUP(freep) char *path = mem_printf("%s/pid", s->dir), *text = NULL;
	struct stat st;

	if (stat(path, &st) < 0 || file_read(path, 32, &text, NULL) < 0)
		return 0;
	pid_t pid = atoi(text);
	if (pid <= 0 || (kill(pid, 0) < 0 && errno != EPERM))
		return 0;
	return (uint64_t)st.st_mtim.tv_sec * 1000 + (uint64_t)st.st_mtim.tv_nsec / 1000000;
}

static int open_accounts(struct local_store *s)
{
	CLEANUP(freep) char *path = mem_printf("%s/accounts.db", s->dir);
	int r = accounts_open(&s->accounts, path, SQL_WRITE);

	if (r == -EUCLEAN) {
		local_set_aside(s, path);
		accounts_done(&s->accounts);
		r = accounts_open(&s->accounts, path, SQL_WRITE);
	}
	return r;
}

/* Whether a file is sound, in its structure. Blobs have sums of their own. */
static int verify(struct partition *b)
{
	CLEANUP(sql_endp) sqlite3_stmt *st = sql_ask(&b->db, "PRAGMA quick_check(1)", "");
	int r = sql_step(&b->db, st);

	if (r <= 0)
		return r;
	const char *said = (const char *)sqlite3_column_text(st, 0);
	return said && strcmp(said, "ok") == 0 ? 0 : -EUCLEAN;
}

/* Windows that were appended after accounts.db was written are counted now. */
static int recount(struct local_store *s, int64_t day, bool latest)
{
	struct partition *b;
	int r = partition_open(s->dir, PARTITION_RAW, day, SQL_READ, &b);

	if (r)
		return r;
	CLEANUP(partition_closep) struct partition *guard = b;
	r = latest ? verify(b) : 0;
	if (r)
		return r;
	int64_t through = accounts_through(&s->accounts, day, b->id);
	CLEANUP(sql_endp)
	sqlite3_stmt *st =
		sql_ask(&b->db,
			"SELECT w.id, i.instance, w.counts, w.slot, t.type FROM windows w"
			" JOIN instances i ON i.id = w.instance"
			" JOIN types t ON t.id = w.type WHERE w.id > ?"
			" ORDER BY w.id",
			"i", through);
	while ((r = sql_step(&b->db, st)) > 0) {
		struct window w = {.start_ms = (uint64_t)sqlite3_column_int64(st, 3) * 1000};
		uint64_t samples;
		const void *instance = sqlite3_column_blob(st, 1);
		if (!instance || sqlite3_column_bytes(st, 1) != 16 ||
		    !accounts_unpack(sqlite3_column_blob(st, 2),
				     (size_t)sqlite3_column_bytes(st, 2), &w.counts, &samples))
			return -EUCLEAN;
		memcpy(w.instance, instance, 16);
		snprintf(w.type, sizeof(w.type), "%s", (const char *)sqlite3_column_text(st, 4));
		accounts_add(&s->accounts, &w, samples, day, b->id, sqlite3_column_int64(st, 0));
	}
	return r;
}

/*
 * Looks at every file once: what is damaged goes aside, what waits is counted. Those that will be
 * written to, the latest, are read through.
 */
static void survey(struct local_store *s)
{
	CLEANUP(freep) int64_t *days = NULL, *months = NULL;
	uint32_t day_count = local_list(s->dir, LOCAL_RAW, &days);
	uint32_t month_count = local_list(s->dir, LOCAL_ROLL, &months);

	for (uint32_t i = 0; i < month_count; i++) {
		struct partition *b;
		int r = partition_open(s->dir, PARTITION_ROLL, months[i], SQL_READ, &b);
		if (!r) {
			r = i + 1 == month_count ? verify(b) : 0;
			partition_close(b);
			local_todo_month(s, months[i]);
		}
		if (r == -EUCLEAN) {
			CLEANUP(freep)
			char *path = partition_path(s->dir, PARTITION_ROLL, months[i]);
			local_set_aside(s, path);
		}
	}
	for (uint32_t i = 0; i < day_count; i++) {
		if (recount(s, days[i], i + 1 == day_count) == -EUCLEAN) {
			CLEANUP(freep) char *path = partition_path(s->dir, PARTITION_RAW, days[i]);
			local_set_aside(s, path);
			continue;
		}
		local_todo_audit(s, days[i]);
	}
}

void local_load_accounts(struct local_store *s)
{
	CLEANUP(freep) char *path = mem_printf("%s/accounts.db", s->dir);
	CLEANUP(freep) int64_t *days = NULL;
	uint32_t count = local_list(s->dir, LOCAL_RAW, &days);

	accounts_done(&s->accounts);
	accounts_open(&s->accounts, path, SQL_READ); /* without it all is counted that waits */
	for (uint32_t i = 0; i < count; i++)
		recount(s, days[i], false);
}

/* Whether something that a store has is there: a directory of any other kind has none of it. */
static bool looks_like_store(const char *dir)
{
	static const char *const parts[] = {"pid", "raw", "roll", "accounts.db"};

	for (size_t i = 0; i < ARRAY_SIZE(parts); i++) {
		CLEANUP(freep) char *path = mem_printf("%s/%s", dir, parts[i]);
		if (access(path, F_OK) == 0)
			return true;
	}
	return false;
}

static int open_reader(struct local_store *s, struct store_error *e)
{
	CLEANUP(freep) char *raw = mem_printf("%s/raw", s->dir);
	struct stat st;

	if (stat(s->dir, &st) < 0) {
		int r = -errno;
		local_say(e,
			  r == -EACCES ? "%s: not accessible for this user: %s"
				       : "%s: there is no store: %s",
			  s->dir, strerror(-r));
		return r;
	}
	if (!S_ISDIR(st.st_mode)) {
		local_say(e, "%s: is a file, not a directory", s->dir);
		return -ENOTDIR;
	}
	if (access(s->dir, R_OK | X_OK) < 0 || (access(raw, R_OK | X_OK) < 0 && errno != ENOENT)) {
		int r = -errno;
		local_say(e,
			  "%s: the store is not readable for this user (it belongs to user %u): %s",
			  s->dir, (unsigned)st.st_uid, strerror(-r));
		return r;
	}
	if (!looks_like_store(s->dir)) {
		local_say(e, "%s: not a store of smolder: none of its files are there", s->dir);
		return -ENODATA;
	}
	return 0;
}

static int open_writer(struct local_store *s, struct store_error *e)
{
	int r = lock(s, e);

	if (r)
		return r;
	r = open_accounts(s);
	if (r) {
		local_say(e, "%s/accounts.db: cannot open: %s", s->dir, strerror(-r));
		return r;
	}
	survey(s);
	local_look_at_span(s);
	return 0;
}

static void local_close(void *self)
{
	struct local_store *s = self;

	/* What cannot be written is counted again on opening. */
	if (!s->o.read_only)
		accounts_sync(&s->accounts);
	accounts_done(&s->accounts);
	for (int i = 0; i < LOCAL_DAYS; i++)
		partition_close(s->days[i]);
	partition_close(s->month);
	for (int i = 0; i < LOCAL_TRANSLATIONS; i++)
		remap_done(&s->translations[i].map);
	columns_done(&s->columns);
	compressor_done(&s->compressor);
	pack_done(&s->bytes);
	pack_done(&s->more);
	if (s->lock >= 0)
		close(s->lock);
	free(s->pack_days.numbers);
	free(s->audit_days.numbers);
	free(s->hour_months.numbers);
	free(s->set_aside);
	free(s->dir);
	free(s);
}

static int local_open(const char *dir, const struct store_options *o, void **ret,
		      struct store_error *ret_err)
{
	struct local_store *s = mem_alloc(sizeof(*s));

	s->dir = mem_strdup(dir);
	s->lock = -1;
	s->o = *o;
	s->o.series_max = MIN(s->o.series_max, SERIES_TOP);
	s->o.stacks_max = MIN(s->o.stacks_max, STACKS_TOP);
	s->day_caps = (struct remap_caps){s->o.series_max, s->o.stacks_max};
	s->month_caps.series = (uint32_t)MIN(s->o.series_max * (uint64_t)MONTH, SERIES_TOP);
	s->month_caps.stacks = (uint32_t)MIN(s->o.stacks_max * (uint64_t)MONTH, STACKS_TOP);

	int r = s->o.read_only ? open_reader(s, ret_err) : open_writer(s, ret_err);
	if (r) {
		local_close(s);
		return r;
	}
	*ret = s;
	return 0;
}

/* A file that was set aside is said, with its name: what it held is in no answer any more. */
static bool local_warning(void *self, struct store_error *ret)
{
	struct local_store *s = self;
	uint64_t count = s->stats.damaged_files - s->said_damaged;

	s->said_damaged = s->stats.damaged_files;
	if (!count || !s->set_aside)
		return false;
	local_say(ret,
		  "%" PRIu64
		  " file%s of the store damaged; set aside as %s%s, and not part of answers "
		  "any more",
		  count, count > 1 ? "s were" : " was", s->set_aside,
		  count > 1 ? " and the like" : "");
	return true;
}

const struct store_operations local_operations = {
	.prefix = "", /* any path */
	.open = local_open,
	.close = local_close,
	.append = local_append,
	.maintain = local_maintain,
	.warning = local_warning,
	.sum = local_sum,
	.timeline = local_timeline,
	.heat = local_heat,
	.names = local_names,
	.findings = local_findings,
	.stats = local_stats,
};
