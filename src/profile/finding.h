/*
 * finding: something wrong with a machine that the collector noticed by itself, as a person would
 * put it in a note: who, what, since when, how it shows, what it usually means, what to look at.
 *
 * A finding is an interval of time that the collector makes longer while it lasts: (instance, id)
 * identifies it for ever, and of what was told of it the latest is true. It is over when it was not
 * made longer for FINDING_OVER_MS; so nobody has to tell its end, not even a collector that died.
 *
 * Plain data of fixed size. Texts are cleaned (text_clean()) when they are set and when they are
 * read from a message, so they are safe to show. What is too long is cut.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/pack.h"

#define FINDINGS_MAX    32 /* that a collector has at a time: fit a message */
#define FINDING_FACTS   8
#define FINDING_OVER_MS 35000

struct finding_fact {  /* a number that it rests on */
	char name[32]; /* "calls_per_second": letters, digits and _ */
	double value;
};

struct finding {
	uint8_t instance[16]; /* of the collector; set by whoever reads or stores its messages */
	uint64_t id;
	uint64_t began_ms, until_ms; /* since 1970 */
	uint32_t pid, tid;           /* 0: it is not about one */
	double sure;                 /* 0 to 1 */
	char kind[32];               /* "busy-poll": letters, digits and - */
	char host[65];
	char comm[32], thread[32]; /* a process' and a thread's name; "" with pid and tid */
	char container[80];        /* or the unit; "": neither */
	char headline[384];        /* one sentence: who does what, how much of it */
	char means[384];           /* what that usually means */
	char next[200];            /* a command that shows more */
	char stack[2000];          /* folded: from the root to the leaf, with ; between. "": none */
	struct finding_fact facts[FINDING_FACTS];
	uint32_t fact_count;
};

/* Cleans the text, and cuts it to the room there is. `ret`: an array. */
#define FINDING_SET(ret, text) finding_set((ret), sizeof(ret), (text))
void finding_set(char *ret, size_t size, const char *text);

/* One too many is left out. */
void finding_fact(struct finding *f, const char *name, double value);

/* Whether it still held at that time. */
bool finding_is_active(const struct finding *f, uint64_t now_ms);

/* For qsort() of findings: what is sure and takes most of a CPU first, then what began first. One
 * that does not say how much it takes counts as a CPU. */
int finding_order(const void *a, const void *b);

/* In messages and in stores; without its instance. Reading sets in->bad on anything malformed. */
void finding_write(const struct finding *f, struct pack *out);
void finding_read(struct unpack *in, struct finding *ret);
