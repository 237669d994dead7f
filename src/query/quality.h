/*
 * quality: how far the stacks of a profile can be trusted, and what would make them better.
 *
 * A stack is whole when it reaches the program's outermost frame; else it stands under
 * [incomplete], or has a mark [truncated]. A frame has no name when all that is known is where it
 * lies: "[file+0x12]", or "[anon]" for code that a program made at run time.
 *
 * Such code has no unwind tables: its callers were found by frame pointers, or by reading it, and
 * proven as far as that can be (src/bpf/unwind.h).
 */
#pragma once

#include <stdint.h>

#include "profile/profile.h"

#define QUALITY_HINT 512

struct quality {
	uint64_t stacks; /* samples with a user stack … */
	uint64_t incomplete, truncated;
	uint64_t by_pointers; /* … with a caller that was found so */
	uint64_t frames;      /* of all samples … */
	uint64_t unnamed;
	/* Where most of the unnamed ones are; all borrowed, NULL if not known. */
	uint64_t worst;       /* how many of them */
	const char *file;     /* its name; NULL: code that was made at run time */
	const char *path;     /* of the file, as mapped */
	const char *build_id; /* in hex */
	const char *runtime;  /* who makes such code: "java" … */
	const char *remedy;   /* … and how it tells the names */
};

void quality_of(const struct profile *p, struct quality *ret);

/*
 * One sentence on what would name the largest part; "" if there is less than a hundredth without a
 * name, or nothing is known to help. `package`: that has the file's symbols, NULL if not known.
 */
const char *quality_hint(const struct quality *q, const char *package,
			 char ret[static QUALITY_HINT]);
