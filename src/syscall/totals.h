/*
 * totals: what was counted of system calls, added up by owner (process, thread or control group),
 * by call, or by both.
 *
 * At most SYSCALL_ROWS_MAX rows: calls of further owners are added to the row of
 * SYSCALL_COUNTER_OTHERS.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "bpf/syscall_wire.h"

#define SYSCALL_ROWS_MAX 65536

struct syscall_error_count {
	int error;
	uint64_t count;
};

struct syscall_row {
	uint64_t id;   /* of the owner; 0 where they are not told apart */
	uint32_t call; /* 0 where they are not told apart */
	char comm[SYSCALL_COMM];
	uint64_t calls, errors, timed;
	uint64_t unfinished;      /* begun, but not returned: not in calls */
	uint64_t longest_open_ns; /* of those that are still open */
	uint64_t total_ns, min_ns, max_ns;
	uint64_t buckets[SYSCALL_BUCKETS];
	struct syscall_error_count *by_error; /* most frequent first, once sorted */
	size_t error_count;
};

struct syscall_totals;

struct syscall_totals *syscall_totals_new(bool by_owner, bool by_call);
void syscall_totals_free(struct syscall_totals *t); /* NULL is fine */
void syscall_totals_clear(struct syscall_totals *t);

/* The functions of a struct syscall_sink (collect/syscall_counter.h): ctx is the totals. */
void syscall_totals_slot(void *ctx, uint64_t id, uint32_t call, const struct syscall_slot *slot,
			 const char *comm);
/* Says with which error `count` of the calls failed that syscall_totals_slot() has added. If the
 * row has fewer errors than that, the rest is counted in the row of SYSCALL_COUNTER_OTHERS. */
void syscall_totals_error(void *ctx, uint64_t id, uint32_t call, int error, uint64_t count);

/* One more call, which has lasted for `ns` and has not returned. */
void syscall_totals_open(struct syscall_totals *t, uint64_t id, uint32_t call, uint64_t ns);

/* What the rows are sorted by, largest first. */
enum syscall_order {
	SYSCALL_ORDER_TOTAL,
	SYSCALL_ORDER_CALLS,
	SYSCALL_ORDER_ERRORS,
	SYSCALL_ORDER_AVERAGE,
	SYSCALL_ORDER_MAX,
};

/* Sorted, also each row's errors; valid until something is added. */
const struct syscall_row *syscall_totals_rows(struct syscall_totals *t, enum syscall_order order,
					      size_t *ret_count);

/* All rows in one; its errors are borrowed from t until something is added. */
const struct syscall_row *syscall_totals_sum(struct syscall_totals *t);

/*
 * The latency that `share` of the timed calls (0.5, 0.99) did not exceed, from the histogram:
 * interpolated within a bucket, never outside of min_ns and max_ns. 0 if none was timed.
 */
uint64_t syscall_row_percentile(const struct syscall_row *r, double share);
