/*
 * inbox: profiles of programs, which they pushed or which were scraped, become windows of the
 * store.
 *
 * Each inbox is one instance of a collector, whose counts say exactly what was taken and what was
 * lost. Each new set of labels is a series, and those of a day are limited. Beyond that samples
 * lose the labels of their own, as long as the profile's are known; else the profile is refused.
 * Samples' own labels may use up only half of the limit, so that they never keep out a program.
 * Ids of a span and its trace (STORE_SPAN, STORE_TRACE) are no labels: they become spans of the
 * window (profile/window.h), as those that a collector finds do.
 *
 * A state, such as the memory in use, holds until it is measured again: it is stored once for each
 * WINDOW_MS in which it held, for at most INBOX_HOLDS_MS (profile/window.h says what is one).
 */
#pragma once

#include "base/mem.h"
#include "ingest/pushed.h"
#include "serve/exposition.h"
#include "store/store.h"

#define INBOX_SERIES_MAX 5000u                   /* sets of labels in a day (UTC) … */
#define INBOX_TYPES_MAX  256u                    /* … and types, while the server runs */
#define INBOX_SPANS_MAX  (16 * WINDOW_SPANS_MAX) /* samples of a profile that are in one */
#define INBOX_HOLDS_MS   300000u
#define INBOX_REASONS    16

struct inbox;

struct inbox *inbox_new(struct store *store); /* borrowed; for the store's thread */
void inbox_free(struct inbox *in);
DEFINE_CLEANUP(struct inbox *, inbox_free)

/*
 * Stores what was read, all of it or, with its status and a sentence that says why, nothing; if the
 * store fails in between, the sentence says how much is stored. What was refused before is only
 * counted. True: it is stored.
 */
bool inbox_take(struct inbox *in, struct pushed *p, uint64_t now_ms);

struct inbox_stats {
	uint64_t stored;   /* times that something was stored */
	uint64_t profiles; /* in those */
	uint64_t samples;  /* in those */
	struct {
		const char *reason; /* NULL: no more */
		uint64_t count;
	} refused[INBOX_REASONS]; /* times, by why */
	uint64_t labels_left_out; /* samples stored without their own labels, for lack of series */
	uint64_t spans_left_out;  /* sums whose span is not stored: too many, or a failure */
	uint64_t cut;             /* samples with a shortened stack */
	uint64_t skipped;         /* lines of text that were not understood */
	uint64_t long_labels;     /* attributes left out: too long, or too many */
	uint64_t accumulated;     /* sample types left out: sums since a program's start */
	uint32_t series, types;   /* now */
};

void inbox_stats(const struct inbox *in, struct inbox_stats *ret);

struct inbox_words {        /* what an inbox's metrics are called */
	const char *times;  /* "pushes": pushes_stored */
	const char *failed; /* "pushes_refused", by reason */
	const char *taken;  /* "pushed": pushed_profiles */
};

void inbox_metrics(const struct inbox_stats *s, const struct inbox_words *w, struct exposition *e);
