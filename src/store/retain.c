/*
 * What goes when its time or its room is over.
 *
 * By age: sample times, raw days and months of roll-ups whose last moment is older than what is
 * kept; in a month that is kept, the roll-ups that are. By size, while all files together are over
 * the limit, in this order: files that were set aside, raw days but the latest, sample times, the
 * first hours of the latest day, months, and of the latest month its first days. Nothing raw goes
 * before it is in a roll-up, and what goes by size is remembered as a floor: a window from before
 * it is refused, since the five minutes it belongs to would be there by half.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <time.h>

#include "store/local_internal.h"

#define EVERY_MS 60000

static const char *const folders[] = {"raw", "roll", "times", "."};

static bool is_ahead(const char *name)
{
	size_t len = strlen(name);

	return len > 4 &&
	       (strcmp(name + len - 4, "-wal") == 0 || strcmp(name + len - 4, "-shm") == 0);
}

/*
 * Bytes of the files of a folder, and the same without write-ahead logs, added up; the oldest that
 * was set aside, if asked for (caller frees).
 */
static uint64_t folder_bytes(const char *dir, const char *folder, uint64_t *without_wal,
			     char **ret_aside)
{
	CLEANUP(freep) char *path = mem_printf("%s/%s", dir, folder);
	uint64_t sum = 0;
	time_t oldest = 0;
	DIR *d = opendir(path);

	for (struct dirent *e; d && (e = readdir(d));) {
		struct stat st;
		if (fstatat(dirfd(d), e->d_name, &st, AT_SYMLINK_NOFOLLOW) < 0 ||
		    !S_ISREG(st.st_mode))
			continue;
		sum += (uint64_t)st.st_size;
		*without_wal += is_ahead(e->d_name) ? 0 : (uint64_t)st.st_size;
		if (!ret_aside || !strstr(e->d_name, ".db.damaged-"))
			continue;
		if (!*ret_aside || st.st_mtime < oldest) {
			free(*ret_aside);
			*ret_aside = mem_printf("%s/%s", path, e->d_name);
			oldest = st.st_mtime;
		}
	}
	if (d)
		closedir(d);
	return sum;
}

static void remove_file(struct local_store *s, const char *path)
{
	static const char *const parts[] = {"-wal", "-shm", ""};

	for (size_t i = 0; i < ARRAY_SIZE(parts); i++) {
		CLEANUP(freep) char *part = mem_printf("%s%s", path, parts[i]);
		unlink(part);
	}
	s->stats.expired_files++;
}

static void remove_partition(struct local_store *s, enum partition_kind kind, int64_t number)
{
	CLEANUP(freep) char *path = partition_path(s->dir, kind, number);

	for (int i = 0; i < LOCAL_DAYS; i++)
		if (kind == PARTITION_RAW && s->days[i] && s->days[i]->number == number)
			local_drop(s, s->days[i], 0);
	if (kind == PARTITION_ROLL && s->month && s->month->number == number)
		local_drop(s, s->month, 0);
	remove_file(s, path);
}

static void remove_times(struct local_store *s, int64_t hour)
{
	CLEANUP(freep) char *path = local_times_path(s->dir, hour);

	remove_file(s, path);
}

static int64_t month_end(int64_t month) /* in seconds */
{
	struct tm tm = {.tm_year = (int)((month + 1) / 12) - 1900,
			.tm_mon = (int)((month + 1) % 12),
			.tm_mday = 1};

	return timegm(&tm);
}

/* Gives back to the file system what a file has no more use for. */
static void shrink(struct partition *b)
{
	sqlite3_exec(b->db.db, "PRAGMA incremental_vacuum; PRAGMA wal_checkpoint(TRUNCATE)", NULL,
		     NULL, NULL);
}

/* Runs statements that delete what is before something, all or none, and gives back the room. */
static int delete_before(struct partition *b, const char *const *statements, int64_t before)
{
	int r = sql_begin(&b->db);

	for (size_t i = 0; !r && statements[i]; i++)
		r = sql_run(&b->db, statements[i], "i", before);
	if (r)
		sql_rollback(&b->db);
	else
		r = sql_commit(&b->db);
	if (!r)
		shrink(b);
	return r;
}

static int drop_rolls(struct local_store *s, int64_t month, int64_t before)
{
	static const char *const statements[] = {"DELETE FROM rolls WHERE slot < ?",
						 "DELETE FROM rolled WHERE slot < ?",
						 "DELETE FROM stale WHERE hour < ?", NULL};
	struct partition *b;
	int64_t first;
	int r = local_month(s, month, &b);

	if (r)
		return r;
	r = sql_number(&b->db, "SELECT min(slot) FROM rolled", INT64_MAX, &first);
	if (r || first >= before)
		return r;
	r = delete_before(b, statements, before);
	return r ? r : 1;
}

/* Spans are kept as long as times of samples: of each day that is over for that long, once. */
static bool expire_spans(struct local_store *s, const int64_t *days, uint32_t count,
			 uint64_t now_ms)
{
	for (uint32_t i = 0; i < count; i++) {
		struct partition *b;
		if (days[i] < s->spans_day ||
		    (uint64_t)(days[i] + 1) * DAY_MS + s->o.times_ms > now_ms)
			continue;
		s->spans_day = days[i] + 1;
		if (local_day(s, days[i], &b) == 0 && local_drop_spans(b) == 0)
			shrink(b);
		return true;
	}
	return false;
}

static bool expire(struct local_store *s, uint64_t now_ms)
{
	CLEANUP(freep) int64_t *days = NULL, *months = NULL, *hours = NULL;
	uint32_t day_count = local_list(s->dir, LOCAL_RAW, &days);
	uint32_t month_count = local_list(s->dir, LOCAL_ROLL, &months);
	uint32_t hour_count = local_list(s->dir, LOCAL_TIMES, &hours);

	for (uint32_t i = 0; i < hour_count; i++)
		if ((uint64_t)(hours[i] + 1) * HOUR_S * 1000 + s->o.times_ms <= now_ms)
			remove_times(s, hours[i]);
	for (uint32_t i = 0; i < day_count; i++)
		if ((uint64_t)(days[i] + 1) * DAY_MS + s->o.retention_ms <= now_ms)
			remove_partition(s, PARTITION_RAW, days[i]);
	for (uint32_t i = 0; i < month_count; i++)
		if ((uint64_t)month_end(months[i]) * 1000 + s->o.retention_ms <= now_ms)
			remove_partition(s, PARTITION_ROLL, months[i]);
	if (expire_spans(s, days, day_count, now_ms))
		return true;
	/* Of the month that the limit lies in, day by day. */
	if (now_ms > s->o.retention_ms) {
		int64_t limit = (int64_t)((now_ms - s->o.retention_ms) / 1000) / DAY_S * DAY_S;
		for (uint32_t i = 0; i < month_count; i++)
			if (months[i] == partition_month(limit))
				return drop_rolls(s, months[i], limit) > 0;
	}
	return false;
}

/* The first hour of the latest day, if it is over and packed: whether it went. */
static bool trim_day(struct local_store *s, int64_t day, uint64_t now_ms)
{
	static const char *const statements[] = {"DELETE FROM packs WHERE slot < ?",
						 "DELETE FROM slots WHERE slot < ?", NULL};
	struct partition *b;
	int64_t first;

	if (local_day(s, day, &b) ||
	    sql_number(&b->db, "SELECT min(slot) FROM slots", -1, &first) || first < 0)
		return false;
	int64_t end = first / HOUR_S * HOUR_S + HOUR_S, waiting;
	if ((uint64_t)end * 1000 + HOUR_S * 1000 > now_ms ||
	    sql_number(&b->db, "SELECT min(slot) FROM windows", INT64_MAX, &waiting) ||
	    waiting < end)
		return false;
	accounts_set_floor(&s->accounts, (uint64_t)end * 1000);
	int r = accounts_sync(&s->accounts);
	r = r ? r : delete_before(b, statements, end);
	return !r;
}

/* What goes next: whether something did. */
static bool make_room(struct local_store *s, uint64_t now_ms)
{
	CLEANUP(freep) int64_t *days = NULL, *months = NULL, *hours = NULL;
	uint32_t day_count = local_list(s->dir, LOCAL_RAW, &days);
	uint32_t month_count = local_list(s->dir, LOCAL_ROLL, &months);
	uint32_t hour_count = local_list(s->dir, LOCAL_TIMES, &hours);

	for (size_t i = 0; i < ARRAY_SIZE(folders); i++) {
		CLEANUP(freep) char *aside = NULL;
		uint64_t ignored = 0;
		folder_bytes(s->dir, folders[i], &ignored, &aside);
		if (aside)
			return unlink(aside) == 0;
	}
	if (day_count > 1 && local_pack_day(s, days[0]) == 0) {
		accounts_set_floor(&s->accounts, (uint64_t)(days[0] + 1) * DAY_MS);
		if (accounts_sync(&s->accounts) == 0) {
			remove_partition(s, PARTITION_RAW, days[0]);
			return true;
		}
	}
	if (hour_count > 1) {
		remove_times(s, hours[0]);
		return true;
	}
	if (day_count && trim_day(s, days[day_count - 1], now_ms))
		return true;
	if (month_count > 1) {
		remove_partition(s, PARTITION_ROLL, months[0]);
		return true;
	}
	struct partition *b;
	int64_t first;
	if (!month_count || local_month(s, months[0], &b) ||
	    sql_number(&b->db, "SELECT min(slot) FROM rolled", -1, &first) || first < 0)
		return false;
	int64_t end = first / DAY_S * DAY_S + DAY_S;
	return (uint64_t)end * 1000 <= now_ms && drop_rolls(s, months[0], end) > 0;
}

static void measure(struct local_store *s)
{
	uint64_t without_wal = 0;

	s->stats.raw_bytes = folder_bytes(s->dir, "raw", &without_wal, NULL);
	s->stats.roll_bytes = folder_bytes(s->dir, "roll", &without_wal, NULL);
	s->stats.times_bytes = folder_bytes(s->dir, "times", &without_wal, NULL);
	s->stats.bytes = s->stats.raw_bytes + s->stats.roll_bytes + s->stats.times_bytes +
			 folder_bytes(s->dir, ".", &without_wal, NULL);
	s->stats.bytes_without_wal = without_wal;
}

/* Measures, and takes note of what went since it was last done. */
static void measure_removed(struct local_store *s)
{
	uint64_t before = s->stats.bytes_without_wal;

	measure(s);
	s->stats.removed_bytes += before - MIN(before, s->stats.bytes_without_wal);
}

bool local_retain(struct local_store *s, uint64_t now_ms)
{
	if (now_ms >= s->retain_ms && now_ms < s->retain_ms + EVERY_MS)
		return false;
	measure(s);
	bool more = expire(s, now_ms);
	measure_removed(s);
	local_look_at_span(s);
	if (s->stats.bytes > s->o.max_bytes && make_room(s, now_ms)) {
		measure_removed(s);
		more = true;
	}
	if (!more)
		s->retain_ms = now_ms;
	return more;
}

/* The first or the last slot of a partition, in ms; 0 when it has none. */
static uint64_t edge(struct local_store *s, enum partition_kind kind, int64_t number, bool last)
{
	static const char *const ask[2][2] = {
		{"SELECT min(slot) FROM (SELECT slot FROM slots UNION SELECT slot FROM windows)",
		 "SELECT max(slot) FROM (SELECT slot FROM slots UNION SELECT slot FROM windows)"},
		{"SELECT min(slot) FROM rolled", "SELECT max(slot) FROM rolled"},
	};
	CLEANUP(partition_closep) struct partition *b = NULL;
	int64_t slot = 0;

	if (partition_open(s->dir, kind, number, SQL_READ, &b) == 0)
		sql_number(&b->db, ask[kind][last], 0, &slot);
	return (uint64_t)slot * 1000 + (slot && last ? SLOT_S * 1000 : 0);
}

void local_look_at_span(struct local_store *s)
{
	CLEANUP(freep) int64_t *days = NULL, *months = NULL;
	uint32_t day_count = local_list(s->dir, LOCAL_RAW, &days);
	uint32_t month_count = local_list(s->dir, LOCAL_ROLL, &months);
	uint64_t first = UINT64_MAX, at;

	if (day_count && (at = edge(s, PARTITION_RAW, days[0], false)))
		first = at;
	if (month_count && (at = edge(s, PARTITION_ROLL, months[0], false)))
		first = MIN(first, at);
	s->stats.first_ms = first == UINT64_MAX ? 0 : first;
	if (day_count && !s->stats.last_ms)
		s->stats.last_ms = edge(s, PARTITION_RAW, days[day_count - 1], true);
	if (month_count && !s->stats.last_ms)
		s->stats.last_ms = edge(s, PARTITION_ROLL, months[month_count - 1], true);
}

void local_stats(void *self, struct store_stats *ret)
{
	struct local_store *s = self;

	measure(s);
	if (s->o.read_only) {
		local_load_accounts(s);
		s->stats.last_ms = 0;
		s->stats.writer_ms = local_writer_ms(s);
		local_look_at_span(s);
	}
	accounts_sum(&s->accounts, &s->stats.taken, &s->stats.stored, s->stats.lost);
	*ret = s->stats;
}
