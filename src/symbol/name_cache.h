/*
 * name_cache: a cache from (file, key) to a few bytes, such as a function's name, of bounded size.
 *
 * Two generations, each of half the size: when the young one is full it becomes the old one, and
 * the entries of the old one are dropped, except those that were looked up again meanwhile. This is
 * close to dropping the least recently used, without a linked list through all entries. Embedded.
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
void name_cache_set_max(struct name_cache *c, size_t max_bytes); /* drops what is over it at once */
void name_cache_done(struct name_cache *c);

/* Aligned to 8, and borrowed until the next call but name_cache_bytes(). NULL: not there. */
const void *name_cache_get(struct name_cache *c, uint32_t file, uint64_t key);

/* Stores a copy and returns it. The key must not be there yet. NULL: too big. */
const void *name_cache_put(struct name_cache *c, uint32_t file, uint64_t key, const void *data,
			   size_t len);

size_t name_cache_bytes(const struct name_cache *c);
