/*
 * known: stacks that were resolved before.
 *
 * A program is mostly where it was before. What the addresses of a stack led to is kept here by a
 * hash of all of them, 64 bits, so that names are looked up for new stacks only. One table for all
 * processes, of a fixed size: a stack takes the place of one that was not met for longer.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

struct known;

struct known_stack {
	uint64_t hash;    /* of the addresses; never 0 */
	uint32_t stack;   /* of the profile */
	uint16_t frames;  /* in it … */
	uint16_t unnamed; /* … and those without a name */
};

struct known *known_new(void);
void known_free(struct known *k);

/* NULL: not there. Borrowed until the next call. */
const struct known_stack *known_find(struct known *k, uint64_t hash);
void known_put(struct known *k, const struct known_stack *s);

/* `seed`: whatever else must be the same. */
uint64_t known_hash(const uint64_t *addresses, size_t count, uint64_t seed);
