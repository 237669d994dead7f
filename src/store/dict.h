/*
 * dict: the dictionary of a file: what its ids of series and stacks mean.
 *
 * On disk it is a log, the table `dictionary`: each row is a zstd frame with one or more batches of
 * entries (profile/entries.h), in the order of their ids. As rows grow many, runs of small ones are
 * joined into one.
 *
 * A writer holds it as a struct profile, which finds what is there already. A reader needs no such
 * finding, and has it as plain arrays.
 */
#pragma once

#include "profile/entries.h"
#include "profile/profile.h"
#include "store/compressor.h"
#include "store/sql.h"

#define DICT_SCHEMA "CREATE TABLE dictionary(id INTEGER PRIMARY KEY, entries BLOB NOT NULL);"

/* The writer's. */
struct dict {
	struct profile *p;
	struct entries_mark mark; /* what is on disk */
	int64_t next;             /* id of the next row */
	struct compressor compressor;
};

/* 0, -EUCLEAN when it makes no sense, or -errno. */
int dict_load(struct dict *d, struct sql *s);
void dict_done(struct dict *d);

/*
 * Writes what was added, in a transaction of the caller's; *ret_mark is to be given to
 * dict_written() when that is committed.
 */
int dict_write(struct dict *d, struct sql *s, struct entries_mark *ret_mark);
void dict_written(struct dict *d, const struct entries_mark *mark);

/* Joins small rows, if there are many: returns 1 when it did, 0 or -errno. */
int dict_join(struct dict *d, struct sql *s);

/* The reader's: arrays, by id. */
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
/* One row of the table. 0 or -EBADMSG, also for a stack that is deeper than PROFILE_DEPTH_MAX. */
int dict_view_add(struct dict_view *v, const void *blob, size_t len);
void dict_view_done(struct dict_view *v);
