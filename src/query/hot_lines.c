#include "query/hot_lines.h"

#include <stdbool.h>

#include "base/mem.h"

struct seen_line {
	struct hot_line at;
	uint32_t function;
	uint64_t weight;
};

void hot_lines_add(struct hot_lines *s, uint32_t function, struct hot_line at, uint64_t weight)
{
	uint32_t hash = index_hash2((uint64_t)function << 32 | at.line, at.source), id;

	INDEX_EACH(&s->index, hash, id) {
		struct seen_line *one = &s->seen[id];
		if (one->function == function && one->at.line == at.line &&
		    one->at.source == at.source) {
			one->weight += weight;
			return;
		}
	}
	if (!s->count)
		s->count = 1;
	MEM_GROW(s->seen, s->count, s->cap);
	s->seen[s->count] = (struct seen_line){at, function, weight};
	index_put(&s->index, hash, s->count++);
}

void hot_lines_done(struct hot_lines *s)
{
	free(s->seen);
	index_done(&s->index);
	*s = (struct hot_lines){};
}

static bool is_before(const struct seen_line *a, const struct seen_line *b)
{
	if (a->weight != b->weight)
		return a->weight > b->weight;
	return a->at.line != b->at.line ? a->at.line < b->at.line : a->at.source < b->at.source;
}

struct hot_line *hot_lines_most(const struct hot_lines *s, uint32_t functions)
{
	if (!s->count)
		return NULL;
	CLEANUP(freep) uint32_t *best = mem_alloc_array(functions, sizeof(*best));
	struct hot_line *lines = mem_alloc_array(functions, sizeof(*lines));

	for (uint32_t i = 1; i < s->count; i++) {
		uint32_t *of = &best[s->seen[i].function];
		if (!*of || is_before(&s->seen[i], &s->seen[*of]))
			*of = i;
	}
	for (uint32_t f = 0; f < functions; f++)
		if (best[f])
			lines[f] = s->seen[best[f]].at;
	return lines;
}
