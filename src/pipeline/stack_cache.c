#include "pipeline/stack_cache.h"

#include <stdlib.h>
#include <string.h>

#include "base/mem.h"

#define SETS 8192u /* a power of two; 512 KB */
#define WAYS 4u    /* a set fills a cache line */

struct set {
	struct cached_stack stacks[WAYS]; /* the one met last first */
};

_Static_assert(sizeof(struct set) == 64, "a lookup reads one cache line");

struct stack_cache {
	struct set *sets;
};

struct stack_cache *stack_cache_new(void)
{
	struct stack_cache *k = mem_alloc(sizeof(*k));

	if (posix_memalign((void **)&k->sets, sizeof(struct set), SETS * sizeof(struct set)))
		abort();
	memset(k->sets, 0, SETS * sizeof(struct set));
	return k;
}

void stack_cache_free(struct stack_cache *k)
{
	if (!k)
		return;
	free(k->sets);
	free(k);
}

/* Makes room at the front of a set, over the stack at `way`. */
static struct cached_stack *shift(struct set *s, unsigned way)
{
	memmove(&s->stacks[1], &s->stacks[0], way * sizeof(s->stacks[0]));
	return &s->stacks[0];
}

const struct cached_stack *stack_cache_find(struct stack_cache *k, uint64_t hash)
{
	struct set *s = &k->sets[hash % SETS];

	for (unsigned i = 0; i < WAYS; i++) {
		struct cached_stack found = s->stacks[i];
		if (found.hash != hash)
			continue;
		struct cached_stack *front = shift(s, i);
		*front = found;
		return front;
	}
	return NULL;
}

void stack_cache_put(struct stack_cache *k, const struct cached_stack *s)
{
	*shift(&k->sets[s->hash % SETS], WAYS - 1) = *s;
}

void stack_cache_expect(struct stack_cache *k, uint64_t hash)
{
	__builtin_prefetch(&k->sets[hash % SETS], 1);
}
