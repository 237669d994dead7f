#include "symbol/name_cache.h"

#include "base/mem.h"

struct entry {
	uint64_t key;
	uint32_t file;
	uint32_t len;
	uint8_t data[];
};

void name_cache_init(struct name_cache *c, size_t max_bytes)
{
	*c = (struct name_cache){.max = max_bytes / 2};
}

static void half_done(struct name_cache_half *h)
{
	index_done(&h->index);
	free(h->data);
	*h = (struct name_cache_half){};
}

void name_cache_done(struct name_cache *c)
{
	half_done(&c->young);
	half_done(&c->old);
}

static size_t half_bytes(const struct name_cache_half *h)
{
	return h->used + index_bytes(&h->index);
}

size_t name_cache_bytes(const struct name_cache *c)
{
	return half_bytes(&c->young) + half_bytes(&c->old);
}

void name_cache_set_max(struct name_cache *c, size_t max_bytes)
{
	struct name_cache_half *halves[] = {&c->young, &c->old};

	c->max = max_bytes / 2;
	for (size_t i = 0; i < ARRAY_SIZE(halves); i++)
		if (half_bytes(halves[i]) > c->max)
			half_done(halves[i]);
}

static struct entry *find(const struct name_cache_half *h, uint32_t hash, uint32_t file,
			  uint64_t key)
{
	uint32_t id;

	INDEX_EACH(&h->index, hash, id) {
		struct entry *e = (struct entry *)(h->data + (size_t)(id - 1) * 8);
		if (e->key == key && e->file == file)
			return e;
	}
	return NULL;
}

const void *name_cache_get(struct name_cache *c, uint32_t file, uint64_t key)
{
	uint32_t hash = index_hash2(key, file);
	struct entry *e = find(&c->young, hash, file, key);
	if (e)
		return e->data;
	e = find(&c->old, hash, file, key);
	return e ? name_cache_put(c, file, key, e->data, e->len) : NULL;
}

const void *name_cache_put(struct name_cache *c, uint32_t file, uint64_t key, const void *data,
			   size_t len)
{
	size_t size = (sizeof(struct entry) + len + 7) & ~(size_t)7;
	struct name_cache_half drop = {};
	if (size > c->max)
		return NULL;

	/* The index doubles when it grows: count its new size. */
	size_t index = index_bytes(&c->young.index);
	if (c->young.index.count >= index / sizeof(uint64_t) * 3 / 4)
		index *= 2;
	if (c->young.used + size > MIN(c->max - MIN(index, c->max), c->young.cap) &&
	    c->young.used) {
		drop = c->old;
		c->old = c->young;
		c->young = (struct name_cache_half){};
	}
	if (!c->young.data) { /* untouched pages use no memory */
		c->young.data = mem_resize_array(NULL, c->max, 1);
		c->young.cap = c->max;
	}

	struct entry *e = (struct entry *)(c->young.data + c->young.used);
	*e = (struct entry){.key = key, .file = file, .len = (uint32_t)len};
	memcpy(e->data, data, len); /* may come from what is about to be dropped */
	index_put(&c->young.index, index_hash2(key, file), (uint32_t)(c->young.used / 8) + 1);
	c->young.used += size;
	half_done(&drop);
	return e->data;
}
