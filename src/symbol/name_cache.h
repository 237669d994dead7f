/*
 * name_cache: (file, key) -> a few bytes, within a budget; what was not used lately goes first.
 *
 * Two generations of half the budget each: when the young one is full it becomes the old one, and
 * what was old is forgotten unless it was asked for again in the meantime. That is within a factor
 * of two of forgetting the least recently used one, without a list through every entry. Embedded.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "base/index.h"

struct name_cache_half {
	struct index index;
	uint8_t *data;
	size_t used, cap;
};

struct name_cache {
	struct name_cache_half young, old;
	size_t max; /* bytes of each half, its index included */
};

void name_cache_init(struct name_cache *c, size_t max_bytes);
void name_cache_set_max(struct name_cache *c,
			size_t max_bytes); /* forgets at once what is too much */
void name_cache_done(struct name_cache *c);

/* Borrowed until the next call that is not name_cache_bytes(), aligned to 8; NULL when unknown. */
const void *name_cache_get(struct name_cache *c, uint32_t file, uint64_t key);

/* Keeps a copy and returns it; the caller knows that it is not there yet. NULL: too big. */
const void *name_cache_put(struct name_cache *c, uint32_t file, uint64_t key, const void *data,
			   size_t len);

size_t name_cache_bytes(const struct name_cache *c);
