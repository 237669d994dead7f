/*
 * messages: which messages of collectors a range of time has, whatever series they are about: from
 * when to when, in which unit, how much was lost.
 *
 * A message may be there twice, when a collector sent it to two servers at a time. Rows of all
 * copies but the one with the highest number are left out. As rows are only ever added, reading is
 * exact by looking for copies after the rows were read, and reading again if there are new ones:
 * messages_read_once().
 */
#pragma once

#include "clickhouse/clickhouse_internal.h"

struct messages {
	uint64_t count;
	uint64_t from_ms, to_ms; /* what they cover; meaningless if there are none */
	uint64_t lost;           /* of samples, as they tell; what died with collectors included */
	bool is_known; /* whether unit and period are: of messages of the range's five minutes */
	char unit[WINDOW_TYPE_MAX];
	uint64_t period;  /* 0: it varies */
	uint64_t *copies; /* to be left out, sorted */
	uint32_t copy_count, copy_cap;
};

struct messages_range {
	const char *type; /* NULL: all */
	uint64_t from_ms, to_ms;
	bool spans; /* messages of spans, which overlap the range */
	bool lost;  /* also what was lost */
};

/*
 * Calls `read` with a condition on `copy` (" AND …" or "") until it has read each message of the
 * range once, and says what they were; messages_done(). `read` begins anew each time. 0; -EAGAIN:
 * more copies all the time; or what went wrong.
 */
typedef int messages_read_fn(void *ctx, const char *without, struct store_error *e);
int messages_read_once(struct clickhouse_store *s, const struct messages_range *r,
		       messages_read_fn *read, void *ctx, struct messages *ret,
		       struct store_error *e);
void messages_done(struct messages *m);

/* The conditions of a range, type included; caller frees. */
char *messages_where(const struct messages_range *r);
