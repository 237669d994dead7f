/*
 * local_internal: the store that is a directory of this machine, SQLite and zstd behind it;
 *docs/store.md describes the files. Here is what the files of its code share; others use store.h.
 *
 *	raw/DAY.db     every window of a day (UTC), and the day's dictionary
 *	roll/MONTH.db  sums of 5 minutes and of an hour, with a dictionary of their own
 *	times/HOUR.db  when each sample was taken, in steps of 20 ms, for the last day
 *
 * The writer locks the directory, `pid` holds who it is. Readers never block it. A damaged file is
 * set aside (NAME.damaged-N), counted, and a new one begun.
 *
 *	local.c     opening, appending
 *	maintain.c      packing and roll-ups
 *	retain.c    what goes when its time or its room is over, and how much there is
 *	range_scan.c which parts of which files a range of time is made of
 *	sum.c       a range of time as a profile
 *	timeline.c  numbers over time, and the names there are
 */
#pragma once

#include "store/accounts.h"
#include "store/columns.h"
#include "store/partition.h"
#include "store/store.h"

#define LOCAL_DAYS         2 /* open for writing at a time */
#define LOCAL_TRANSLATIONS 8

struct translation { /* from the dictionary of a sender to that of a day */
	uint8_t instance[16];
	uint32_t epoch;
	const struct profile *from;
	uint32_t stacks, series; /* of it, when it was last seen */
	int64_t to;              /* id of the day's file */
	struct remap map;
	uint64_t used;
};

struct local_todo { /* numbers of partitions, each once */
	int64_t *numbers;
	uint32_t count, cap;
};

struct local_store {
	char *dir;
	struct store_options o;
	struct remap_caps day_caps, month_caps;
	int lock;
	struct partition *days[LOCAL_DAYS];
	struct partition *month;
	struct accounts accounts;
	struct translation translations[LOCAL_TRANSLATIONS];
	uint64_t clock; /* of uses, for what goes first */
	struct columns columns;
	struct compressor compressor;
	struct pack bytes, more;
	struct store_stats stats;
	char *set_aside;               /* the latest file that was, by its new name; NULL: none */
	uint64_t said_damaged;         /* files set aside that a warning has told of */
	struct local_todo pack_days;   /* that have windows which are not packed */
	struct local_todo audit_days;  /* whose roll-ups may be missing */
	struct local_todo hour_months; /* that may lack sums of an hour */
	uint64_t look_ms, retain_ms;   /* when it was last done */
	bool busy;                     /* there was more to do then */
};

/*
 * A partition for writing, made if there is none; a damaged one is set aside first. Borrowed: it
 * may be closed when another is asked for.
 */
int local_day(struct local_store *s, int64_t day, struct partition **ret);
int local_month(struct local_store *s, int64_t month, struct partition **ret);
/* Closes a partition; with -EUCLEAN its file is set aside, so that a new one begins. */
void local_drop(struct local_store *s, struct partition *b, int why);
void local_set_aside(struct local_store *s, const char *path);
void local_todo(struct local_store *s, int64_t day);
void local_todo_audit(struct local_store *s, int64_t day);
void local_todo_month(struct local_store *s, int64_t month);

/* Packs and rolls up all that a day has, so that it may go: 0 or -errno. */
int local_settle_day(struct local_store *s, int64_t day);

char *local_times_path(const char *dir, int64_t hour); /* hours since 1970; caller frees */
int64_t local_times_number(const char *name);          /* or -1 */

/* A reader's: what the writer has said so far. */
void local_load_accounts(struct local_store *s);
uint64_t local_writer_ms(const struct local_store *s); /* as store_stats has it */
void local_look_at_span(struct local_store *s); /* sets first_ms, and last_ms if it is not known */

/* Age and size: one step, whether there is more to do. */
bool local_retain(struct local_store *s, uint64_t now_ms);

/* Numbers (of days, months, hours) of the files of a folder, in order; caller frees. */
enum local_folder { LOCAL_RAW, LOCAL_ROLL, LOCAL_TIMES };
uint32_t local_list(const char *dir, enum local_folder folder, int64_t **ret);

/* Operations (operations.h) that are not in local.c. */
bool local_maintain(void *self, uint64_t now_ms);
int local_sum(void *self, const struct store_query *q, struct profile *into,
	      struct store_answer *ret, struct store_error *ret_err);
int local_timeline(void *self, const struct store_query *q, struct store_timeline *ret,
		   struct store_error *ret_err);
int local_heat(void *self, const struct store_query *q, struct store_heat *ret,
	       struct store_error *ret_err);
int local_names(void *self, const struct store_query *q, enum store_names_of of,
		struct store_names *ret, struct store_error *ret_err);
void local_stats(void *self, struct store_stats *ret);
