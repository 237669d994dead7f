/*
 * local_internal: what the files of the local store share. That store is a directory on this
 * machine, of SQLite files with zstd blobs; docs/store.md describes their format. Others use
 * store.h.
 *
 *	raw/DAY.db     every window of a day (UTC), and the day's dictionary
 *	roll/MONTH.db  sums over 5 minutes and over an hour, with a dictionary of their own
 *	times/HOUR.db  when each sample was taken, in steps of 20 ms, for the last day
 *
 * The writer locks the directory, and its process id is in the file `pid`. Readers never block it.
 * A damaged file is set aside (renamed to NAME.damaged-N) and counted, and a new one is started.
 *
 *	local.c       opening
 *	append.c      a window becomes a row of its day
 *	pack_slot.c   five minutes are packed, and added to sums over longer times
 *	maintain.c    when and of what that is done
 *	retain.c      deleting what is too old or too much, and measuring the store
 *	range_scan.c  which parts of which files make up a time range
 *	sum.c         a time range as a profile
 *	timeline.c    numbers over time, and lists of names
 *	findings.c    what collectors found wrong
 *	spans.c       which samples belong to which spans of traces
 */
#pragma once

#include "store/accounts.h"
#include "store/columns.h"
#include "store/partition.h"
#include "store/store.h"

#define LOCAL_DAYS         2 /* open for writing at the same time */
#define LOCAL_TRANSLATIONS 8

struct translation { /* from the dictionary of a sender to that of a day */
	uint8_t instance[16];
	uint32_t epoch;
	const struct profile *from;
	uint32_t stacks, series; /* how many it had when last seen */
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
	uint64_t clock; /* counts uses, to find the least recently used */
	struct columns columns;
	struct compressor compressor;
	struct pack bytes, more;
	struct store_stats stats;
	char *set_aside;               /* new name of the latest damaged file; NULL: none */
	int64_t spans_day;             /* of the days before it spans have been deleted */
	uint64_t said_damaged;         /* files set aside that have been reported */
	struct local_todo pack_days;   /* days with windows that are not packed yet */
	struct local_todo audit_days;  /* days whose roll-ups may be missing */
	struct local_todo hour_months; /* months that may lack sums over an hour */
	uint64_t look_ms, retain_ms;   /* when each was last done */
	bool busy;                     /* there was more to do */
};

/*
 * A partition for writing, created if needed; a damaged one is set aside first. Borrowed: it may be
 * closed when another one is opened.
 */
int local_day(struct local_store *s, int64_t day, struct partition **ret);
int local_month(struct local_store *s, int64_t month, struct partition **ret);
/* Closes a partition; if `why` is -EUCLEAN, sets its file aside. */
void local_drop(struct local_store *s, struct partition *b, int why);
void local_set_aside(struct local_store *s, const char *path);
void local_todo(struct local_store *s, int64_t day);
void local_todo_audit(struct local_store *s, int64_t day);
void local_todo_month(struct local_store *s, int64_t month);

/* What went wrong, for the user. */
__attribute__((format(printf, 2, 3))) void local_say(struct store_error *e, const char *fmt, ...);
/* Checks that the directory still has our lock. If it was deleted, it is created and locked again,
 * and the partitions start anew. 0 or -errno with *e. */
int local_check_lock(struct local_store *s, struct store_error *e);

/* Packs the five minutes that begin at `start` (seconds), and adds them to the month's: 0 or
 * -errno. */
int local_pack_slot(struct local_store *s, int64_t day_number, int64_t start, uint64_t now_ms);
/* Makes the sums over an hour of those over its five minutes: 0 or -errno. */
int local_roll_hour(struct local_store *s, struct partition *month, int64_t hour);
/* Packs and rolls up everything of a day, so that it can be deleted: 0 or -errno. */
int local_pack_day(struct local_store *s, int64_t day);

char *local_times_path(const char *dir, int64_t hour); /* hours since 1970; caller frees */
int64_t local_times_number(const char *name);          /* or -1 */

/* For readers: what the writer has recorded so far. */
void local_load_accounts(struct local_store *s);
uint64_t local_writer_ms(const struct local_store *s); /* see store_stats */
void local_look_at_span(struct local_store *s); /* sets first_ms, and last_ms if it is not known */

/* One step of enforcing age and size limits; returns whether there is more to do. */
bool local_retain(struct local_store *s, uint64_t now_ms);

/* The numbers (of days, months, hours) of a folder's files, sorted; caller frees. */
enum local_folder { LOCAL_RAW, LOCAL_ROLL, LOCAL_TIMES };
uint32_t local_list(const char *dir, enum local_folder folder, int64_t **ret);

/* Operations (operations.h) outside local.c. */
int local_append(void *self, const struct profile *dict, const struct window *w, uint64_t now_ms,
		 struct store_error *ret_err);
bool local_maintain(void *self, uint64_t now_ms);
int local_sum(void *self, const struct store_query *q, struct profile *into,
	      struct store_answer *ret, struct store_error *ret_err);
int local_timeline(void *self, const struct store_query *q, struct store_timeline *ret,
		   struct store_error *ret_err);
int local_heat(void *self, const struct store_query *q, struct store_heat *ret,
	       struct store_error *ret_err);
int local_names(void *self, const struct store_query *q, enum store_names_of of,
		struct store_names *ret, struct store_error *ret_err);
int local_findings(void *self, const struct store_query *q, struct store_findings *ret,
		   struct store_error *ret_err);
void local_stats(void *self, struct store_stats *ret);

/* From the ids of a message's dictionary to those of a day. */
struct remap *local_translation(struct local_store *s, const struct window *w,
				const struct profile *dict, const struct partition *b);

/* Writes a message of spans into the day's file. 0, -EEXIST: it is there already; or -errno. */
int local_append_spans(struct local_store *s, struct partition *b, const struct profile *dict,
		       const struct window *w);
/* Visits what there is of spans in a range, file by file as range_scan() does; `spans` gets a
 * message, whose ids are the file's. */
struct span_scan {
	struct local_store *s;
	const struct store_query *q;
	uint64_t from_ms, to_ms; /* rounded to windows */
	int (*file)(void *ctx, const struct dict_view *v);
	int (*spans)(void *ctx, const struct partition_type *type, const struct window *w);
	int (*file_end)(void *ctx);
	void *ctx;
	struct store_answer *answer;
};
int span_scan(struct span_scan *w);
/* Deletes the spans of a day: 0 or -errno. */
int local_drop_spans(struct partition *b);

/* Writes a message of findings into the day's file. 0 or -errno. */
int local_append_findings(struct partition *b, const struct window *w);
