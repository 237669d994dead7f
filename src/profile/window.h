/*
 * window: the samples of a collector in ten seconds, and the message that carries them to the
 * server.
 *
 * A window is an interval of wall-clock time, aligned to its length. A collector sends it in one or
 * more parts that add up; what comes late (a sample that waited for an unwind table) is one more
 * part. (instance, sequence, part) identifies a message for ever. A receiver that has stored it
 * already says so and does not store it again, so a sender can repeat a message until it is
 * answered. Each process of a collector is a new instance.
 *
 * Series and stacks are ids of the sender's dictionary, a struct profile that both sides have: each
 * message contains the entries added since the previous one (profile/entries.h). A dictionary has
 * an epoch. If the receiver does not know the epoch (it was restarted), or entries are missing, it
 * answers WINDOW_RESET, and the sender starts a new epoch and sends the whole dictionary.
 *
 * Format, with all integers packed (base/pack.h):
 *
 *	"SMW", version (1 byte)
 *	instance (16 bytes), sequence, part, epoch
 *	start and length in ms, type, unit, period
 *	base, taken, then WINDOW_LOST_REASONS times lost
 *	entries: their size in bytes, then as in profile/entries.h
 *	number of rows, then each: series and stack (differences to the previous row), count,
 *	      value - count * period (zigzag)
 *	sample times: 0; or 1, then for each row `count` times in steps of WINDOW_STEP_MS since the
 *	      start of the window: the first, then differences
 *	number of metrics, then each: name, value
 *	only if there are some, or what follows: number of findings, then each as in
 *	      profile/finding.h
 *	only if there are some: number of spans, then each: trace id (16 bytes), span id (8 bytes);
 *	      number of their rows, then each: series and stack (differences to the previous row),
 *	      span (its index), count, value - count * period (zigzag)
 *
 * Findings, and spans, travel in messages of their own, which have neither rows nor metrics: what
 * an older server refuses is that alone.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/pack.h"
#include "profile/entries.h"
#include "profile/finding.h"
#include "profile/profile.h"

#define WINDOW_MS          10000
#define WINDOW_STEP_MS     20
#define WINDOW_MESSAGE_MAX (128u << 10) /* bytes; a larger window is sent in parts */
#define WINDOW_ROWS_MAX    (64u << 10)
#define WINDOW_METRICS_MAX 512
#define WINDOW_LENGTH_MAX  3600000
#define WINDOW_TYPE_MAX    64
#define WINDOW_SPANS_MAX   2048
#define WINDOW_NO_PART     UINT32_MAX /* the message has only entries: nothing is to be stored */

/* Why a sample was taken, but is not in any window. */
enum window_lost {
	WINDOW_LOST_RING,   /* the ring was full: the collector did not keep up */
	WINDOW_LOST_BUFFER, /* the server was unreachable for so long that windows were dropped */
	WINDOW_LOST_MALFORMED, /* a malformed record from the kernel */
	WINDOW_LOST_REFUSED,   /* the server refused the window: too old, or from the future */
	WINDOW_LOST_DIED,      /* the collector ended before it could send it */
	WINDOW_LOST_REASONS,
};

extern const char *const window_lost_names[WINDOW_LOST_REASONS]; /* "ring_full", … */

/*
 * Counts of the samples of the window's type; cumulative, and exact: taken - base = samples sent +
 * lost + samples not sent yet. `base` is the value of the kernel's counter when this instance
 * started. The counter outlives collectors, so the next instance's base tells how many samples a
 * collector had taken but not sent when it died.
 */
struct window_counts {
	uint64_t base, taken;
	uint64_t lost[WINDOW_LOST_REASONS];
};

struct window_row {
	uint32_t series, stack; /* ids in the dictionary */
	uint64_t count, value;
};

/*
 * The span of a trace that samples belong to. What of a row was taken in which span is said beside
 * the rows, not by them: traces are no labels, since each would be series of its own.
 */
struct window_span {
	uint8_t trace[16], span[8]; /* a trace of zeros is not known */
};

struct window_span_row {
	uint32_t series, stack;
	uint32_t span;         /* index */
	uint64_t count, value; /* these are part of the row's of that series and stack */
};

struct window_metric {
	const char *name; /* a Prometheus name, maybe with labels; borrowed */
	double value;
};

struct window {
	uint8_t instance[16];
	uint64_t sequence;
	uint32_t part;
	uint32_t epoch;    /* of the dictionary */
	uint64_t start_ms; /* since 1970 */
	uint32_t length_ms;
	char type[WINDOW_TYPE_MAX]; /* "cpu", "heap:inuse_space"; letters, digits, _ and : */
	char unit[WINDOW_TYPE_MAX]; /* "nanoseconds" */
	uint64_t period;            /* value of one count; 0: it varies */
	struct window_counts counts;
	struct window_row *rows; /* sorted by series, then stack; each pair once */
	uint32_t row_count;
	uint16_t *times; /* for each row `count` of them, ascending; NULL: not recorded */
	size_t time_count;
	struct window_metric *metrics; /* the collector's own, current values */
	uint32_t metric_count;
	struct finding *findings; /* as they are now; at most FINDINGS_MAX */
	uint32_t finding_count;
	struct window_span *spans; /* at most WINDOW_SPANS_MAX of each of these two */
	uint32_t span_count;
	struct window_span_row *span_rows; /* sorted by series, stack, span; each once */
	uint32_t span_row_count;
};

/* Whether it is a message of spans. */
static inline bool window_is_spans(const struct window *w)
{
	return w->span_row_count && !w->row_count;
}

/* Whether it is a message of findings: there is nothing else in it to be stored. */
static inline bool window_is_findings(const struct window *w)
{
	return w->finding_count && !w->row_count;
}

/*
 * Whether a type's values are states, not sums over time: the memory in use, the goroutines that
 * there are. One window of WINDOW_MS has such a value once, so that the mean of a range is the sum
 * divided by its windows.
 */
bool window_type_is_state(const char *type);

/*
 * Appends the message: the entries of `dict` since *mark (at most `entries_max` bytes), then the
 * window. Its rows may refer only to entries written by then; if there are more entries than fit,
 * send them first, in messages without rows.
 */
void window_write(const struct window *w, const struct profile *dict, struct entries_mark *mark,
		  size_t entries_max, struct pack *out);

/* Sorts rows of spans, and makes one of those that are the same; returns how many are left. */
uint32_t window_sort_spans(struct window_span_row *rows, uint32_t count);

/*
 * As many rows of spans, from one on, as a message may have, with the spans that they refer to, as
 * a window of their own (window_done()). Returns where the next begins.
 */
uint32_t window_cut_spans(const struct window *w, uint32_t from, struct window *ret);

/* The spans alone, as they stand in a message; false: malformed. Ids are not checked. */
void window_write_spans(const struct window *w, struct pack *out);
bool window_read_spans(struct unpack *in, struct window *w);

/* Reads only the head of a message, without entries and rows. 0 or -EBADMSG. */
int window_peek(const void *bytes, size_t len, struct window *ret);

/*
 * Reads a message and adds its entries to `dict`; free *ret with window_done(). 0; -EBADMSG:
 * malformed; -ESTALE: the entries do not continue `dict`; -EFBIG: over a cap; -EPROTONOSUPPORT:
 * another version. On errors *ret is empty, and `dict` must be discarded unless it is -ESTALE.
 */
int window_read(const void *bytes, size_t len, struct profile *dict, struct window *ret);
void window_done(struct window *w);

/* Its metrics again, for another window; NULL: it has none. */
struct window_metric *window_copy_metrics(const struct window *w);

/*
 * The reply to a message: "SMR", version (1 byte), instance, sequence, part, status, live_until_ms,
 * flush, 0, reason.
 *
 * A reply with sequence 0 answers no message and has only controls: a server may send it at any
 * time to a collector that always listens (`run`). Others get controls with their next reply.
 */
enum window_status {
	WINDOW_STORED,
	WINDOW_DUPLICATE, /* was stored before */
	WINDOW_RESET,     /* start a new epoch */
	WINDOW_LATER,     /* cannot be stored now (disk full): send it again */
	WINDOW_REFUSED,   /* will never be stored: drop it */
};

struct window_reply {
	uint8_t instance[16];
	uint64_t sequence;
	uint32_t part;
	enum window_status status;
	/* Controls: */
	uint64_t live_until_ms; /* send windows of 1 s until then (since 1970); 0: no */
	bool flush;             /* send the current window now */
	char reason[256];       /* why, for LATER and REFUSED */
};

void window_reply_write(const struct window_reply *r, struct pack *out);
int window_reply_read(const void *bytes, size_t len, struct window_reply *ret); /* 0, -EBADMSG */
