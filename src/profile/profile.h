/*
 * profile: what was seen. The one data model between the stages that collect and those that show.
 *
 * A profile holds interned strings, modules (mapped files), frames, stacks, series and samples:
 *
 *	frame   a function in a module; with addr or line set, one place in it
 *	stack   a trie node (parent stack, frame), root first, user frames below kernel frames.
 *	        A parent's id is always less than its child's, so a loop over ids visits parents
 *	        first and a loop backwards sums children into parents.
 *	series  a set of labels: comm, pid, thread, tid, …
 *	sample  (series, stack) -> count and value, added up
 *
 * Ids are dense, start at 1, and name things only inside one profile; 0 is "none" (for a stack: the
 * empty stack, the root). Every string that enters goes through text_clean(), so renderers need
 * only their own format's escapes. Not thread-safe.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/mem.h"
#include "profile/frame.h"

#define PROFILE_DEPTH_MAX 16384 /* frames in a stack, wherever it comes from */

struct module {
	uint32_t name;     /* string: basename, "[kernel]", "[vdso]" */
	uint32_t path;     /* string: as mapped, 0 if not known */
	uint32_t build_id; /* string: hex, 0 if none */
	uint64_t start;    /* the executable segment: virtual address, end, offset in the file */
	uint64_t end;
	uint64_t offset;
};

struct frame {
	uint32_t name;   /* string */
	uint32_t module; /* 0: none */
	uint64_t addr;   /* virtual address in the module; 0: not kept */
	uint32_t source; /* string: source file; 0: not known */
	uint32_t line;   /* 0: not known */
	enum frame_kind kind;
};

struct stack {
	uint32_t parent; /* 0: this is a root frame */
	uint32_t frame;
};

struct label {
	uint32_t key;   /* string */
	uint32_t value; /* string */
};

struct series {
	const struct label *labels; /* sorted by key id */
	uint32_t count;
};

struct sample {
	uint32_t series; /* 0: no labels */
	uint32_t stack;  /* 0: no frames */
	uint64_t count;  /* how often it was seen */
	uint64_t value;  /* in the unit of the profile's type */
};

/* What the numbers mean, and what is missing from them. */
struct profile_info {
	const char *type;     /* "cpu"; static or owned by the profile (profile_keep) */
	const char *unit;     /* of sample.value: "nanoseconds", "samples", "bytes", … */
	uint64_t period;      /* value of one count, 0 if it varies */
	uint64_t start_ns;    /* wall clock, since the epoch; 0 if not known */
	uint64_t duration_ns; /* 0 if not known */
	uint64_t lost;        /* samples taken but not in here */
	uint64_t truncated;   /* samples whose stack was cut */
	uint64_t capped;      /* samples cut short because the profile was full */
};

struct profile {
	struct profile_info info;
	struct profile_tables *tables; /* private */
	/* Read directly, by id; entry 0 is the "none" of each. Borrowed until something is added.
	 */
	const struct module *modules;
	const struct frame *frames;
	const struct stack *stacks;
	const struct series *series;
	const struct sample *samples; /* [0, sample_count), in order of first appearance */
	uint32_t module_count, frame_count, stack_count, series_count, sample_count;
	bool has_detail; /* some frame keeps addr, source or line: frames are not yet functions */
};

struct profile *profile_new(void); /* unit "samples", type "samples" until told otherwise */
void profile_free(struct profile *p);
DEFINE_CLEANUP(struct profile *, profile_free)

uint32_t profile_string(struct profile *p, const char *s, size_t len);
const char *profile_str(const struct profile *p, uint32_t id); /* borrowed, valid until free */
size_t profile_str_len(const struct profile *p, uint32_t id);
uint32_t profile_string_count(const struct profile *p);     /* ids are less than this */
const char *profile_keep(struct profile *p, const char *s); /* cleans, interns, returns it */

uint32_t profile_module(struct profile *p, const struct module *m); /* interned by name+build id */
uint32_t profile_frame(struct profile *p, const struct frame *f);
uint32_t profile_series(struct profile *p, const struct label *labels, size_t count);
/* The same, but nothing is made: 0 when it is not there. */
uint32_t profile_series_find(const struct profile *p, const struct label *labels, size_t count);

/*
 * The stack that calls `frame` from `parent`. At a cap (stacks_max of them, 1 << 27 unless set, or
 * PROFILE_DEPTH_MAX frames in one) a new stack is not made: its parent is returned and info.capped
 * counts, so that sums stay exact. So whoever walks from a stack to its root is there after
 * PROFILE_DEPTH_MAX steps, whatever was read.
 */
uint32_t profile_stack(struct profile *p, uint32_t parent, uint32_t frame);
void profile_set_stacks_max(struct profile *p, uint32_t max);

void profile_add(struct profile *p, uint32_t series, uint32_t stack, uint64_t count,
		 uint64_t value);

/* The value of a label of a series as a string, or NULL. */
const char *profile_label(const struct profile *p, uint32_t series, const char *key);

size_t profile_bytes(const struct profile *p);
