/*
 * quality: how complete a profile's stacks and names are, and what would improve them.
 *
 * A stack is complete if it reaches the program's outermost frame; if not, it is under
 * [incomplete], or contains the mark [truncated]. A frame is unnamed if only its location is known:
 * "[file+0x12]", or "[anon]" for code that was generated at run time.
 *
 * Generated code has no unwind tables: its callers were found by frame pointers, or by reading its
 * instructions, and verified as far as possible (src/bpf/unwind.h).
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "profile/profile.h"
#include "query/package.h"

#define QUALITY_HINT 512

struct quality {
	uint64_t stacks; /* samples with a user stack; of those: */
	uint64_t incomplete, truncated;
	uint64_t by_pointers; /* with a caller found by frame pointers */
	uint64_t frames;      /* of all samples; of those: */
	uint64_t unnamed;
	/* Where most unnamed frames are; all borrowed, NULL if unknown. */
	uint64_t worst;       /* how many of them */
	const char *file;     /* its name; NULL: code generated at run time */
	const char *path;     /* of the file, as mapped */
	const char *build_id; /* in hex */
	const char *runtime;  /* what generated the code: "java" */
	const char *remedy;   /* how to make it publish its names */
};

void quality_of(const struct profile *p, struct quality *ret);

/* What may help: zero-initialised, nothing that has to be looked for. */
struct quality_help {
	struct packages *packages; /* finds the package with a file's symbols; NULL: none */
	bool debuginfod;           /* a server could ask for debug files, and is not told to */
};

/*
 * One sentence on what would name the most unnamed frames; "" if less than 1 % are unnamed, or no
 * remedy is known.
 */
const char *quality_hint(const struct quality *q, struct quality_help help,
			 char ret[static QUALITY_HINT]);
