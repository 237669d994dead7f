#include "profile/known.h"

#include <stdlib.h>
#include <string.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "base/mem.h"

#define SLOTS_MIN 16
#define SLOTS_MAX 1024

struct known {
	uint32_t count, slots; /* a power of two */
	struct known_stack *table;
};

struct known *known_new(void)
{
	struct known *k = mem_alloc(sizeof(*k));

	k->slots = SLOTS_MIN;
	k->table = mem_alloc_array(k->slots, sizeof(*k->table));
	return k;
}

void known_free(struct known *k)
{
	if (!k)
		return;
	free(k->table);
	free(k);
}

static struct known_stack *slot(const struct known *k, uint64_t hash)
{
	uint32_t at = (uint32_t)hash & (k->slots - 1);

	while (k->table[at].hash && k->table[at].hash != hash)
		at = (at + 1) & (k->slots - 1);
	return &k->table[at];
}

const struct known_stack *known_find(const struct known *k, uint64_t hash)
{
	const struct known_stack *s = slot(k, hash);

	return s->hash ? s : NULL;
}

static void grow(struct known *k)
{
	struct known_stack *old = k->table;
	uint32_t count = k->slots;

	k->slots *= 2;
	k->table = mem_alloc_array(k->slots, sizeof(*k->table));
	for (uint32_t i = 0; i < count; i++)
		if (old[i].hash)
			*slot(k, old[i].hash) = old[i];
	free(old);
}

void known_put(struct known *k, const struct known_stack *s)
{
	if (2 * k->count >= k->slots && k->slots < SLOTS_MAX) {
		grow(k);
	} else if (2 * k->count >= k->slots) {
		memset(k->table, 0, k->slots * sizeof(*k->table));
		k->count = 0;
	}
	struct known_stack *to = slot(k, s->hash);
	k->count += !to->hash;
	*to = *s;
}

uint64_t known_hash(const uint64_t *addresses, size_t count, uint64_t seed)
{
	uint64_t hash = XXH3_64bits_withSeed(addresses, count * sizeof(*addresses), seed);

	return hash ? hash : 1;
}
