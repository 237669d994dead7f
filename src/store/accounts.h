/*
 * accounts: what collectors took, and what became of it: taken = stored + lost, exactly.
 *
 * Every message brings its collector's counts of one type's samples since it began. The kernel's
 * counter outlives a collector, so the next one's `base` says how much the one before took in all;
 * what of that was neither stored nor lost for another reason died with it. Collectors that follow
 * one another on the same counters are known by the first 8 bytes of their instance id, where those
 * are equal, else by the counts: the latest that stood at or below the new one's base. A base of 0,
 * or below all, begins a new account.
 *
 * The file accounts.db is written now and then. What was appended since is told by the windows
 * themselves: for each day it says up to which id of `windows` it counts, and those after it are
 * added again when the store is opened. A day's windows are packed only after they were counted.
 */
#pragma once

#include "profile/window.h"
#include "store/sql.h"

#define ACCOUNTS_MAX 512 /* collectors known one by one; older ones are added up */

struct account {
	uint8_t instance[16];
	char type[WINDOW_TYPE_MAX]; /* of the samples it is about */
	struct window_counts counts;
	uint64_t stored;
	uint64_t last_ms;   /* the latest window's start */
	uint64_t next_base; /* of the collector that followed */
	bool followed;
	bool changed; /* not on disk yet */
};

struct accounts_day {
	int64_t day;     /* since 1970 */
	int64_t id;      /* of the day's file */
	int64_t through; /* its windows up to this row are counted */
	bool changed;
};

struct accounts { /* embedded */
	struct sql db;
	char *path;
	struct account *all; /* [0] is the sum of those that are no longer known one by one */
	uint32_t count, cap;
	struct accounts_day *days;
	uint32_t day_count, day_cap;
	uint64_t floor_ms; /* raw windows before it were dropped */
	bool changed;
};

/* Opens or makes the file: 0, -EUCLEAN or -errno. After an error the accounts are empty, but can
 * still be used. */
int accounts_open(struct accounts *a, const char *path, enum sql_mode mode);
void accounts_done(struct accounts *a);
int accounts_sync(struct accounts *a); /* 0 or -errno */

/* How far a day is counted: 0 when its file (`id`) is not known. */
int64_t accounts_through(const struct accounts *a, int64_t day, int64_t id);

/* What one message means; nothing is changed until it is added. */
struct accounts_entry {
	uint64_t lost;  /* since the message before, what died with another collector included */
	bool restarted; /* the first message of its collector */
};

void accounts_look(const struct accounts *a, const struct window *w, struct accounts_entry *ret);
/* Row `row` of the day's file is the message. */
void accounts_add(struct accounts *a, const struct window *w, uint64_t samples, int64_t day,
		  int64_t id, int64_t row);
void accounts_set_floor(struct accounts *a, uint64_t floor_ms);

void accounts_sum(const struct accounts *a, uint64_t *ret_taken, uint64_t *ret_stored,
		  uint64_t ret_lost[static WINDOW_LOST_REASONS]);

/* The counts of a message as the column `counts`: base, taken, lost by reason, samples; packed. */
void accounts_pack(const struct window_counts *c, uint64_t samples, struct pack *out);
bool accounts_unpack(const void *bytes, size_t len, struct window_counts *ret, uint64_t *samples);
