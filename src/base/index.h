/*
 * index: a hash table from content to a dense id, for interning.
 *
 * It stores only (hash, id) pairs; the content is in the caller's array, and the caller compares.
 * Ids are never 0. Entries cannot be removed one by one. Embedded; zero-initialised is empty.
 *
 *	uint32_t id;
 *	INDEX_EACH(&ix, hash, id)
 *		if (same(things[id], key))
 *			return id;
 *	index_put(&ix, hash, new_id);
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

struct index {
	uint64_t *slots; /* hash << 32 | id; 0 is empty */
	uint32_t mask;   /* slots - 1; meaningless while slots is NULL */
	uint32_t count;
};

void index_put(struct index *ix, uint32_t hash, uint32_t id);
void index_clear(struct index *ix); /* removes all entries, but keeps the memory */
void index_done(struct index *ix);
size_t index_bytes(const struct index *ix);

/* The next id with that hash, from slot *pos on; 0: no more. Used by INDEX_EACH. */
static inline uint32_t index_next(const struct index *ix, uint32_t hash, uint32_t *pos)
{
	if (!ix->slots)
		return 0;
	for (;;) {
		uint64_t slot = ix->slots[*pos & ix->mask];
		if (!slot)
			return 0;
		(*pos)++;
		if ((uint32_t)(slot >> 32) == hash)
			return (uint32_t)slot;
	}
}

#define INDEX_EACH(ix, hash, id)                                                                   \
	for (uint32_t pos_ = (hash); ((id) = index_next((ix), (hash), &pos_)) != 0;)

uint32_t index_hash_bytes(const void *p, size_t len);

/* Hashes two words; good enough for ids and addresses. */
static inline uint32_t index_hash2(uint64_t a, uint64_t b)
{
	uint64_t h = (a ^ (b * 0x9e3779b97f4a7c15ull)) * 0xff51afd7ed558ccdull;

	h ^= h >> 32;
	h *= 0xc4ceb9fe1a85ec53ull;
	return (uint32_t)(h >> 29);
}
