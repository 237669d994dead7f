#include "query/places.h"

#include <stdbool.h>

#include "base/mem.h"

struct seen_place {
	struct place at;
	uint32_t function;
	uint64_t weight;
};

void places_add(struct places *ps, uint32_t function, struct place at, uint64_t weight)
{
	uint32_t hash = index_hash2((uint64_t)function << 32 | at.line, at.source), id;

	INDEX_EACH(&ps->index, hash, id) {
		struct seen_place *s = &ps->seen[id];
		if (s->function == function && s->at.line == at.line && s->at.source == at.source) {
			s->weight += weight;
			return;
		}
	}
	if (!ps->count)
		ps->count = 1;
	MEM_GROW(ps->seen, ps->count, ps->cap);
	ps->seen[ps->count] = (struct seen_place){at, function, weight};
	index_put(&ps->index, hash, ps->count++);
}

void places_done(struct places *ps)
{
	free(ps->seen);
	index_done(&ps->index);
	*ps = (struct places){};
}

static bool is_before(const struct seen_place *a, const struct seen_place *b)
{
	if (a->weight != b->weight)
		return a->weight > b->weight;
	return a->at.line != b->at.line ? a->at.line < b->at.line : a->at.source < b->at.source;
}

struct place *places_most(const struct places *ps, uint32_t functions)
{
	if (!ps->count)
		return NULL;
	CLEANUP(freep) uint32_t *best = mem_alloc_array(functions, sizeof(*best));
	struct place *places = mem_alloc_array(functions, sizeof(*places));

	for (uint32_t i = 1; i < ps->count; i++) {
		uint32_t *of = &best[ps->seen[i].function];
		if (!*of || is_before(&ps->seen[i], &ps->seen[*of]))
			*of = i;
	}
	for (uint32_t f = 0; f < functions; f++)
		if (best[f])
			places[f] = ps->seen[best[f]].at;
	return places;
}
