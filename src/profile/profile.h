/*
 * profile: the data model, shared by the stages that collect samples and those that show them.
 *
 * A profile has interned strings, modules (mapped files), frames, stacks, series and samples:
 *
 *	frame   a function in a module; with addr or line set, one location in it
 *	stack   a node of a trie: (parent stack, frame). The root is the outermost user frame, and
 *	        kernel frames come after user frames. A parent's id is always less than its
 *	        child's, so a loop over ids visits parents first, and a loop backwards can add up
 *	        children into parents.
 *	series  a set of labels: comm, pid, thread, tid, …
 *	sample  count and value of a (series, stack), added up
 *
 * Ids are dense, start at 1 and are valid only within one profile; 0 is "none" (for a stack: the
 * empty one). Every string is cleaned by text_clean() when it is added, so renderers need only the
 * escapes of their own format. Not thread-safe.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/mem.h"
#include "profile/frame.h"

#define PROFILE_DEPTH_MAX 16384 /* most frames of a stack */

struct module {
	uint32_t name;     /* string: basename, "[kernel]", "[vdso]" */
	uint32_t path;     /* string: as mapped; 0: unknown */
	uint32_t build_id; /* string: hex, 0 if none */
	uint64_t start; /* of the executable segment: virtual addresses, and offset in the file */
	uint64_t end;
	uint64_t offset;
};

struct frame {
	uint32_t name;   /* string */
	uint32_t module; /* 0: none */
	uint64_t addr;   /* virtual address in the module; 0: not recorded */
	uint32_t source; /* string: source file; 0: unknown */
	uint32_t line;   /* 0: unknown */
	uint32_t start;  /* the line on which the function begins; 0: unknown */
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
	uint64_t value;  /* in profile_info.unit */
};

/* What the values mean, and what is missing. */
struct profile_info {
	const char *type;     /* "cpu"; static or owned by the profile (profile_keep) */
	const char *unit;     /* of sample.value: "nanoseconds", "samples", "bytes", … */
	uint64_t period;      /* value of one count; 0: it varies */
	uint64_t start_ns;    /* since 1970; 0: unknown */
	uint64_t duration_ns; /* 0: unknown */
	uint64_t lost;        /* samples that were taken but are not in the profile */
	uint64_t truncated;   /* samples whose stack was cut */
	uint64_t capped;      /* samples cut short because the profile was full */
};

struct profile {
	struct profile_info info;
	struct profile_tables *tables; /* private */
	/* Read-only, indexed by id; entry 0 is "none". Borrowed until something is added. */
	const struct module *modules;
	const struct frame *frames;
	const struct stack *stacks;
	const struct series *series;
	const struct sample *samples; /* 0 to sample_count - 1, in order of first appearance */
	uint32_t module_count, frame_count, stack_count, series_count, sample_count;
	bool has_detail; /* some frame has addr, source or line, so one function may have several
			    frames */
};

struct profile *profile_new(void); /* type and unit are "samples" until they are set */
void profile_free(struct profile *p);
DEFINE_CLEANUP(struct profile *, profile_free)

uint32_t profile_string(struct profile *p, const char *s, size_t len);
const char *profile_str(const struct profile *p, uint32_t id); /* borrowed, valid until free */
size_t profile_str_len(const struct profile *p, uint32_t id);
uint32_t profile_string_count(const struct profile *p);     /* ids are less than this */
const char *profile_keep(struct profile *p, const char *s); /* the interned string */

uint32_t profile_module(struct profile *p, const struct module *m); /* interned by name+build id */
uint32_t profile_frame(struct profile *p, const struct frame *f);
uint32_t profile_series(struct profile *p, const struct label *labels, size_t count);
/* The same, but adds nothing: 0 if it is not there. */
uint32_t profile_series_find(const struct profile *p, const struct label *labels, size_t count);

/*
 * The stack of `frame` called by `parent`. At a cap (stacks_max, 1 << 27 unless set, or
 * PROFILE_DEPTH_MAX frames) no stack is added: the parent is returned and info.capped is counted,
 * so that sums stay exact. So every stack reaches its root in at most PROFILE_DEPTH_MAX steps.
 */
uint32_t profile_stack(struct profile *p, uint32_t parent, uint32_t frame);
void profile_set_stacks_max(struct profile *p, uint32_t max);

void profile_add(struct profile *p, uint32_t series, uint32_t stack, uint64_t count,
		 uint64_t value);

/* Makes means of sums: divides all values. Fractions are carried to the next sample, so that sums
 * are right to one. */
void profile_divide(struct profile *p, uint64_t by);

/* The value of a label of a series, or NULL. */
const char *profile_label(const struct profile *p, uint32_t series, const char *key);

size_t profile_bytes(const struct profile *p);
