#include "clickhouse/clickhouse_internal.h"

#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <sys/random.h>

#include "store/operations.h"

#define RETAIN_MS  600000 /* how often days are looked for that are too old */
#define HOUR_MS    ((uint64_t)3600000)
#define DAYS_MAX   65535ull /* of a Date */
#define ENDS_MAX   16       /* partitions that a step of maintenance ends, of each kind */
#define NAME_BYTES 256
#define DROP       "DROP PARTITION"
#define TIMED_DAYS 7ull /* that are looked at for times of samples which are too old */

void clickhouse_say(struct store_error *e, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(e->text, sizeof(e->text), fmt, ap);
	va_end(ap);
}

int clickhouse_ask(struct clickhouse_store *s, const struct client_table *table,
		   struct client_rows *ret, struct store_error *e, const char *fmt, ...)
{
	char *sql;
	size_t len;
	va_list ap;
	FILE *f = open_memstream(&sql, &len);

	va_start(ap, fmt);
	vfprintf(f, fmt, ap);
	va_end(ap);
	fclose(f);
	int r = client_ask(s->client, sql, table, ret, e);
	free(sql);
	return r;
}

void clickhouse_quote(FILE *f, const char *text)
{
	putc_unlocked('\'', f);
	for (; *text; text++) {
		if (*text == '\'' || *text == '\\')
			putc_unlocked('\\', f);
		putc_unlocked(*text, f);
	}
	putc_unlocked('\'', f);
}

char *clickhouse_days(uint64_t from_ms, uint64_t to_ms)
{
	uint64_t last_ms = MAX(to_ms, 1) - 1;

	return mem_printf("day >= toDate(%llu) AND day <= toDate(%llu)",
			  MIN(from_ms / CLICKHOUSE_DAY_MS, DAYS_MAX),
			  MIN(last_ms / CLICKHOUSE_DAY_MS, DAYS_MAX));
}

char *clickhouse_range(uint64_t from_ms, uint64_t to_ms)
{
	CLEANUP(freep) char *days = clickhouse_days(from_ms, to_ms);

	return mem_printf("%s AND intDiv(start_ms, 3600000) >= %" PRIu64
			  " AND intDiv(start_ms, 3600000) <= %" PRIu64 " AND start_ms >= %" PRIu64
			  " AND start_ms < %" PRIu64,
			  days, from_ms / HOUR_MS, to_ms / HOUR_MS, from_ms, to_ms);
}

char *clickhouse_type(const char *type)
{
	char *text;
	size_t len;

	if (!type)
		return mem_strdup("");
	FILE *f = open_memstream(&text, &len);
	fputs(" AND type = ", f);
	clickhouse_quote(f, type);
	fclose(f);
	return text;
}

/* ---- opening --------------------------------------------------------------------------------- */

static void clickhouse_close(void *self)
{
	struct clickhouse_store *s = self;

	client_free(s->client);
	announced_done(&s->announced);
	free(s);
}

/* For the writer: whether the server answers, and has the tables. */
static int check(struct clickhouse_store *s, struct store_error *e)
{
	static const char *const tables[] = {"windows", "stacks",   "frames",  "series",
					     "spans",   "findings", "accounts"};

	for (size_t i = 0; i < ARRAY_SIZE(tables); i++) {
		struct client_rows rows;
		int r = clickhouse_ask(s, NULL, &rows, e, "SELECT day FROM %s LIMIT 0", tables[i]);
		if (r)
			return r;
		client_rows_done(&rows);
	}
	return 0;
}

static int clickhouse_open(const char *where, const struct store_options *o, void **ret,
			   struct store_error *ret_err)
{
	struct clickhouse_store *s = mem_alloc(sizeof(*s));

	s->o = *o;
	if (getrandom(&s->copy, sizeof(s->copy), 0) != sizeof(s->copy))
		s->copy = (uint64_t)(uintptr_t)s * (uint64_t)getpid();
	s->copy &= ~(uint64_t)UINT32_MAX;
	int r = client_new(where, &s->o, &s->client, ret_err);
	r = r || s->o.read_only ? r : check(s, ret_err);
	if (r) {
		clickhouse_close(s);
		return r;
	}
	*ret = s;
	return 0;
}

/* ---- retention ------------------------------------------------------------------------------- */

/* What is kept of a day's messages when they go. */
static int keep_accounts(struct clickhouse_store *s, const char *day, size_t len,
			 struct store_error *e)
{
	CLEANUP(freep)
	char *sql = mem_printf(
		"INSERT INTO accounts SELECT day, type, instance, min(began), any(stood), "
		"max(took),"
		" maxForEach(gone), sum(kept) FROM (SELECT day, type, instance, any(start_ms) AS"
		" began, any(base) AS stood, any(taken) AS took, any(lost) AS gone, any(samples) AS"
		" kept FROM windows WHERE head = 1 AND day = '%.*s' GROUP BY day, type, instance,"
		" sequence, part) GROUP BY day, type, instance",
		(int)len, day);

	return client_run(s->client, sql, true, e);
}

/*
 * Does something to partitions, each of which is a day: `which` is SQL that tells tables and days.
 * What another server ended in the meantime is no error of ours.
 */
static int end_days(struct clickhouse_store *s, const char *which, const char *what, bool *ret_more,
		    struct store_error *e)
{
	struct client_rows rows;
	unsigned n = 0;

	int r = client_ask(s->client, which, NULL, &rows, e);
	while (!r && rowbinary_more(&rows.in) && n++ < ENDS_MAX) {
		size_t table_len, day_len;
		const char *table = unpack_str(&rows.in, NAME_BYTES, &table_len);
		const char *day = unpack_str(&rows.in, NAME_BYTES, &day_len);
		if (rows.in.bad)
			break;
		/* Some versions tell the partition with its quotes. */
		if (day_len > 1 && *day == '\'') {
			day++;
			day_len -= 2;
		}
		CLEANUP(freep)
		char *sql = mem_printf("ALTER TABLE %.*s %s '%.*s'", (int)table_len, table, what,
				       (int)day_len, day);
		if (strncmp(table, "windows", table_len) == 0 && strcmp(what, DROP) == 0)
			r = keep_accounts(s, day, day_len, e);
		r = r ? r : client_run(s->client, sql, true, e);
	}
	*ret_more |= n > ENDS_MAX;
	client_rows_done(&rows);
	return r;
}

static char *days_before(const struct clickhouse_store *s, uint64_t day, const char *tables)
{
	return mem_printf("SELECT DISTINCT table, partition FROM system.parts WHERE active AND"
			  " database = '%s' AND min_date > toDate(0) AND max_date < toDate(%llu)%s",
			  client_database(s->client), MIN(day, DAYS_MAX), tables);
}

/* The first day that is younger than `age_ms`. */
static uint64_t first_day(uint64_t now_ms, uint64_t age_ms)
{
	return (now_ms - MIN(age_ms, now_ms)) / CLICKHOUSE_DAY_MS;
}

/*
 * Days that are older than the retention go, and sooner, spans and the times of samples. The latter
 * are a column that a day loses; days which have lost it long ago are not looked at again.
 */
static bool clickhouse_maintain(void *self, uint64_t now_ms)
{
	struct clickhouse_store *s = self;
	uint64_t timed = first_day(now_ms, s->o.times_ms);
	bool more = false;

	if (s->o.read_only || (s->retain_ms && now_ms - s->retain_ms < RETAIN_MS))
		return false;
	s->retain_ms = now_ms;
	CLEANUP(freep) char *old = days_before(s, first_day(now_ms, s->o.retention_ms), "");
	CLEANUP(freep) char *spans = days_before(s, timed, " AND table = 'spans'");
	CLEANUP(freep)
	char *times =
		mem_printf("SELECT DISTINCT 'windows', toString(day) FROM windows WHERE"
			   " day >= toDate(%llu) AND day < toDate(%llu) AND notEmpty(times)",
			   MIN(timed - MIN(timed, TIMED_DAYS), DAYS_MAX), MIN(timed, DAYS_MAX));
	if (end_days(s, old, DROP, &more, &s->trouble) == 0 &&
	    end_days(s, spans, DROP, &more, &s->trouble) == 0)
		end_days(s, times, "CLEAR COLUMN times IN PARTITION", &more, &s->trouble);
	if (more)
		s->retain_ms = 0;
	return more;
}

static bool clickhouse_warning(void *self, struct store_error *ret)
{
	struct clickhouse_store *s = self;
	bool any = *s->trouble.text;

	if (any)
		*ret = s->trouble;
	s->trouble = (struct store_error){};
	return any;
}

const struct store_operations clickhouse_operations = {
	.prefix = CLIENT_PREFIX,
	.open = clickhouse_open,
	.close = clickhouse_close,
	.append = clickhouse_append,
	.maintain = clickhouse_maintain,
	.warning = clickhouse_warning,
	.sum = clickhouse_sum,
	.timeline = clickhouse_timeline,
	.heat = clickhouse_heat,
	.names = clickhouse_names,
	.findings = clickhouse_findings,
	.stats = clickhouse_stats,
	.migrate = clickhouse_migrate,
};
