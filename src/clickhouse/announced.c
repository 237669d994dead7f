#include "clickhouse/announced.h"

bool announced_add(struct announced *a, uint64_t day, struct content_hash hash)
{
	uint32_t id;

	/* The day becomes part of the name. */
	for (size_t i = 0; i < sizeof(day); i++)
		hash.bytes[i] ^= (uint8_t)(day * 0x9e3779b97f4a7c15ull >> (8 * i));
	INDEX_EACH(&a->index, content_index(&hash), id)
		if (memcmp(&a->all[id - 1], &hash, sizeof(hash)) == 0)
			return false;
	if (a->count == ANNOUNCED_MAX)
		announced_forget(a);
	MEM_GROW(a->all, a->count, a->cap);
	a->all[a->count++] = hash;
	index_put(&a->index, content_index(&hash), a->count);
	return true;
}

void announced_forget(struct announced *a)
{
	index_clear(&a->index);
	a->count = 0;
}

void announced_done(struct announced *a)
{
	index_done(&a->index);
	free(a->all);
	*a = (struct announced){};
}
