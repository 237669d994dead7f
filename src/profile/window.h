/*
 * window: what a collector saw in ten seconds, and the message that carries it to the server.
 *
 * A window is a part of the wall clock's time, aligned to its length. A collector sends it in one
 * or more parts that add up; what comes late (a sample that waited for an unwind table) is one more
 * part. (instance, sequence, part) is one message for ever: a receiver that has stored it says so
 * and stores nothing, so a sender repeats a message until it is answered. A new process of the
 * collector is a new instance.
 *
 * Ids of series and stacks are those of the sender's dictionary, a struct profile that both sides
 * hold: each message brings the entries that are new since the last (profile/entries.h). A
 * dictionary has an epoch. When the receiver does not know the epoch (it was restarted) or entries
 * are missing, it answers WINDOW_RESET, and the sender begins a new one and sends all of it.
 *
 * All integers packed (base/pack.h):
 *
 *	"SMW", version (1 byte)
 *	instance (16 bytes), sequence, part, epoch
 *	start and length in ms, type, unit, period
 *	base, taken, then WINDOW_LOST_REASONS times lost
 *	entries: bytes, then as in profile/entries.h
 *	rows, then each: series (difference to the row before), stack (difference), count,
 *	      value less count * period, zigzag
 *	sample times: 0, or 1 and then for each row, `count` steps of WINDOW_STEP_MS since the start
 *	      of the window: the first, then differences
 *	metrics, then each: name, value
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/pack.h"
#include "profile/entries.h"
#include "profile/profile.h"

#define WINDOW_MS          10000
#define WINDOW_STEP_MS     20
#define WINDOW_MESSAGE_MAX (128u << 10) /* bytes; a sender cuts what is larger into parts */
#define WINDOW_ROWS_MAX    (64u << 10)
#define WINDOW_METRICS_MAX 512
#define WINDOW_LENGTH_MAX  3600000
#define WINDOW_TYPE_MAX    64
#define WINDOW_NO_PART     UINT32_MAX /* a message of entries only: nothing in it is to be stored */

/* Why a sample that was taken is in no window. */
enum window_lost {
	WINDOW_LOST_RING,      /* the collector did not keep up */
	WINDOW_LOST_BUFFER,    /* the server was away for so long that windows were dropped */
	WINDOW_LOST_MALFORMED, /* a record from the kernel that made no sense */
	WINDOW_LOST_REFUSED,   /* the server would not have them: too old, or from the future */
	WINDOW_LOST_DIED,      /* taken for a collector that ended before it could send them */
	WINDOW_LOST_REASONS,
};

extern const char *const window_lost_names[WINDOW_LOST_REASONS]; /* "ring_full", … */

/*
 * Of the samples of the window's type, cumulative: taken - base = what was sent so far + lost +
 * what is still on its way, exactly.
 * `base` is what the kernel's counter stood at when this instance began; the counter itself
 * outlives collectors, so what one left behind is known from the next one's base.
 */
struct window_counts {
	uint64_t base, taken;
	uint64_t lost[WINDOW_LOST_REASONS];
};

struct window_row {
	uint32_t series, stack; /* of the dictionary */
	uint64_t count, value;
};

struct window_metric {
	const char *name; /* a Prometheus name, with labels if any; borrowed */
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
	uint64_t period;            /* value of one count, 0 if it varies */
	struct window_counts counts;
	struct window_row *rows; /* in order of series, then stack; each pair once */
	uint32_t row_count;
	uint16_t *times; /* for each row `count` of them, ascending; NULL: not kept */
	size_t time_count;
	struct window_metric *metrics; /* the collector's own, as of now */
	uint32_t metric_count;
};

/*
 * Appends the message: the entries of `dict` since *mark (at most `entries_max` bytes of them),
 * then the window. Rows must need only entries that are written by then: send entries alone, in
 * parts without rows, while entries_write() would leave some.
 */
void window_write(const struct window *w, const struct profile *dict, struct entries_mark *mark,
		  size_t entries_max, struct pack *out);

/* The head of a message, without its entries and rows: who sends what. 0 or -EBADMSG. */
int window_peek(const void *bytes, size_t len, struct window *ret);

/*
 * Reads a message; its entries are added to `dict`. *ret is freed by window_done().
 * 0; -EBADMSG malformed; -ESTALE the entries do not follow from `dict`; -EFBIG past a cap;
 * -EPROTONOSUPPORT another version. *ret is empty then, and `dict` of no more use but for -ESTALE.
 */
int window_read(const void *bytes, size_t len, struct profile *dict, struct window *ret);
void window_done(struct window *w);

/*
 * The answer to a message: "SMR", version (1 byte), instance, sequence, part, status, live until
 * (ms since 1970, 0: no), flush, 0, reason.
 *
 * With sequence 0 it answers no message and brings controls alone: a server sends one at any time
 * to a collector that listens all the time (`run`). Others learn them with their next answer.
 */
enum window_status {
	WINDOW_STORED,
	WINDOW_DUPLICATE, /* stored before */
	WINDOW_RESET,     /* begin a new epoch */
	WINDOW_LATER,     /* cannot be stored now (disk full): send it again */
	WINDOW_REFUSED,   /* will never be stored: give it up */
};

struct window_reply {
	uint8_t instance[16];
	uint64_t sequence;
	uint32_t part;
	enum window_status status;
	/* Controls. */
	uint64_t live_until_ms; /* windows of 1 s until then */
	bool flush;             /* send what there is now */
	char reason[256];       /* why, for LATER and REFUSED */
};

void window_reply_write(const struct window_reply *r, struct pack *out);
int window_reply_read(const void *bytes, size_t len, struct window_reply *ret); /* 0, -EBADMSG */
