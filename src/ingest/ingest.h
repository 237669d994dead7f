/*
 * ingest: reads profiles of other tools into our own model.
 *
 *	folded   "frame;frame;frame N", root first, as stackcollapse-*.pl and BCC's -f print it
 *	pprof    the format of `go tool pprof` and net/http/pprof
 *	perf     the output of `perf script`
 *
 * Each may be gzipped. Input is hostile: every size has a cap, listed below, and every error is one
 * sentence that says where. Text is parsed as a stream; only pprof, whose parts refer to each other
 * in both directions, is held in memory.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "profile/profile.h"

#define INGEST_LINE_MAX    (4u << 20)    /* bytes in a line of text */
#define INGEST_TEXT_MAX    (16ull << 30) /* bytes of text after gunzip */
#define INGEST_PPROF_MAX   (256u << 20)  /* bytes of pprof after gunzip */
#define INGEST_DEPTH_MAX   8192u         /* frames in a stack; the rest is truncated and counted */
#define INGEST_STACKS_MAX  (1u << 24)    /* distinct stack nodes; then profile.info.capped counts */
#define INGEST_FRAMES_MAX  (1u << 22)    /* distinct functions */
#define INGEST_SERIES_MAX  (1u << 20)    /* distinct sets of labels */
#define INGEST_SAMPLES_MAX (1u << 24)    /* distinct (series, stack) pairs */
/* Frames of all samples: a few bytes can name a location of many lines, again and again. */
#define INGEST_WALK_MAX (1ull << 30)

enum ingest_format { INGEST_AUTO, INGEST_FOLDED, INGEST_PPROF, INGEST_PERF };

struct ingest_caps {     /* lower ones than those above, for input that a network brings */
	size_t bytes;    /* after gunzip */
	uint32_t stacks; /* distinct stack nodes */
	uint64_t walk;   /* pprof: frames of all samples */
};

/* Whether a sample type of a pprof is wanted; one that is not is not even read. */
typedef bool ingest_wants_fn(void *ctx, const char *type, const char *unit);

struct ingest_options {
	enum ingest_format format; /* INGEST_AUTO: by the content */
	/* pprof: the sample type to read (NULL: the file's default, else its last).
	   perf: the event to read (NULL: the first that appears). */
	const char *sample_type;
	const struct ingest_caps *caps; /* NULL: those above */
	bool words_only;                /* pprof: labels that are numbers are left out */
	ingest_wants_fn *wants;         /* ingest_pprof_types(); NULL: all are wanted */
	void *wants_ctx;
};

struct ingest_report {
	enum ingest_format format; /* the format it was read as */
	uint64_t bytes;            /* that were read, after gunzip */
	char where[64];            /* of an error: "line 12", "location 7"; may be empty */
	char why[256];             /* of an error: the rest of the sentence */
	uint64_t skipped;          /* lines not understood, and skipped */
	uint64_t skipped_first;    /* the number of the first of them */
	uint64_t other_samples;    /* samples of other events than the one read */
	char other_name[64];       /* one such event */
};

/*
 * Adds the samples of `in` to `p`, which may already hold those of other files of the same type.
 * 0; -EINVAL if it is malformed, -EFBIG past a cap, or the errno of reading, explained in `where`
 * and `why`; `p` then holds part of the file and must not be used.
 *
 *	folded  fractions of counts are carried to the next line, so that sums are right to one; the
 *	        marks _[k], _[i] and _[j] after a name become the frame's kind; blank lines and
 *	        lines that start with # are skipped. Two counts on every line (a difference of two
 *	        profiles) are an error.
 *	pprof   sample.value is the type chosen, sample.count the nearest type before it whose unit
 *	        is "count" (1 if there is none). Labels become labels of the series.
 *	perf    each sample counts 1. Labels are comm, tid, and pid where `perf script -F +pid` gave
 *	        it. Lines not understood are counted in `skipped`.
 */
int ingest_read(FILE *in, const struct ingest_options *o, struct profile *p,
		struct ingest_report *ret);

/*
 * Reads all sample types of a pprof, each into a profile of its own, which `fn` takes over. What fn
 * returns other than 0 ends it. Errors are as of ingest_read().
 */
struct ingest_value_type { /* borrowed from the profile; the last two may be "" */
	const char *type, *unit, *period_type, *period_unit;
};

typedef int ingest_type_fn(void *ctx, struct profile *p, const struct ingest_value_type *t);

int ingest_pprof_types(FILE *in, const struct ingest_options *o, ingest_type_fn *fn, void *ctx,
		       struct ingest_report *ret);

/* "folded", "pprof", "perf" to the format: false if it is none of them. */
bool ingest_format_by_name(const char *name, enum ingest_format *ret);
