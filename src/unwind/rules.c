#include "unwind/rules.h"

#include "base/mem.h"

static uint32_t hash_of(const struct unwind_rule *rule)
{
	uint64_t w[2] = {};

	memcpy(w, rule, sizeof(*rule));
	return index_hash2(w[0], w[1]);
}

static bool same(const struct unwind_rule *a, const struct unwind_rule *b)
{
	return memcmp(a, b, sizeof(*a)) == 0; /* padding is an explicit member */
}

void rules_init(struct rules *r)
{
	*r = (struct rules){.file_end = 2};
	MEM_GROW(r->all, r->count, r->cap);
	r->all[r->count++] = (struct unwind_rule){.cfa = UNWIND_UNKNOWN};
	rules_put(r, (struct unwind_rule){.cfa = UNWIND_UNSUPPORTED});
}

void rules_done(struct rules *r)
{
	free(r->all);
	index_done(&r->index);
	*r = (struct rules){};
}

void rules_begin_file(struct rules *r)
{
	r->file_end = MIN(r->count + RULES_PER_FILE, (uint32_t)UNWIND_RULES_MAX);
}

uint16_t rules_put(struct rules *r, struct unwind_rule rule)
{
	uint32_t hash = hash_of(&rule), id;

	if (same(&rule, &r->all[RULES_UNKNOWN]))
		return RULES_UNKNOWN;
	INDEX_EACH(&r->index, hash, id)
		if (same(&rule, &r->all[id]))
			return (uint16_t)id;
	if (r->count >= r->file_end) {
		r->refused++;
		return RULES_UNSUPPORTED;
	}
	MEM_GROW(r->all, r->count, r->cap);
	r->all[r->count] = rule;
	index_put(&r->index, hash, r->count);
	return (uint16_t)r->count++;
}
