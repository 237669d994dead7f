/*
 * locations: stacks as lists of locations, as pprof and OTLP have them.
 *
 * An inlined frame at the address of its parent shares the parent's location, as one more line of
 * it; so a location is a chain of frames, numbered here as (location of the parent, frame), and two
 * stacks that went through the same chain share it.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/index.h"
#include "profile/profile.h"

struct location {
	uint32_t outer; /* the location whose lines follow this one's; 0: none */
	uint32_t frame;
	bool used; /* some stack that was asked for has it */
};

struct locations { /* embedded; zero-initialised is empty */
	const struct profile *p;
	struct location *all; /* by id, from 1 on */
	uint32_t count, cap;
	uint32_t *of; /* by stack */
	struct index index;
};

void locations_number(struct locations *l, const struct profile *p); /* borrowed */
void locations_done(struct locations *l);

/* The location of the stack's leaf, and in *stack who called it; 0: that is the end. */
uint32_t locations_next(struct locations *l, uint32_t *stack);
