#include "clickhouse/messages.h"

#include <errno.h>
#include <inttypes.h>

#include "base/sort.h"
#include "clickhouse/collectors.h"

#define TRIES      5
#define COPIES_MAX 10000
#define FIVE_MIN   300000ull

char *messages_where(const struct messages_range *r)
{
	CLEANUP(freep) char *type = clickhouse_type(r->type);
	/* One that overlaps began within its length before. */
	uint64_t from_ms = r->spans ? r->from_ms - MIN(r->from_ms, WINDOW_LENGTH_MAX) : r->from_ms;
	CLEANUP(freep) char *range = clickhouse_range(from_ms, r->to_ms);

	if (!r->spans)
		return mem_printf("%s%s", range, type);
	return mem_printf("%s%s AND start_ms + length_ms > %" PRIu64, range, type, r->from_ms);
}

/* Messages, each once, from a table. */
static char *heads(const struct messages_range *r)
{
	CLEANUP(freep) char *where = messages_where(r);

	return mem_printf("SELECT any(start_ms) AS began, any(start_ms + length_ms) AS ended,"
			  " any(unit) AS in_unit, any(period) AS of_period,"
			  " uniqExact(copy) AS copy_count, any(%s) AS was_lost, any(%s) AS stood"
			  " FROM %s WHERE %s%s GROUP BY instance, sequence, part",
			  r->spans ? "toUInt64(0)" : "arraySum(lost)",
			  r->spans ? "toUInt64(0)" : "base", r->spans ? "spans" : "windows", where,
			  r->spans ? "" : " AND head = 1");
}

static int read_copies(struct clickhouse_store *s, const struct messages_range *r,
		       struct messages *m, struct store_error *e)
{
	CLEANUP(freep) char *where = messages_where(r);
	struct client_rows rows;

	int err = clickhouse_ask(
		s, NULL, &rows, e,
		"SELECT one FROM (SELECT groupUniqArray(copy) AS all_copies, max(copy) AS kept"
		" FROM %s WHERE %s%s GROUP BY instance, sequence, part"
		" HAVING uniqExact(copy) > 1) ARRAY JOIN all_copies AS one WHERE one != kept",
		r->spans ? "spans" : "windows", where, r->spans ? "" : " AND head = 1");
	if (err)
		return err;
	while (rowbinary_more(&rows.in) && m->copy_count < COPIES_MAX) {
		MEM_GROW(m->copies, m->copy_count, m->copy_cap);
		m->copies[m->copy_count++] = rowbinary_get(&rows.in, 8);
	}
	bool bad = rows.in.bad, more = rowbinary_more(&rows.in);
	client_rows_done(&rows);
	if (bad)
		return -EPROTO;
	if (more) {
		clickhouse_say(e,
			       "more than %d messages of that range are stored twice; ask for a "
			       "shorter one",
			       COPIES_MAX);
		return -EOVERFLOW;
	}
	sort_by_u64(m->copies, m->copy_count, sizeof(*m->copies));
	return 0;
}

/* What collectors said they lost, from one message of theirs to the next. */
static int read_lost(struct clickhouse_store *s, const struct messages_range *r, struct messages *m,
		     struct store_error *e)
{
	CLEANUP(freep) char *where = messages_where(r), *type = clickhouse_type(r->type);
	CLEANUP(freep) char *until = clickhouse_range(0, r->to_ms);
	struct client_rows rows;

	int err = clickhouse_ask(
		s, NULL, &rows, e,
		"SELECT sum(if(at_end > before, at_end - before, 0)) FROM"
		" (SELECT maxIf(was_lost, start_ms >= %" PRIu64 ") AS at_end,"
		" maxIf(was_lost, start_ms < %" PRIu64 ") AS before FROM"
		" (SELECT type, instance, start_ms, arraySum(lost) AS was_lost FROM windows"
		" WHERE %s%s AND head = 1 AND instance IN (SELECT instance FROM windows WHERE %s"
		" AND head = 1 AND arraySum(lost) > 0) UNION ALL SELECT type, instance,"
		" toUInt64(0) AS start_ms, arraySum(lost) AS was_lost FROM accounts WHERE 1%s)"
		" GROUP BY type, instance)",
		r->from_ms, r->from_ms, until, type, where, type);
	if (err)
		return err;
	m->lost += rowbinary_get(&rows.in, 8);
	err = rows.in.bad ? -EPROTO : 0;
	client_rows_done(&rows);
	return err;
}

static int read_heads(struct clickhouse_store *s, const struct messages_range *r,
		      struct messages *m, struct store_error *e)
{
	struct messages_range wide = *r;
	struct client_rows rows;
	size_t len;

	/* The unit of an empty range is that of the five minutes around it. */
	wide.from_ms = r->from_ms / FIVE_MIN * FIVE_MIN;
	wide.to_ms = (MIN(r->to_ms, INT64_MAX / 2) + FIVE_MIN - 1) / FIVE_MIN * FIVE_MIN;
	CLEANUP(freep) char *from = heads(r->spans ? r : &wide);
	CLEANUP(freep)
	char *in = r->spans ? mem_strdup("1")
			    : mem_printf("began >= %" PRIu64 " AND began < %" PRIu64, r->from_ms,
					 r->to_ms);
	int err = clickhouse_ask(
		s, NULL, &rows, e,
		"SELECT countIf(%s), sumIf(copy_count, %s), minIf(began, %s), maxIf(ended, %s),"
		" maxIf(was_lost, %s), maxIf(stood, %s), count(), argMin(in_unit, began),"
		" min(of_period), max(of_period) FROM (%s)",
		in, in, in, in, in, in, from);
	if (err)
		return err;
	m->count = rowbinary_get(&rows.in, 8);
	uint64_t with_copies = rowbinary_get(&rows.in, 8);
	m->from_ms = rowbinary_get(&rows.in, 8);
	m->to_ms = rowbinary_get(&rows.in, 8);
	bool has_lost = rowbinary_get(&rows.in, 8), has_base = rowbinary_get(&rows.in, 8);
	m->is_known = rowbinary_get(&rows.in, 8);
	const char *unit = unpack_str(&rows.in, WINDOW_TYPE_MAX - 1, &len);
	snprintf(m->unit, sizeof(m->unit), "%.*s", (int)len, unit);
	uint64_t least = rowbinary_get(&rows.in, 8), most = rowbinary_get(&rows.in, 8);
	m->period = least == most ? least : 0;
	err = rows.in.bad ? -EPROTO : 0;
	client_rows_done(&rows);
	if (!err && with_copies > m->count)
		err = read_copies(s, r, m, e);
	if (!err && r->lost && has_lost)
		err = read_lost(s, r, m, e);
	if (!err && r->lost && has_base)
		err = collectors_died(s, r->type, r->from_ms, r->to_ms, &m->lost, e);
	return err;
}

static char *without(const struct messages *m)
{
	char *text;
	size_t len;
	FILE *f = open_memstream(&text, &len);

	for (uint32_t i = 0; i < m->copy_count; i++)
		fprintf(f, "%s%" PRIu64, i ? "," : " AND copy NOT IN (", m->copies[i]);
	fputs(m->copy_count ? ")" : "", f);
	fclose(f);
	return text;
}

static bool same_copies(const struct messages *a, const struct messages *b)
{
	return a->copy_count == b->copy_count &&
	       (!a->copy_count ||
		memcmp(a->copies, b->copies, a->copy_count * sizeof(*a->copies)) == 0);
}

int messages_read_once(struct clickhouse_store *s, const struct messages_range *r,
		       messages_read_fn *read, void *ctx, struct messages *ret,
		       struct store_error *e)
{
	struct messages known = {};

	for (int tries = 0; tries < TRIES; tries++) {
		CLEANUP(freep) char *condition = without(&known);
		struct messages now = {};
		int err = read(ctx, condition, e);
		err = err ? err : read_heads(s, r, &now, e);
		bool same = same_copies(&known, &now);
		messages_done(&known);
		known = now;
		if (err) {
			messages_done(&known);
			return err;
		}
		if (same) {
			*ret = known;
			return 0;
		}
	}
	messages_done(&known);
	clickhouse_say(e, "messages of that range are being stored twice all the time; try again");
	return -EAGAIN;
}

void messages_done(struct messages *m)
{
	free(m->copies);
	*m = (struct messages){};
}
