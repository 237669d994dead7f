/*
 * store: where windows are kept, and what they hold of a range of time.
 *
 * This header is all that the server and the commands know of a store. Of which kind one is depends
 * on where it is: today there is one kind, a directory (local_internal.h). operations.h says what
 * another would have to do.
 *
 * One writer at a time, any number of readers. What was appended with 0 is kept: no sudden end of
 * this process loses it. A handle is for one thread; a thread that reads opens its own.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "profile/matcher.h"
#include "profile/profile.h"
#include "profile/window.h"

struct store;

/* What is kept unless told otherwise. */
#define STORE_RETENTION_DAYS 30
#define STORE_MAX_GIB        2
#define STORE_TIMES_HOURS    24

/* Now and then during a query, with how far it is (0 to 1): false ends it with -ECANCELED. */
typedef bool store_progress_fn(void *ctx, double done);

struct store_options { /* 0: the default */
	uint64_t retention_ms;
	uint64_t max_bytes;  /* raw data goes first, roll-ups last */
	uint64_t times_ms;   /* how long sample times are kept */
	uint32_t series_max; /* distinct series of a day; beyond it they are {comm="(other)"}; 0:
				20,000 */
	uint32_t stacks_max; /* distinct stack nodes of a day, the same; 0: 1,000,000 */
	bool read_only;      /* query only: no lock is taken, nothing is made */
	store_progress_fn *progress; /* may be NULL */
	void *progress_ctx;
};

void store_options_fill(struct store_options *o); /* puts the default for each 0 */

struct store_error {
	char text[512]; /* one sentence */
	int pid;        /* of the writer that holds the store, for -EBUSY; else 0 */
};

/*
 * `where` is a directory. 0 or -errno with *ret_err: -EBUSY another writer; of a reader -ENOENT
 * nothing is there, -ENOTDIR and -ENODATA what is there is no store, -EACCES it may not be read. A
 * reader may be opened in the writer's own process as well.
 */
int store_open(const char *where, const struct store_options *o, struct store **ret,
	       struct store_error *ret_err);
void store_close(struct store *s); /* NULL is fine */

/*
 * Appends one message, all or nothing; `dict` is what its ids mean. Ids keep their meaning as long
 * as instance, epoch and the address of `dict` stay the same. 0; -EEXIST it is there already;
 * -ENOSPC, -EROFS, -EIO: not now; the same call may work later; -ERANGE: older than the retention
 * (or than what was dropped for room), or more than an hour in the future.
 *
 * Collectors that follow one another on one counter of the kernel (window.h) should share the first
 * 8 bytes of their instance id: that is how they are told from those of other machines.
 */
int store_append(struct store *s, const struct profile *dict, const struct window *w,
		 uint64_t now_ms, struct store_error *ret_err);

/*
 * What is to be done as time passes: packing, roll-ups, retention. One bounded step (some
 * milliseconds); returns whether there is more to do. Call it after appends and every minute.
 */
bool store_maintain(struct store *s, uint64_t now_ms);

/*
 * Whether something happened to the store since this was last asked that people should be told of,
 * in one sentence. Ask after opening and after each step of maintenance.
 */
bool store_warning(struct store *s, struct store_error *ret);

/*
 * What is asked, as plain data: made from the parameters of an HTTP request or of the command line,
 * and handed to the store unchanged. Everything in it is borrowed. All operations that read take
 * type, range and matchers from it; each says what else it takes.
 */
struct store_query {
	const char *type;               /* "cpu" */
	uint64_t from_ms, to_ms;        /* since 1970; to_ms is no part of it */
	const struct matcher *matchers; /* series that fit all of them; none: all series */
	size_t matcher_count;
	const char *const *by; /* labels that the answer tells apart; other labels are added up */
	size_t by_count;       /* 0: no labels at all, the quickest */
	uint64_t step_ms;      /* of a timeline */
	uint32_t max;          /* names in an answer */
	bool exact;            /* to WINDOW_STEP_MS, not to whole windows */
	bool raw_only;         /* do not use roll-ups: for tests that compare */
};

/*
 * Operations that read return 0, or -errno with a sentence in *ret_err (which may be NULL):
 *
 *	-EINVAL     the question is at fault, such as a regular expression that takes too long
 *	-ENODATA    it needs sample times, which are not kept for that long
 *	-ECANCELED  `progress` said no
 *	others      the store cannot be read
 */

/*
 * A window counts where it begins, so ranges that follow one another share none: ranges are taken
 * in steps of WINDOW_MS, and of five minutes where only roll-ups are left.
 */
struct store_answer {            /* what the answer covers, and what it lacks */
	uint64_t from_ms, to_ms; /* from the first to the last window there is; none: as asked */
	uint64_t samples;
	uint64_t lost;         /* taken in the range but not stored */
	uint64_t windows;      /* messages read, or their sums */
	uint64_t damaged;      /* files that could not be read … */
	uint64_t refused;      /* … of them, those that we may not read */
	uint64_t newer;        /* … and those of a newer format */
	char trouble[64];      /* the first of them: "raw/2026-11-15.db"; "" if there is none */
	uint64_t files, bytes; /* read */
};

/*
 * Adds the samples of a range up into `into`, by stack and by the labels q->by, and sets its info
 * (type, unit, period, start, duration, lost). With q->exact the range need not be of whole
 * windows; -ENODATA then where sample times are no longer kept.
 */
int store_sum(struct store *s, const struct store_query *q, struct profile *into,
	      struct store_answer *ret, struct store_error *ret_err);

/*
 * A timeline: the value of each step, by the values of the label q->by[0] (none: one line for all).
 * Steps are multiples of q->step_ms since 1970, at least a window's length. A step in which nothing
 * was recorded (the profiler was off) is a gap, not 0: `covered` says which.
 */
struct store_line {
	char *value;      /* of the label, "" where it has none */
	char *name;       /* of the process, where lines are by pid: its latest; else NULL */
	uint64_t *values; /* one a step */
	uint64_t total;
};

struct store_timeline {
	uint64_t start_ms, step_ms;
	uint32_t steps;
	uint8_t *covered;         /* one a step */
	uint8_t *restarted;       /* one a step: a collector began in it */
	struct store_line *lines; /* largest total first */
	uint32_t line_count;
	char unit[WINDOW_TYPE_MAX];
	uint64_t period;
};

int store_timeline(struct store *s, const struct store_query *q, struct store_timeline *ret,
		   struct store_error *ret_err);
void store_timeline_done(struct store_timeline *t);

/* Sample times of a range, for the heatmap: samples in each 20 ms slot from start_ms on. */
struct store_heat {
	uint64_t start_ms;
	uint32_t slots;
	uint64_t period;  /* ns of a sample; 0: not of a clock, or it varies */
	uint32_t *counts; /* one a slot */
};

int store_heat(struct store *s, const struct store_query *q, struct store_heat *ret,
	       struct store_error *ret_err);
void store_heat_done(struct store_heat *h);

/* Names in a range, each once, sorted, at most q->max of them. */
enum store_names_of {
	STORE_TYPES,  /* of profiles; whatever the query's type */
	STORE_LABELS, /* of series; with a query without a type, of all types */
	STORE_VALUES, /* of the label q->by[0] */
};

struct store_names {
	char **names;
	uint32_t count;
	bool cut; /* there were more than max */
};

int store_names(struct store *s, const struct store_query *q, enum store_names_of of,
		struct store_names *ret, struct store_error *ret_err);
void store_names_done(struct store_names *n);

struct store_stats {    /* what a kind of store does not have is 0 */
	uint64_t bytes; /* on disk, all files */
	uint64_t raw_bytes, roll_bytes, times_bytes;
	uint64_t settled_bytes; /* of all, without what SQLite writes ahead and uses again */
	uint64_t removed_bytes; /* given back for age or size, by this process */
	uint64_t windows;       /* appended by this process */
	uint64_t samples;       /* … in them */
	uint64_t known;         /* messages that were there already */
	uint64_t refused;       /* out of range */
	uint64_t failed;        /* appends that could not be written */
	uint64_t other_samples; /* stored as (other), for a cap */
	uint64_t rolled_other;  /* rolled up as (other), for a month's cap */
	uint64_t untimed_packs; /* five minutes whose samples' times were too many to be kept */
	uint64_t damaged_files; /* set aside */
	uint64_t packs, rolls, expired_files;
	uint64_t first_ms, last_ms; /* of what is stored; first_ms to five minutes */
	uint64_t writer_ms; /* since when somebody has been writing to it, as a reader sees it; 0:
			       nobody is */
	/*
	 * All that was ever taken and what became of it, over all collectors. Taken = stored +
	 * lost, exactly, but for what collectors that run have not sent yet.
	 */
	uint64_t taken, stored;
	uint64_t lost[WINDOW_LOST_REASONS];
};

void store_stats(struct store *s, struct store_stats *ret);
