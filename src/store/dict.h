/*
 * dict: the dictionary of a file of the store: what its ids of series and stacks mean.
 *
 * On disk it is a log, the table `dictionary`: each row is a zstd frame with one or more batches of
 * entries (profile/entries.h), in the order of their ids. When there are many small rows, runs of
 * them are joined into one.
 *
 * A writer holds it as a struct profile, which finds existing entries. A reader does not need that,
 * and loads it into plain arrays.
 */
#pragma once

#include "profile/entries.h"
#include "profile/profile.h"
#include "base/compressor.h"
#include "store/sql.h"

#define DICT_SCHEMA "CREATE TABLE dictionary(id INTEGER PRIMARY KEY, entries BLOB NOT NULL);"

/* For writing. */
struct dict {
	struct profile *p;
	struct entries_mark mark; /* what is on disk */
	int64_t next;             /* id of the next row */
	struct compressor compressor;
};

/* 0, -EUCLEAN if it is damaged, or -errno. */
int dict_load(struct dict *d, struct sql *s);
void dict_done(struct dict *d);

/*
 * Writes what was added, in the caller's transaction; pass *ret_mark to dict_written() once that is
 * committed.
 */
int dict_write(struct dict *d, struct sql *s, struct entries_mark *ret_mark);
void dict_written(struct dict *d, const struct entries_mark *mark);

/* Joins small rows if there are many: 1 if it did, 0 if not, or -errno. */
int dict_join(struct dict *d, struct sql *s);

/* For reading: arrays indexed by id. */
struct dict_string {
	const char *bytes; /* not NUL-terminated */
	uint32_t len;
};

struct dict_series {
	uint32_t first, count; /* of labels */
};

struct dict_view {
	struct dict_string *strings;
	struct module *modules;
	struct frame *frames;
	struct stack *stacks;
	uint16_t *depths; /* of stacks */
	struct dict_series *series;
	struct label *labels;
	uint32_t string_count, module_count, frame_count, stack_count, series_count, label_count;
	uint32_t string_cap, module_cap, frame_cap, stack_cap, depth_cap, series_cap, label_cap;
	struct compressor compressor;
	uint8_t **buffers; /* what strings point into */
	uint32_t bytes_count, bytes_cap;
	uint64_t bytes; /* read from disk */
};

int dict_view_load(struct dict_view *v, struct sql *s);
/* Adds one row of the table. 0; -EBADMSG, also for a stack deeper than PROFILE_DEPTH_MAX. */
int dict_view_add(struct dict_view *v, const void *blob, size_t len);
void dict_view_done(struct dict_view *v);
