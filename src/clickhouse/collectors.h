/*
 * collectors: what each collector took of each type of samples, and what became of it: taken =
 * stored + lost, exactly.
 *
 * A collector is one instance of the program (window.h). Those whose ids share the first 8 bytes
 * succeed one another on the same counters of one machine; what one had taken but not sent when it
 * ended is known from where the next one began.
 */
#pragma once

#include "clickhouse/clickhouse_internal.h"

struct collector {
	char type[WINDOW_TYPE_MAX];
	uint8_t instance[16];
	uint64_t first_ms; /* its first window */
	struct window_counts counts;
	uint64_t stored;
	uint64_t next_base; /* of the one that followed */
	bool followed;
};

struct collectors {
	struct collector *all; /* by time of their first window */
	uint32_t count, cap;
};

/* All of them; collectors_done(). */
int collectors_read(struct clickhouse_store *s, struct collectors *ret, struct store_error *e);
void collectors_done(struct collectors *c);

/* Taken = stored + lost. */
void collectors_sum(const struct collectors *c, uint64_t *ret_taken, uint64_t *ret_stored,
		    uint64_t ret_lost[static WINDOW_LOST_REASONS]);

/* Adds to *lost what ended with collectors whose next one began in the range. */
int collectors_died(struct clickhouse_store *s, const char *type, uint64_t from_ms, uint64_t to_ms,
		    uint64_t *lost, struct store_error *e);

/* When collectors of that type began, in the range; caller frees *ret. */
int collectors_began(struct clickhouse_store *s, const char *type, uint64_t from_ms, uint64_t to_ms,
		     uint64_t **ret, uint32_t *ret_count, struct store_error *e);
