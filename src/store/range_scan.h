/*
 * range_scan: the blobs that a range of time is made of, file by file, each sample once.
 *
 * For each five minutes it takes one of: the sum of the hour they lie in, their own sum, or their
 * windows. A sum is taken only if it has all that the day has (maintain.c says how that is known),
 * so the answer does not depend on which was taken. A range that begins or ends inside five minutes
 * takes their windows; where those are gone, the whole five minutes.
 *
 * A window counts where it begins: ranges that follow one another share no window.
 */
#pragma once

#include "store/local_internal.h"

struct scanned_blob {
	const struct partition_type *type;
	struct columns_reader *rows;
	struct columns_times *times; /* NULL: none are kept */
	uint64_t from_ms, to_ms;     /* windows that begin here are wanted */
	bool sum;                    /* of five minutes or an hour */
};

struct range_scan {
	struct local_store *s;
	const struct store_query *q;
	uint64_t from_ms, to_ms; /* as asked for, in steps of a window */
	bool prefer_raw;         /* windows, wherever there are any */
	bool hours;              /* sums of an hour will do; else those of five minutes at most */
	bool times;              /* sample times as well: windows only */
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
