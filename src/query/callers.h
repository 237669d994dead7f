/*
 * callers: what leads to a function, and what it leads to.
 *
 * Each stack with the function in it is cut where it stands first (a function that calls itself is
 * counted once): above it are its callees, below its callers. So both answers have the same sum,
 * the function's total.
 */
#pragma once

#include <stdint.h>

#include "profile/profile.h"

enum callers_side {
	CALLERS, /* the function, on it who called it, on that who called that, … */
	CALLER,  /* the function, on it who called it, and no more: for tables of functions */
	CALLEES, /* the function, on it what it called */
};

/* By exact name, in any module. Labels and info are kept. Caller frees; empty if there is none. */
struct profile *callers_new(const struct profile *p, const char *function, enum callers_side side);

/* Some functions whose names hold `part`, to suggest: at most `max`; borrowed from the profile. */
uint32_t callers_suggest(const struct profile *p, const char *part, const char **ret, uint32_t max);
