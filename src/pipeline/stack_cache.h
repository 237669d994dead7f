/*
 * stack_cache: stacks that were resolved before.
 *
 * A program is mostly where it was before, or calls something else from there. So the profile's id
 * of a stack is kept here under two hashes of 64 bits: one of the addresses of its frames in this
 * process, and one of the locations of its frames (struct frame_location, resolve.h). A location is
 * the same in every process, so only the new end of a stack has to be looked up. The table has a
 * fixed size: a new stack takes the place of the one in its set that was not met for longest.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

struct stack_cache;

struct cached_stack {
	uint64_t hash;    /* of the frames; never 0 */
	uint32_t stack;   /* of the profile */
	uint16_t frames;  /* in it … */
	uint16_t unnamed; /* … and those without a name */
};

struct stack_cache *stack_cache_new(void);
void stack_cache_free(struct stack_cache *k);

/* NULL: not there. Borrowed until the next call. */
const struct cached_stack *stack_cache_find(struct stack_cache *k, uint64_t hash);
void stack_cache_put(struct stack_cache *k, const struct cached_stack *s);

void stack_cache_expect(struct stack_cache *k,
			uint64_t hash); /* stack_cache_find() will follow soon */

/* Extends the hash `callers` by one value; begin with a hash of whatever else must match. */
static inline uint64_t stack_cache_hash(uint64_t callers, uint64_t address)
{
	unsigned __int128 product =
		(unsigned __int128)(callers ^ 0x9e3779b97f4a7c15) * (address ^ 0xd6e8feb86659fd93);
	uint64_t hash = (uint64_t)(product >> 64) ^ (uint64_t)product;

	return hash ? hash : 1;
}
