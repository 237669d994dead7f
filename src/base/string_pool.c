#include "base/string_pool.h"

static inline uint32_t find(const struct string_pool *s, uint32_t hash, const char *str, size_t len)
{
	uint32_t id;

	INDEX_EACH(&s->index, hash, id)
		if (s->by_id[id].len == len && memcmp(s->by_id[id].bytes, str, len) == 0)
			return id;
	return 0;
}

uint32_t string_pool_find(const struct string_pool *s, const char *str, size_t len)
{
	return len ? find(s, index_hash_bytes(str, len), str, len) : 0;
}

uint32_t string_pool_put(struct string_pool *s, const char *str, size_t len)
{
	if (len == 0)
		return 0;

	uint32_t hash = index_hash_bytes(str, len);
	uint32_t id = find(s, hash, str, len);
	if (id)
		return id;

	if (s->count == 0)
		s->count = 1;
	if (s->count >= s->cap) {
		s->cap = s->cap ? s->cap * 2 : 64;
		s->by_id = mem_resize_array(s->by_id, s->cap, sizeof(*s->by_id));
	}
	id = s->count++;
	s->by_id[id] = (struct str){arena_strndup(&s->bytes, str, len), (uint32_t)len};
	index_put(&s->index, hash, id);
	return id;
}

const char *string_pool_get(const struct string_pool *s, uint32_t id)
{
	return id && id < s->count ? s->by_id[id].bytes : "";
}

size_t string_pool_len(const struct string_pool *s, uint32_t id)
{
	return id && id < s->count ? s->by_id[id].len : 0;
}

size_t string_pool_bytes(const struct string_pool *s)
{
	return s->bytes.bytes + index_bytes(&s->index) + s->cap * sizeof(*s->by_id);
}

void string_pool_done(struct string_pool *s)
{
	index_done(&s->index);
	arena_done(&s->bytes);
	free(s->by_id);
	*s = (struct string_pool){};
}
