/*
 * range_scan: visits the blobs that make up a time range, file by file, each sample once.
 *
 * For each five minutes it uses one of: the sum over their hour, their own sum, or their windows. A
 * sum is used only if it is complete with regard to the day (pack_slot.c says how that is known),
 * so the answer does not depend on which one was used. Where a range begins or ends inside five
 * minutes, their windows are used; if those are gone, the whole five minutes.
 *
 * A window belongs to the range it begins in: adjacent ranges share no window.
 */
#pragma once

#include "store/local_internal.h"

struct scanned_blob {
	const struct partition_type *type;
	struct columns_reader *rows;
	struct columns_times *times; /* NULL: none are kept */
	uint64_t from_ms, to_ms;     /* windows that begin in this range count */
	bool sum;                    /* a sum over five minutes or an hour */
};

struct range_scan {
	struct local_store *s;
	const struct store_query *q;
	uint64_t from_ms, to_ms; /* as asked for, rounded to windows */
	bool prefer_raw;         /* use windows wherever there are any */
	bool hours;              /* sums over an hour may be used; else only over five minutes */
	bool times;              /* read sample times too: windows only */
	bool all_types;          /* not only q->type */
	/* 0 or a negative errno, which ends the walk. */
	int (*file)(void *ctx, const struct dict_view *v);
	int (*blob)(void *ctx, struct scanned_blob *b);
	int (*file_end)(void *ctx);
	void *ctx;
	struct store_answer *answer;
	uint64_t covered_from, covered_to; /* private: of the windows so far; to 0: none */
};

int range_scan(struct range_scan *w);

static inline bool range_scan_wants(const struct scanned_blob *b, uint32_t window)
{
	uint64_t start = b->rows->windows[window].start_ms;

	return b->sum || (start >= b->from_ms && start < b->to_ms);
}
