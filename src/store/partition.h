/*
 * partition: one file of the store, with its own dictionary: a day of windows, or a month of
 * roll-ups. docs/store.md describes the tables.
 *
 * A day's windows go into `windows`, one row per message, and are packed by five minutes (a `slot`,
 * identified by its start in seconds) into `packs`. `slots` says which messages a pack contains,
 * and up to which id of `windows`.
 */
#pragma once

#include "base/clock.h"
#include "profile/remap.h"
#include "store/dict.h"
#include "store/sql.h"

#define SLOT_S 300
#define HOUR_S 3600
#define DAY_S  86400

enum partition_kind { PARTITION_RAW, PARTITION_ROLL };

struct partition_type {
	int64_t id;
	char *type, *unit;
	uint64_t period;
};

struct partition {
	enum partition_kind kind;
	int64_t number; /* of the day since 1970; of the month since year 0 */
	struct sql db;
	int64_t id;       /* random, unique to this file */
	struct dict dict; /* loaded by the writer only */
	struct partition_type *types;
	uint32_t type_count, type_cap;
	int64_t span_bytes;    /* raw, writer: of spans.c; -1: not counted yet */
	int64_t next;          /* raw: id of the next row of windows */
	struct remap to_month; /* raw: ids of the month's dictionary … */
	int64_t month_id;      /* … that is this one */
	uint64_t used;
};

/* DIR/raw/2026-11-15.db; caller frees. */
char *partition_path(const char *dir, enum partition_kind kind, int64_t number);
/* The number in a file's name, or -1. */
int64_t partition_number(enum partition_kind kind, const char *name);
int64_t partition_month(int64_t slot); /* the month of a time in seconds */

/*
 * Opens a partition; for writing, creates it if needed. 0; -ENOENT; -EUCLEAN damaged;
 * -EPROTONOSUPPORT written by a newer version; else as sql_open().
 */
int partition_open(const char *dir, enum partition_kind kind, int64_t number, enum sql_mode mode,
		   struct partition **ret);
void partition_close(struct partition *b);
DEFINE_CLEANUP(struct partition *, partition_close)

/*
 * The id of a type, added if it is new (in the caller's transaction): 0, -ENOBUFS if there are too
 * many, or -errno.
 */
int partition_type(struct partition *b, const char *type, const char *unit, uint64_t period,
		   int64_t *ret);
const struct partition_type *partition_type_by_id(const struct partition *b,
						  int64_t id); /* NULL: none */
int partition_load_types(struct partition *b);                 /* again, after a rollback */
