/*
 * inside: what the files of store/ that work on a store share.
 *
 *	store.c   opening, appending, numbers
 *	tend.c    packing and roll-ups
 *	retain.c  what goes when its time or its room is over
 *	scan.c    reading
 */
#pragma once

#include "store/accounts.h"
#include "store/book.h"
#include "store/columns.h"
#include "store/store.h"

#define STORE_DAYS         2 /* open for writing at a time */
#define STORE_TRANSLATIONS 8

struct translation { /* from the dictionary of a sender to that of a day */
	uint8_t instance[16];
	uint32_t epoch;
	const struct profile *from;
	uint32_t stacks, series; /* of it, when it was last seen */
	int64_t to;              /* id of the day's file */
	struct remap map;
	uint64_t used;
};

struct store_todo { /* numbers of books, each once */
	int64_t *numbers;
	uint32_t count, cap;
};

struct store {
	char *dir;
	struct store_options o;
	struct remap_caps day_caps, month_caps;
	int lock;
	struct book *days[STORE_DAYS];
	struct book *month;
	struct accounts accounts;
	struct translation translations[STORE_TRANSLATIONS];
	uint64_t clock; /* of uses, for what goes first */
	struct columns columns;
	struct zip zip;
	struct pack bytes, more;
	struct store_stats stats;
	char *set_aside;               /* the latest file that was, by its new name; NULL: none */
	struct store_todo pack_days;   /* that have windows which are not packed */
	struct store_todo audit_days;  /* whose roll-ups may be missing */
	struct store_todo hour_months; /* that may lack sums of an hour */
	uint64_t look_ms, retain_ms;   /* when it was last done */
	bool busy;                     /* there was more to do then */
};

/*
 * A book for writing, made if there is none; a damaged one is set aside first. Borrowed: it may be
 * closed when another is asked for.
 */
int store_day(struct store *s, int64_t day, struct book **ret);
int store_month(struct store *s, int64_t month, struct book **ret);
/* Closes a book; with -EUCLEAN its file is set aside, so that a new one begins. */
void store_drop(struct store *s, struct book *b, int why);
void store_set_aside(struct store *s, const char *path);
void store_todo(struct store *s, int64_t day);
void store_todo_audit(struct store *s, int64_t day);
void store_todo_month(struct store *s, int64_t month);

/* Packs and rolls up all that a day has, so that it may go: 0 or -errno. */
int store_settle_day(struct store *s, int64_t day);

char *store_times_path(const char *dir, int64_t hour); /* hours since 1970; caller frees */
int64_t store_times_number(const char *name);          /* or -1 */

/* A reader's: what the writer has said so far. */
void store_load_accounts(struct store *s);
void store_look_at_span(struct store *s); /* sets first_ms, and last_ms if it is not known */

/* Age and size: one step, whether there is more to do. */
bool store_retain(struct store *s, uint64_t now_ms);

/* Numbers (of days, months, hours) of the files of a folder, in order; caller frees. */
enum store_folder { STORE_RAW, STORE_ROLL, STORE_TIMES };
uint32_t store_list(const char *dir, enum store_folder folder, int64_t **ret);
