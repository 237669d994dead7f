/* Statistics: what this process did, and what the database has, which is read every few seconds. */
#include <errno.h>

#include "base/clock.h"
#include "clickhouse/collectors.h"

#define FRESH_MS 2000

static int read_span(struct clickhouse_store *s, struct store_stats *to, struct store_error *e)
{
	struct client_rows rows;
	int r = clickhouse_ask(s, NULL, &rows, e,
			       "SELECT min(start_ms), max(start_ms + length_ms) FROM windows WHERE"
			       " head = 1");

	if (r)
		return r;
	to->first_ms = rowbinary_get(&rows.in, 8) / 300000 * 300000;
	to->last_ms = rowbinary_get(&rows.in, 8);
	r = rows.in.bad ? -EPROTO : 0;
	client_rows_done(&rows);
	return r;
}

static int read_bytes(struct clickhouse_store *s, struct store_stats *to, struct store_error *e)
{
	struct client_rows rows;
	int r = clickhouse_ask(s, NULL, &rows, e,
			       "SELECT sum(bytes_on_disk) FROM system.parts WHERE active AND"
			       " database = '%s'",
			       client_database(s->client));

	if (r)
		return r;
	to->bytes = to->raw_bytes = to->bytes_without_wal = rowbinary_get(&rows.in, 8);
	r = rows.in.bad ? -EPROTO : 0;
	client_rows_done(&rows);
	return r;
}

static int read_accounts(struct clickhouse_store *s, struct store_stats *to, struct store_error *e)
{
	struct collectors all;
	int r = collectors_read(s, &all, e);

	if (r)
		return r;
	collectors_sum(&all, &to->taken, &to->stored, to->lost);
	collectors_done(&all);
	return 0;
}

void clickhouse_stats(void *self, struct store_stats *ret)
{
	struct clickhouse_store *s = self;
	uint64_t now = clock_ms(CLOCK_MONOTONIC);
	struct store_error none = {};

	if (!s->figures_ms || now - s->figures_ms > FRESH_MS) {
		struct store_stats figures = {};
		int r = read_span(s, &figures, &none);
		r = r ? r : read_bytes(s, &figures, &none);
		r = r ? r : read_accounts(s, &figures, &none);
		if (!r)
			s->figures = figures;
		s->figures_ms = now;
	}
	*ret = s->stats;
	ret->bytes = s->figures.bytes;
	ret->raw_bytes = s->figures.raw_bytes;
	ret->bytes_without_wal = s->figures.bytes_without_wal;
	ret->first_ms = s->figures.first_ms;
	ret->last_ms = s->figures.last_ms;
	ret->taken = s->figures.taken;
	ret->stored = s->figures.stored;
	memcpy(ret->lost, s->figures.lost, sizeof(ret->lost));
}
