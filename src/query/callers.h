/*
 * callers: the callers of a function, or what it calls, as a profile.
 *
 * Each stack that contains the function is cut at its first, outermost, occurrence (so that a
 * function that calls itself is counted once): above it are its callees, below it its callers. Both
 * answers have the same sum, the function's total.
 */
#pragma once

#include <stdint.h>

#include "profile/profile.h"

enum callers_side {
	CALLERS_ALL,     /* the function, above it its callers, above those theirs, … */
	CALLERS_DIRECT,  /* the function and its direct callers: for tables of functions */
	CALLERS_CALLEES, /* the function, above it what it called */
};

/* By exact name, in any module. Keeps labels and info. Caller frees; empty if not found. */
struct profile *callers_new(const struct profile *p, const char *function, enum callers_side side);

/* Functions to suggest, whose names contain `part`: at most `max`; borrowed from the profile. */
uint32_t callers_suggest(const struct profile *p, const char *part, const char **ret, uint32_t max);
