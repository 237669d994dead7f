/*
 * columns: windows as a blob: columns of packed integers (base/pack.h), compressed with zstd.
 *
 * A blob holds windows of one type: a single message, the five minutes of a pack, or one sum of a
 * roll-up. Rows are (series, stack, window) -> count and value, in that order. A blob is, in
 * one zstd frame:
 *
 *	version (1), flags (1: there is a column of values)
 *	windows, then each: start in ms (difference to the one before, zigzag), length in ms,
 *	      messages, lost, restarted (0 or 1)
 *	bytes of each column that follows, six of them
 *	series      for each: difference to the one before
 *	stacks      for each series: how many stacks it has
 *	stack       for each of those: difference to the one before in the series
 *	windows     for each stack: how many windows it is in, then the index of the window, as
 *	            difference to the one before; empty when there is only one window
 *	count       for each row
 *	value       for each row: value less count * period, zigzag; empty without flag 1: all 0
 *
 * Sample times are a blob of their own, whose rows are those of a columns blob in the same order:
 *
 *	version (1), rows, samples
 *	bytes of each column that follows, three of them
 *	known       for each row: how many of its samples have a known time; empty: all
 *	low, high   for each such sample two bytes: steps of WINDOW_STEP_MS since the start of the
 *	            window, the first of a row as it is, then differences
 *
 * Blobs come from disk: anything malformed is an error, never a crash.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/pack.h"
#include "base/compressor.h"

#define COLUMNS_WINDOWS_MAX (1u << 20)
#define COLUMNS_BYTES_MAX                                                                          \
	(64u << 20) /* of an uncompressed blob: no larger one is written or read */

struct columns_window {
	uint64_t start_ms;
	uint32_t length_ms;
	uint32_t messages;
	uint64_t lost;
	bool restarted; /* a collector started in it */
};

/* Series, stack and window in one word, in sort order; ids are below the caps of entries.h. */
#define COLUMNS_KEY(series, stack, window)                                                         \
	((uint64_t)(series) << 44 | (uint64_t)(stack) << 20 | (window))
#define COLUMNS_SERIES(key) ((uint32_t)((key) >> 44))
#define COLUMNS_STACK(key)  ((uint32_t)((key) >> 20 & 0xffffff))
#define COLUMNS_WINDOW(key) ((uint32_t)((key)&0xfffff))

struct columns_row {
	uint64_t key;
	uint64_t count, value;
	uint32_t time, known; /* sample times, if kept: index of the first, and how many */
};

/* Windows and rows in memory; zero-initialised is empty. */
struct columns {
	struct columns_window *windows;
	uint32_t window_count, window_cap;
	struct columns_row *rows;
	size_t row_count, row_cap;
	uint16_t *times;
	size_t time_count, time_cap;
};

void columns_done(struct columns *c);
void columns_clear(struct columns *c); /* keeps the memory */

/* The index of the window with this start and length, added if it is new. */
uint32_t columns_window(struct columns *c, uint64_t start_ms, uint32_t length_ms);
void columns_add(struct columns *c, uint32_t series, uint32_t stack, uint32_t window,
		 uint64_t count, uint64_t value, const uint16_t *times, uint32_t known);

/* Sorts windows by time and rows by key, and merges duplicates. */
void columns_sort_merge(struct columns *c);

/* Merges the smaller half of the rows, by window, into `other`; returns their samples. */
uint64_t columns_cut(struct columns *c, uint32_t other);

/* Append a sorted and merged table to `out` as a blob. 0; -EFBIG past COLUMNS_BYTES_MAX: unchanged.
 */
int columns_write(const struct columns *c, uint64_t period, int level, struct compressor *z,
		  struct pack *out);
int columns_write_times(const struct columns *c, int level, struct compressor *z, struct pack *out);

/* Reading, row by row. */
struct columns_reader {
	struct compressor compressor;
	struct columns_window *windows;
	uint32_t window_count, window_cap;
	uint64_t period;
	/* Private. */
	struct unpack at[6];
	bool has_values, bad;
	uint32_t series, stack, window;
	uint64_t stacks_left, windows_left;
};

/* 0 or -EBADMSG. */
int columns_open(struct columns_reader *r, const void *blob, size_t len, uint64_t period);
bool columns_next(struct columns_reader *r, struct columns_row *ret); /* false: end, or `bad` */
bool columns_next_series(struct columns_reader *r, uint32_t *ret);    /* instead: series only */
void columns_reader_done(struct columns_reader *r);

struct columns_times {
	struct compressor compressor;
	uint64_t rows, samples;
	/* Private. */
	struct unpack known;
	bool partly, bad;
	const uint8_t *low, *high;
	size_t left;
};

int columns_times_open(struct columns_times *t, const void *blob, size_t len);
/*
 * The times of the next row, which has `count` samples: *ret_known of them, as steps from the start
 * of its window, in *ret. False if the blob does not match.
 */
bool columns_times_next(struct columns_times *t, uint64_t count, uint16_t **ret, size_t *ret_cap,
			uint32_t *ret_known);
void columns_times_done(struct columns_times *t);
