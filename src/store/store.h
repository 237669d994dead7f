/*
 * store: keeps windows, and answers queries over time ranges of them.
 *
 * This header is all that the server and the commands know about a store. Its location decides
 * which kind it is: a directory (local_internal.h), or a database on a ClickHouse server
 * (src/clickhouse), which begins with "clickhouse://". operations.h says what another one must
 * implement.
 *
 * A directory has one writer at a time, a database may have several, and both any number of
 * readers. What was appended successfully is durable: no crash of this process loses it. A handle
 * is for one thread; each thread that reads opens its own.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "profile/matcher.h"
#include "profile/profile.h"
#include "profile/remap.h"
#include "profile/window.h"

struct store;

/* Default limits. */
#define STORE_RETENTION_DAYS 30
#define STORE_MAX_GIB        2
#define STORE_TIMES_HOURS    24

/* Called now and then during a query, with its progress (0 to 1); false: end with -ECANCELED. */
typedef bool store_progress_fn(void *ctx, double done);

struct store_options { /* 0: the default */
	uint64_t retention_ms;
	uint64_t max_bytes;          /* raw data is deleted first, roll-ups last */
	uint64_t times_ms;           /* how long sample times are kept */
	uint32_t series_max;         /* distinct series per day; more become {comm="(other)"}; 0:
					20,000 */
	uint32_t stacks_max;         /* distinct stack nodes per day, likewise; 0: 1,000,000 */
	bool read_only;              /* query only: takes no lock, creates nothing */
	store_progress_fn *progress; /* may be NULL */
	void *progress_ctx;
	/* Names each frame of a sum, as it is answered: stored_names_frame(); NULL: as it is
	 * stored. */
	remap_name_fn *name;
	void *name_ctx;
};

void store_options_fill(struct store_options *o); /* replaces each 0 by its default */

struct store_error {
	char text[512]; /* one sentence */
	int pid;        /* of the writer that holds the store, for -EBUSY; else 0 */
};

/*
 * `where` names the store: a directory, or an address. 0 or -errno with *ret_err. -EBUSY: there
 * is another writer. For a reader, -ENOENT: it does not exist; -ENOTDIR, -ENODATA: it is not a
 * store; -EACCES: not readable. Readers may be opened in the writer's own process.
 */
int store_open(const char *where, const struct store_options *o, struct store **ret,
	       struct store_error *ret_err);
void store_close(struct store *s); /* NULL is fine */

/* Whether it is a directory of this machine, in which other files may lie beside the store's. */
bool store_is_directory(const char *where);

/*
 * Prepares a store that is to be opened: creates what it needs and does not have yet (tables of a
 * database). With `out` it changes nothing, but writes down what an administrator would run. 0 or
 * -errno with *ret_err; nothing to do for a directory.
 */
int store_migrate(const char *where, FILE *out, struct store_error *ret_err);

/*
 * Appends one message, all or nothing; `dict` defines its ids, which keep their meaning as long as
 * instance, epoch and the address of `dict` stay the same. 0; -EEXIST: it is stored already;
 * -ENOSPC, -EROFS, -EIO: not now, the same call may work later; -ERANGE: older than the retention
 * (or than what was deleted to save space), or more than an hour in the future. Of a message of
 * findings, what it says replaces what was stored of the same ones.
 *
 * Collectors that succeed one another on one counter in the kernel (window.h) should share the
 * first 8 bytes of their instance id, which tells them from those of other machines.
 */
int store_append(struct store *s, const struct profile *dict, const struct window *w,
		 uint64_t now_ms, struct store_error *ret_err);

/*
 * Maintenance: packing, roll-ups, retention. Does one bounded step (some milliseconds), and returns
 * whether there is more to do. Call it after appends and every minute.
 */
bool store_maintain(struct store *s, uint64_t now_ms);

/*
 * Returns a warning for the user, in one sentence, if something went wrong in the store since the
 * last call; else false. Call it after opening and after each step of maintenance.
 */
bool store_warning(struct store *s, struct store_error *ret);

/*
 * A query as plain data: made from the parameters of an HTTP request or of the command line, and
 * passed to the store unchanged. Everything in it is borrowed. All operations that read use its
 * type, range and matchers; each says what else it uses.
 */
struct store_query {
	const char *type;               /* "cpu" */
	uint64_t from_ms, to_ms;        /* since 1970; to_ms is excluded */
	const struct matcher *matchers; /* series that match all of them; none: all series */
	size_t matcher_count;
	const char *const *by; /* labels to keep in the answer; series that differ only in others
				  are added up */
	size_t by_count;       /* 0: no labels at all, the fastest */
	uint64_t step_ms;      /* of a timeline */
	uint64_t block_ms; /* of a sum: each block of this length by itself (STORE_BLOCK); 0: one
			      sum */
	uint32_t max;      /* number of names in an answer */
	bool exact;        /* cut to WINDOW_STEP_MS, not to whole windows */
	bool unrounded;    /* of a sum: the windows that begin in the range as it is, which may
			      be shorter than WINDOW_MS */
	bool kernel;       /* of a timeline: also what was in the kernel */
	bool raw_only;     /* do not use roll-ups: for tests that compare */
};

/*
 * Operations that read return 0, or -errno with a sentence in *ret_err (which may be NULL):
 *
 *	-EINVAL     the query is wrong, such as a regular expression that takes too long
 *	-ENODATA    it needs sample times, which are not kept for that long
 *	-ECANCELED  `progress` returned false
 *	others      the store cannot be read
 */

/*
 * A window belongs to the range it begins in, so adjacent ranges share none: ranges are rounded to
 * WINDOW_MS, and to five minutes where only roll-ups are left.
 */
struct store_answer {            /* what the answer covers, and what is missing */
	uint64_t from_ms, to_ms; /* of the windows found; if there are none, as asked */
	uint64_t samples;
	uint64_t lost;         /* taken in the range but not stored */
	uint64_t windows;      /* messages read, or their sums */
	uint64_t damaged;      /* files that could not be read … */
	uint64_t refused;      /* of those, not readable for this user */
	uint64_t newer;        /* of those, with a newer format */
	char trouble[64];      /* the first of them: "raw/2026-11-15.db"; "" if there is none */
	uint64_t files, bytes; /* read */
	bool debuginfod;       /* who answered asks one for names that are missing */
};

/*
 * The label of a sum's series, if blocks were asked for: the number of the block, from 0 on. The
 * first begins where the range does, rounded to WINDOW_MS. A window belongs to the block it begins
 * in; where only sums over five minutes are left, so do they.
 */
#define STORE_BLOCK "block"

/*
 * Sums up the samples of a range in `into`, by stack and by the labels q->by, and sets its info
 * (type, unit, period, start, duration, lost). With q->exact the range is not rounded to windows;
 * then -ENODATA if the sample times are no longer kept.
 */
int store_sum(struct store *s, const struct store_query *q, struct profile *into,
	      struct store_answer *ret, struct store_error *ret_err);

/*
 * Spans of traces (struct window_span) are no labels of series, but a sum may be of those samples
 * alone that were taken in some: if a matcher is about STORE_TRACE or STORE_SPAN. Then those two
 * are labels of the answer's series. They are kept as long as sample times, within 1/32 of
 * max_bytes a day; the range is rounded to windows in any case.
 */
#define STORE_TRACE "trace_id" /* 32 hexadecimal digits */
#define STORE_SPAN  "span_id"  /* 16 */

/*
 * A timeline: the value of each step, with one line for each value of the label q->by[0] (none: one
 * line in all), or of several labels for each set of their values. Steps are multiples of
 * q->step_ms since 1970, at least as long as a window. A step in which nothing was recorded (the
 * profiler was off) is a gap, not 0: see `covered`.
 */
struct store_line {
	char *value;      /* of the label; "" if there is none; of several, with a '\n' between */
	char *name;       /* latest name of the process, if lines are by pid; else NULL */
	uint64_t *values; /* one per step */
	uint64_t *kernel; /* of those, with the innermost frame in the kernel; NULL: not asked */
	uint64_t total;
};

struct store_timeline {
	uint64_t start_ms, step_ms;
	uint32_t steps;
	uint8_t *covered;         /* one per step */
	uint8_t *restarted;       /* one per step: a collector started in it */
	struct store_line *lines; /* largest total first */
	uint32_t line_count;
	char unit[WINDOW_TYPE_MAX];
	uint64_t period;
	bool is_coarse; /* some of it is known only as sums over more than a step */
};

int store_timeline(struct store *s, const struct store_query *q, struct store_timeline *ret,
		   struct store_error *ret_err);
void store_timeline_done(struct store_timeline *t);

/* Sample times of a range, for the heatmap: samples in each 20 ms slot from start_ms on. */
struct store_heat {
	uint64_t start_ms;
	uint32_t slots;
	uint64_t period;  /* ns per sample; 0: not a clock, or it varies */
	uint32_t *counts; /* one per slot */
};

int store_heat(struct store *s, const struct store_query *q, struct store_heat *ret,
	       struct store_error *ret_err);
void store_heat_done(struct store_heat *h);

/* Names in a range, each once, sorted, at most q->max of them. */
enum store_names_of {
	STORE_TYPES,  /* of profiles; ignores the query's type */
	STORE_LABELS, /* of series; of all types if the query has no type */
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

/*
 * What collectors found wrong by themselves in the range, the latest first: those that lasted into
 * it. Uses only the range of the query. At most STORE_FINDINGS_MAX.
 */
#define STORE_FINDINGS_MAX 1000

struct store_findings {
	struct finding *findings;
	uint32_t count, cap;
	bool cut; /* there were more */
};

int store_findings(struct store *s, const struct store_query *q, struct store_findings *ret,
		   struct store_error *ret_err);
void store_findings_done(struct store_findings *f);

struct store_stats {    /* 0: this kind of store does not have it */
	uint64_t bytes; /* on disk, all files */
	uint64_t raw_bytes, roll_bytes, times_bytes;
	uint64_t bytes_without_wal; /* SQLite reuses its write-ahead logs */
	uint64_t removed_bytes;     /* deleted for age or size by this process */
	uint64_t windows;           /* appended by this process */
	uint64_t samples;           /* in those windows */
	uint64_t known;             /* messages that had been stored already */
	uint64_t refused;           /* messages out of range */
	uint64_t failed;            /* appends that could not be written */
	uint64_t other_samples;     /* stored as (other), or without a stack: a cap */
	uint64_t rolled_other;      /* rolled up so: a cap of the month */
	uint64_t spans_expired;     /* rows of spans deleted for room */
	uint64_t untimed_packs;     /* packs without sample times, because there were too many */
	uint64_t damaged_files;     /* set aside */
	uint64_t packs, rolls, expired_files;
	uint64_t first_ms, last_ms; /* of the stored data; first_ms is rounded to five minutes */
	uint64_t writer_ms; /* for a reader: since when there has been a writer; 0: there is none */
	/*
	 * All samples ever taken and what became of them, over all collectors: taken = stored +
	 * lost, exactly, except for what running collectors have not sent yet.
	 */
	uint64_t taken, stored;
	uint64_t lost[WINDOW_LOST_REASONS];
};

void store_stats(struct store *s, struct store_stats *ret);
