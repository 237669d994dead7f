#include "clickhouse/content.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "base/pack.h"

void content_init(struct content *c, const struct profile *dict)
{
	*c = (struct content){.dict = dict};
}

void content_done(struct content *c)
{
	index_done(&c->stacks);
	index_done(&c->frames);
	free(c->known);
	*c = (struct content){};
}

static struct content_hash hash_of(const void *bytes, size_t len, uint64_t kind)
{
	struct content_hash ret;
	XXH128_canonical_t bigendian;

	XXH128_canonicalFromHash(&bigendian, XXH3_128bits_withSeed(bytes, len, kind));
	memcpy(ret.bytes, bigendian.digest, sizeof(ret.bytes));
	return ret;
}

enum { OF_FRAME = 1, OF_STACK, OF_SERIES };

static const struct content_known *find(const struct content *c, const struct index *in,
					uint32_t id)
{
	uint32_t at;

	INDEX_EACH(in, index_hash2(id, 0), at)
		if (c->known[at - 1].id == id)
			return &c->known[at - 1];
	return NULL;
}

static void keep(struct content *c, struct index *in, uint32_t id, struct content_hash hash)
{
	MEM_GROW(c->known, c->count, c->cap);
	c->known[c->count++] = (struct content_known){id, hash};
	index_put(in, index_hash2(id, 0), c->count);
}

static void put_string(struct pack *p, const struct profile *dict, uint32_t id)
{
	pack_str(p, id ? profile_str(dict, id) : "", id ? profile_str_len(dict, id) : 0);
}

/* Where its file lies is left out: the same file lies elsewhere on other machines. */
struct content_hash content_frame(struct content *c, uint32_t frame)
{
	const struct content_known *known = find(c, &c->frames, frame);
	const struct frame *f = &c->dict->frames[frame];
	const struct module *m = &c->dict->modules[f->module];
	struct pack text = {};

	if (known)
		return known->hash;
	put_string(&text, c->dict, f->name);
	put_string(&text, c->dict, f->module ? m->name : 0);
	put_string(&text, c->dict, f->module ? m->build_id : 0);
	put_string(&text, c->dict, f->source);
	pack_u64(&text, f->addr);
	pack_u64(&text, f->line);
	pack_u64(&text, f->start);
	pack_u64(&text, f->kind);
	struct content_hash hash = hash_of(text.bytes, text.len, OF_FRAME);
	pack_done(&text);
	keep(c, &c->frames, frame, hash);
	return hash;
}

struct content_hash content_stack(struct content *c, uint32_t stack)
{
	uint32_t todo[PROFILE_DEPTH_MAX];
	const struct content_known *known = NULL;
	struct content_hash at = {};
	size_t n = 0;

	for (; stack && !(known = find(c, &c->stacks, stack));
	     stack = c->dict->stacks[stack].parent)
		todo[n++] = stack;
	if (known)
		at = known->hash;
	while (n) {
		struct content_hash both[2] = {at,
					       content_frame(c, c->dict->stacks[todo[--n]].frame)};
		at = hash_of(both, sizeof(both), OF_STACK);
		keep(c, &c->stacks, todo[n], at);
	}
	return at;
}

/* Labels are sorted by the ids of their names, which differ between dictionaries: so by the names.
 */
struct content_hash content_series(const struct content *c, uint32_t series)
{
	const struct series *s = &c->dict->series[series];
	struct content_hash sum = {};

	for (uint32_t i = 0; i < s->count; i++) {
		struct pack text = {};
		put_string(&text, c->dict, s->labels[i].key);
		put_string(&text, c->dict, s->labels[i].value);
		struct content_hash one = hash_of(text.bytes, text.len, OF_SERIES);
		pack_done(&text);
		/* Names differ, so a sum tells sets apart, in any order. */
		unsigned carry = 0;
		for (size_t b = 0; b < sizeof(sum.bytes); b++) {
			carry += (unsigned)sum.bytes[b] + one.bytes[b];
			sum.bytes[b] = (uint8_t)carry;
			carry >>= 8;
		}
	}
	return hash_of(&sum, sizeof(sum), OF_SERIES);
}
