/*
 * Findings: of what was told of one on a day the latest is true, and of several days that which
 * lasted longest.
 */
#include <errno.h>
#include <inttypes.h>

#include "clickhouse/clickhouse_internal.h"
#include "store/operations.h"

int clickhouse_append_findings(struct clickhouse_store *s, const struct window *w, uint64_t now_ms,
			       struct store_error *e)
{
	struct pack rows = {};

	for (uint32_t i = 0; i < w->finding_count; i++) {
		const struct finding *f = &w->findings[i];
		struct pack body = {};
		finding_write(f, &body);
		rowbinary_put(&rows, w->start_ms / CLICKHOUSE_DAY_MS, 2);
		pack_raw(&rows, f->instance, sizeof(f->instance));
		rowbinary_put(&rows, f->id, 8);
		rowbinary_put(&rows, f->began_ms, 8);
		rowbinary_put(&rows, f->until_ms, 8);
		rowbinary_put(&rows, now_ms, 8);
		pack_str(&rows, (const char *)body.bytes, body.len);
		pack_done(&body);
	}
	int r = client_insert(s->client, "findings", &rows, e);
	pack_done(&rows);
	return r;
}

static int by_time(const void *a, const void *b)
{
	const struct finding *x = a, *y = b;

	if (x->began_ms != y->began_ms)
		return x->began_ms < y->began_ms ? 1 : -1;
	return (x->id < y->id) - (x->id > y->id);
}

int clickhouse_findings(void *self, const struct store_query *q, struct store_findings *ret,
			struct store_error *ret_err)
{
	CLEANUP(freep) char *days = clickhouse_days(q->from_ms, q->to_ms);
	struct client_rows rows;

	*ret = (struct store_findings){};
	int r = clickhouse_ask(
		self, NULL, &rows, ret_err,
		"SELECT instance, body FROM (SELECT day, instance, began_ms, until_ms, body FROM"
		" findings WHERE %s ORDER BY until_ms DESC, received_ms DESC"
		" LIMIT 1 BY day, instance, id) WHERE began_ms < %" PRIu64
		" AND until_ms >= %" PRIu64 " ORDER BY day DESC, until_ms DESC, instance LIMIT %d",
		days, q->to_ms, q->from_ms, 4 * STORE_FINDINGS_MAX);
	if (r)
		return r;
	while (rowbinary_more(&rows.in)) {
		uint8_t instance[16];
		struct finding f;
		size_t len;
		rowbinary_get_bytes(&rows.in, instance, sizeof(instance));
		const uint8_t *body = (const uint8_t *)unpack_str(&rows.in, 1 << 16, &len);
		struct unpack in = {body, body + len, false};
		finding_read(&in, &f);
		memcpy(f.instance, instance, sizeof(f.instance));
		if (!in.bad && !rows.in.bad)
			store_findings_add(ret, &f);
	}
	r = rows.in.bad ? -EPROTO : 0;
	client_rows_done(&rows);
	if (r)
		store_findings_done(ret);
	else if (ret->count)
		qsort(ret->findings, ret->count, sizeof(*ret->findings), by_time);
	return r;
}
