/*
 * partition: a file of the store that has a dictionary of its own: a day of windows, or a month of
 * roll-ups. docs/store.md describes the tables.
 *
 * A day's windows come into `windows`, one row a message, and are packed by five minutes (a `slot`,
 * named by its start in seconds) into `packs`. `slots` says which messages a pack holds, and up to
 * which id of `windows`.
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
	int64_t id;       /* random, of this very file */
	struct dict dict; /* the writer's; not loaded otherwise */
	struct partition_type *types;
	uint32_t type_count, type_cap;
	int64_t next;          /* raw: id of the next row of windows */
	struct remap to_month; /* raw: ids of the month's dictionary … */
	int64_t month_id;      /* … that is this one */
	uint64_t used;
};

/* DIR/raw/2026-11-15.db; caller frees. */
char *partition_path(const char *dir, enum partition_kind kind, int64_t number);
/* The number that a file's name means, or -1. */
int64_t partition_number(enum partition_kind kind, const char *name);
int64_t partition_month(int64_t slot); /* the month that a time in seconds lies in */

/*
 * Opens a partition; for writing it is made if there is none. 0; -ENOENT; -EUCLEAN damaged;
 * -EPROTONOSUPPORT made by a newer version; else as sql_open().
 */
int partition_open(const char *dir, enum partition_kind kind, int64_t number, enum sql_mode mode,
		   struct partition **ret);
void partition_close(struct partition *b);
DEFINE_CLEANUP(struct partition *, partition_close)

/*
 * The id of a type, which is made if it is new (in the caller's transaction): 0, -ENOBUFS when
 * there are too many, or -errno.
 */
int partition_type(struct partition *b, const char *type, const char *unit, uint64_t period,
		   int64_t *ret);
const struct partition_type *partition_type_by_id(const struct partition *b,
						  int64_t id); /* NULL: none */
int partition_load_types(struct partition *b);                 /* anew, after a rollback */
