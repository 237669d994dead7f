#include "clickhouse/collectors.h"

#include <errno.h>
#include <inttypes.h>

#define KIN 8 /* bytes of an instance's id */

void collectors_done(struct collectors *c)
{
	free(c->all);
	*c = (struct collectors){};
}

static uint64_t lost_sum(const struct window_counts *c)
{
	uint64_t sum = 0;

	for (int i = 0; i < WINDOW_LOST_REASONS; i++)
		sum += c->lost[i];
	return sum;
}

/* What is known of what it took. */
static uint64_t known(const struct collector *c)
{
	return c->stored + lost_sum(&c->counts);
}

/* What a collector that was followed took with it. */
static uint64_t died(const struct collector *c)
{
	uint64_t end = c->counts.base + known(c);

	return c->followed && c->next_base > end ? c->next_base - end : 0;
}

/* Finds for each the one that it follows: of its kin, the latest that stood at or below its base.
 */
static void chain(struct collectors *c)
{
	for (uint32_t i = 0; i < c->count; i++) {
		struct collector *best = NULL, *next = &c->all[i];
		for (uint32_t k = 0; next->counts.base && k < i; k++) {
			struct collector *one = &c->all[k];
			if (one->followed || memcmp(one->instance, next->instance, KIN) != 0 ||
			    strcmp(one->type, next->type) != 0 ||
			    one->counts.taken > next->counts.base ||
			    one->counts.base + known(one) > next->counts.base)
				continue;
			if (!best || one->counts.taken >= best->counts.taken)
				best = one;
		}
		if (best) {
			best->followed = true;
			best->next_base = next->counts.base;
		}
	}
}

/* Those that a condition selects, with all their messages. Kin are next to one another. */
static int read_some(struct clickhouse_store *s, const char *where, struct collectors *ret,
		     struct store_error *e)
{
	struct client_rows rows;
	size_t len;

	*ret = (struct collectors){};
	int r = clickhouse_ask(
		s, NULL, &rows, e,
		"SELECT type, instance, min(began), any(stood), max(took), maxForEach(gone),"
		" sum(kept) FROM (SELECT type, instance, any(start_ms) AS began, any(base) AS"
		" stood, any(taken) AS took, any(lost) AS gone, any(samples) AS kept FROM windows"
		" WHERE head = 1%s GROUP BY type, instance, sequence, part"
		" UNION ALL SELECT type, instance, any(first_ms) AS began, any(base) AS stood,"
		" max(taken) AS took, maxForEach(lost) AS gone, max(stored) AS kept FROM accounts"
		" WHERE day NOT IN (SELECT DISTINCT day FROM windows WHERE head = 1)%s"
		" GROUP BY type, instance, day)"
		" GROUP BY type, instance ORDER BY min(began), instance, type",
		where, where);
	if (r)
		return r;
	while (rowbinary_more(&rows.in)) {
		MEM_GROW(ret->all, ret->count, ret->cap);
		struct collector *c = &ret->all[ret->count++];
		*c = (struct collector){};
		const char *type = unpack_str(&rows.in, WINDOW_TYPE_MAX - 1, &len);
		snprintf(c->type, sizeof(c->type), "%.*s", (int)len, type);
		rowbinary_get_bytes(&rows.in, c->instance, sizeof(c->instance));
		c->first_ms = rowbinary_get(&rows.in, 8);
		c->counts.base = rowbinary_get(&rows.in, 8);
		c->counts.taken = rowbinary_get(&rows.in, 8);
		uint64_t reasons = unpack_u64(&rows.in);
		for (uint64_t i = 0; i < reasons && !rows.in.bad; i++) {
			uint64_t n = rowbinary_get(&rows.in, 8);
			if (i < WINDOW_LOST_REASONS)
				c->counts.lost[i] = n;
		}
		c->stored = rowbinary_get(&rows.in, 8);
	}
	r = rows.in.bad ? -EPROTO : 0;
	client_rows_done(&rows);
	if (r)
		collectors_done(ret);
	return r;
}

int collectors_read(struct clickhouse_store *s, struct collectors *ret, struct store_error *e)
{
	int r = read_some(s, "", ret, e);

	if (!r)
		chain(ret);
	return r;
}

void collectors_sum(const struct collectors *c, uint64_t *ret_taken, uint64_t *ret_stored,
		    uint64_t ret_lost[static WINDOW_LOST_REASONS])
{
	*ret_taken = *ret_stored = 0;
	memset(ret_lost, 0, WINDOW_LOST_REASONS * sizeof(*ret_lost));
	for (uint32_t i = 0; i < c->count; i++) {
		const struct collector *one = &c->all[i];
		uint64_t end = one->followed ? one->next_base : one->counts.taken;
		uint64_t base = one->counts.base;
		*ret_stored += one->stored;
		*ret_taken += MAX(end > base ? end - base : 0, known(one));
		for (int k = 0; k < WINDOW_LOST_REASONS; k++)
			ret_lost[k] += one->counts.lost[k];
		ret_lost[WINDOW_LOST_DIED] += died(one);
	}
}

/* Collectors with messages in the range and none before it. */
static char *began_in(const char *type, uint64_t from_ms, uint64_t to_ms, const char *having)
{
	CLEANUP(freep) char *range = clickhouse_range(from_ms, to_ms);
	CLEANUP(freep) char *until = clickhouse_range(0, to_ms), *of = clickhouse_type(type);

	return mem_printf("SELECT instance, min(start_ms) AS began FROM windows WHERE %s%s AND"
			  " head = 1 AND instance IN (SELECT instance FROM windows WHERE %s%s AND"
			  " head = 1) AND (type, instance) NOT IN (SELECT type, instance FROM"
			  " accounts) GROUP BY type, instance HAVING min(start_ms) >= %" PRIu64
			  "%s",
			  until, of, range, of, from_ms, having);
}

int collectors_died(struct clickhouse_store *s, const char *type, uint64_t from_ms, uint64_t to_ms,
		    uint64_t *lost, struct store_error *e)
{
	CLEANUP(freep) char *those = began_in(type, from_ms, to_ms, " AND any(base) > 0");
	CLEANUP(freep) char *of = clickhouse_type(type);
	CLEANUP(freep)
	char *where = mem_printf("%s AND substring(instance, 1, %d) IN (SELECT"
				 " substring(instance, 1, %d) FROM (%s))",
				 of, KIN, KIN, those);
	struct collectors kin;

	int r = read_some(s, where, &kin, e);
	if (r)
		return r;
	chain(&kin);
	for (uint32_t i = 0; i < kin.count; i++) {
		const struct collector *c = &kin.all[i];
		for (uint32_t k = i + 1; c->followed && k < kin.count; k++) {
			const struct collector *next = &kin.all[k];
			if (next->counts.base != c->next_base ||
			    memcmp(c->instance, next->instance, KIN) != 0 ||
			    strcmp(c->type, next->type) != 0)
				continue;
			if (next->first_ms >= from_ms && next->first_ms < to_ms)
				*lost += died(c);
			break;
		}
	}
	collectors_done(&kin);
	return 0;
}

int collectors_began(struct clickhouse_store *s, const char *type, uint64_t from_ms, uint64_t to_ms,
		     uint64_t **ret, uint32_t *ret_count, struct store_error *e)
{
	CLEANUP(freep) char *sql = began_in(type, from_ms, to_ms, "");
	struct client_rows rows;
	uint32_t cap = 0;

	*ret = NULL;
	*ret_count = 0;
	int r = clickhouse_ask(s, NULL, &rows, e, "SELECT began FROM (%s)", sql);
	if (r)
		return r;
	while (rowbinary_more(&rows.in)) {
		MEM_GROW(*ret, *ret_count, cap);
		(*ret)[(*ret_count)++] = rowbinary_get(&rows.in, 8);
	}
	r = rows.in.bad ? -EPROTO : 0;
	client_rows_done(&rows);
	return r;
}
