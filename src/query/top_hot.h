/*
 * top_hot: the functions and stacks in which some samples of a profile are, hottest first.
 *
 * Of a profile of all time (wall_parts.h) the parts of the time come first, and idle time is one of
 * them, without the stacks below it.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "profile/profile.h"

struct hot_function {
	uint32_t frame;       /* of the profile */
	uint64_t self, total; /* a function that calls itself counts once */
};

struct hot_stack {
	uint32_t stack; /* of the profile; 0: none */
	uint64_t value;
};

struct top_hot {
	struct hot_function *functions;
	struct hot_stack *stacks;
	uint32_t function_count, stack_count;
	uint64_t value, count; /* of all samples */
};

/* Of the samples for which `wanted[series]`. At most `max` of each are kept. */
void top_hot_make(struct top_hot *h, const struct profile *p, const struct sample *samples,
		  uint32_t count, const bool *wanted, bool is_wall, uint32_t max);
void top_hot_done(struct top_hot *h);
