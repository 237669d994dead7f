/*
 * places: in which line of the sources each function was seen most.
 *
 * A function of a tree is many places in its source; what is shown beside its name is the one that
 * most of its samples were in, or in what it called from there. Of equals it is the first line.
 */
#pragma once

#include <stdint.h>

#include "base/index.h"

struct place {
	uint32_t source; /* string; 0: not known */
	uint32_t line;   /* 0: not known */
};

struct places {                  /* zero-initialised is empty */
	struct seen_place *seen; /* private; entry 0 is none */
	uint32_t count, cap;
	struct index index;
};

void places_add(struct places *ps, uint32_t function, struct place at, uint64_t weight);
void places_done(struct places *ps);

/* By function, for ids less than `functions`; NULL when nothing was added. Caller frees. */
struct place *places_most(const struct places *ps, uint32_t functions);
