#include "base/index.h"

#include "base/mem.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

uint32_t index_hash_bytes(const void *p, size_t len)
{
	return (uint32_t)XXH3_64bits(p, len);
}

static void insert(uint64_t *slots, uint32_t mask, uint64_t slot)
{
	uint32_t pos = (uint32_t)(slot >> 32) & mask;

	while (slots[pos])
		pos = (pos + 1) & mask;
	slots[pos] = slot;
}

static void grow(struct index *ix)
{
	uint32_t size = ix->slots ? (ix->mask + 1) * 2 : 64;
	uint64_t *slots = mem_alloc_array(size, sizeof(*slots));

	if (ix->slots)
		for (uint32_t i = 0; i <= ix->mask; i++)
			if (ix->slots[i])
				insert(slots, size - 1, ix->slots[i]);
	free(ix->slots);
	ix->slots = slots;
	ix->mask = size - 1;
}

void index_put(struct index *ix, uint32_t hash, uint32_t id)
{
	if (!ix->slots || ix->count >= ix->mask - ix->mask / 4)
		grow(ix);
	insert(ix->slots, ix->mask, (uint64_t)hash << 32 | id);
	ix->count++;
}

void index_clear(struct index *ix)
{
	if (ix->slots)
		memset(ix->slots, 0, ((size_t)ix->mask + 1) * sizeof(*ix->slots));
	ix->count = 0;
}

void index_done(struct index *ix)
{
	free(ix->slots);
	*ix = (struct index){};
}

size_t index_bytes(const struct index *ix)
{
	return ix->slots ? ((size_t)ix->mask + 1) * sizeof(*ix->slots) : 0;
}
