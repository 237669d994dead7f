/*
 * spool: windows that wait to be sent on, on disk, oldest first.
 *
 * Each message of a collector is a record: a file with a window message (profile/window.h) that has
 * all the entries it needs, so that it can be sent by any protocol, to any server, after any
 * restart. A record that is put is there when spool_put() returns, and a file is there whole or not
 * at all, so a killed process loses none (a power cut those of the last seconds).
 *
 * All files together take at most `max_bytes` (in memory, where there is no directory,
 * `max_memory`): beyond that the oldest go and are counted, except those that were handed out and
 * not settled yet. Where the disk is full before, the oldest go likewise until a new one fits; if
 * none are left, new ones wait in memory. What became of all is in the ledger.
 *
 *	DIR/ledger               ledger.h
 *	DIR/NUMBER.window        16 hex digits, ascending
 */
#pragma once

#include "forward/ledger.h"
#include "profile/window.h"

struct spool;

struct spool_options {
	int dir; /* a directory that is ours alone, locked; taken over. -1: only memory */
	uint64_t max_bytes;  /* on disk */
	uint64_t max_memory; /* of those that are not on disk */
};

/* 0, or -errno: -EBUSY: another process uses it. */
int spool_open(const struct spool_options *o, struct spool **ret);
void spool_close(struct spool *s); /* NULL is fine; what is on disk stays there */

/* 0; -EEXIST: it was put before; -ENOSPC: neither disk nor memory has room now; -EFBIG. */
int spool_put(struct spool *s, const struct profile *dict, const struct window *w);

struct spooled {
	uint64_t number;
	uint64_t samples; /* that are left to be sent */
	uint64_t through; /* series of it that were sent, in their order in the window */
	struct profile *dict;
	struct window window;
};

/*
 * The oldest record but `skip`. It stays until it is settled; one that cannot be read is dropped,
 * and counted. Free *ret with spooled_done(). False: there is none.
 */
bool spool_next(struct spool *s, unsigned skip, struct spooled *ret);

/*
 * Spans of a window's rows come as records of their own behind it. Adds them to its record; false:
 * nothing but such records is behind it, so that more of them may be on their way.
 */
bool spool_add_spans(struct spool *s, struct spooled *r);
void spooled_done(struct spooled *r);

/* Of a record that was handed out, series up to `through` are done: so many samples were sent, so
 * many refused. */
void spool_progress(struct spool *s, uint64_t number, uint64_t through, uint64_t sent,
		    uint64_t refused);

/* Its end: all that is left of it was sent, or is lost. */
void spool_settle(struct spool *s, uint64_t number);
void spool_refuse(struct spool *s, uint64_t number);

/* Adds what is known to be lost of the collector's samples of this type to its counts. */
void spool_losses(const struct spool *s, struct window *w);

struct spool_stats {
	uint64_t records, bytes, samples; /* that wait, in all */
	uint64_t memory_bytes;            /* of those in memory */
	uint64_t oldest_ms;               /* when the oldest began; 0: none waits */
	uint64_t taken, sent,
		lost[LEDGER_LOST_REASONS]; /* samples: taken = sent + lost + samples */
	uint64_t sent_records, lost_records;
	int error; /* of the last write to disk: 0, -ENOSPC, … */
};

void spool_stats(const struct spool *s, struct spool_stats *ret);
