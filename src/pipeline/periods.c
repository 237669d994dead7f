#include "pipeline/periods.h"

#include "base/index.h"
#include "base/mem.h"

#define BUCKETS 4096 /* a thread has one or two, and most machines some thousand threads */

struct periods {
	struct period *list; /* [0] is not used: 0 ends a chain */
	uint32_t used, cap;  /* of the list, the free ones as well */
	uint32_t free;       /* the first of a chain */
	uint32_t count, max;
	uint32_t buckets[BUCKETS];
};

struct periods *periods_new(uint32_t max)
{
	struct periods *p = mem_alloc(sizeof(*p));

	p->max = max;
	p->used = 1;
	return p;
}

void periods_free(struct periods *p)
{
	if (p)
		free(p->list);
	free(p);
}

static uint32_t *bucket_of(struct periods *p, uint32_t tid)
{
	return &p->buckets[index_hash2(tid, 0) % BUCKETS];
}

static uint32_t take_free(struct periods *p)
{
	uint32_t id = p->free;

	if (id) {
		p->free = p->list[id].next;
		return id;
	}
	MEM_GROW(p->list, p->used, p->cap);
	return p->used++;
}

struct period *periods_get(struct periods *p, uint32_t tid, uint64_t began)
{
	uint32_t *bucket = bucket_of(p, tid);

	for (uint32_t id = *bucket; id; id = p->list[id].next)
		if (p->list[id].tid == tid && p->list[id].began == began)
			return &p->list[id];
	if (p->count >= p->max)
		return NULL;
	uint32_t id = take_free(p);
	p->list[id] = (struct period){.began = began, .tid = tid, .next = *bucket};
	*bucket = id;
	p->count++;
	return &p->list[id];
}

void periods_remove(struct periods *p, struct period *x)
{
	uint32_t id = (uint32_t)(x - p->list), *at = bucket_of(p, x->tid);

	while (*at != id)
		at = &p->list[*at].next;
	*at = x->next;
	x->next = p->free;
	p->free = id;
	p->count--;
}

void periods_flush(struct periods *p, period_fn *fn, void *ctx)
{
	for (uint32_t i = 0; i < BUCKETS; i++)
		while (p->buckets[i]) {
			struct period *x = &p->list[p->buckets[i]];
			fn(ctx, x);
			periods_remove(p, x);
		}
}

uint32_t periods_count(const struct periods *p)
{
	return p->count;
}
