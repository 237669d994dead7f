#include "base/mem.h"

#include <stdarg.h>
#include <sys/mman.h>

#define ARENA_BLOCK (64 * 1024)
#define PAGE_LARGE  ((uintptr_t)2 << 20)

struct arena_block {
	struct arena_block *next;
	size_t size;
	char data[];
};

static void *check(void *p, size_t size)
{
	if (!p && size) {
		fprintf(stderr, "smolder: out of memory (%zu bytes requested)\n", size);
		abort();
	}
	return p;
}

/* Large arrays are accessed at random: huge pages save a third of the cost. */
static void *prefer_large_pages(void *p, size_t count, size_t size)
{
	uintptr_t from = ((uintptr_t)p + PAGE_LARGE - 1) & ~(PAGE_LARGE - 1);
	uintptr_t to = ((uintptr_t)p + count * size) & ~(PAGE_LARGE - 1);

	if (p && count * size >= 2 * PAGE_LARGE && from < to)
		madvise((void *)from, to - from, MADV_HUGEPAGE); /* optional: failure is ignored */
	return p;
}

void *mem_alloc(size_t size)
{
	return check(calloc(1, size), size);
}

void *mem_alloc_array(size_t count, size_t size)
{
	return prefer_large_pages(check(calloc(count, size), count ? size : 0), count, size);
}

void *mem_resize_array(void *p, size_t count, size_t size)
{
	return prefer_large_pages(check(reallocarray(p, count, size), count ? size : 0), count,
				  size);
}

void *mem_dup(const void *p, size_t size)
{
	void *copy = check(malloc(size), size);

	if (size)
		memcpy(copy, p, size);
	return copy;
}

char *mem_strndup(const char *s, size_t len)
{
	char *copy = check(malloc(len + 1), len + 1);

	memcpy(copy, s, len);
	copy[len] = '\0';
	return copy;
}

char *mem_strdup(const char *s)
{
	return mem_strndup(s, strlen(s));
}

char *mem_printf(const char *fmt, ...)
{
	va_list ap;
	char *s = NULL;

	va_start(ap, fmt);
	int n = vasprintf(&s, fmt, ap);
	va_end(ap);
	return check(n < 0 ? NULL : s, 1);
}

static char *arena_take(struct arena *a, size_t size, size_t align)
{
	if (a->head) {
		size_t at = (a->used + align - 1) & ~(align - 1);
		if (at <= a->head->size && size <= a->head->size - at) {
			a->used = at + size;
			return a->head->data + at;
		}
	}

	size_t room = MAX(size, (size_t)ARENA_BLOCK - sizeof(struct arena_block));
	struct arena_block *b = check(malloc(sizeof(*b) + room), room);
	b->next = a->head;
	b->size = room;
	a->head = b;
	a->used = size;
	a->bytes += sizeof(*b) + room;
	return b->data;
}

void *arena_alloc(struct arena *a, size_t size)
{
	return arena_take(a, size, 8);
}

void *arena_dup(struct arena *a, const void *p, size_t size)
{
	void *copy = arena_alloc(a, size);

	if (size)
		memcpy(copy, p, size);
	return copy;
}

char *arena_strndup(struct arena *a, const char *s, size_t len)
{
	char *copy = arena_take(a, len + 1, 1);

	memcpy(copy, s, len);
	copy[len] = '\0';
	return copy;
}

void arena_undo(struct arena *a, void *last)
{
	a->used = (size_t)((char *)last - a->head->data);
}

void arena_reset(struct arena *a)
{
	struct arena_block *keep = a->head;
	if (!keep)
		return;

	struct arena rest = {.head = keep->next};
	arena_done(&rest);
	keep->next = NULL;
	*a = (struct arena){.head = keep, .bytes = sizeof(*keep) + keep->size};
}

void arena_done(struct arena *a)
{
	for (struct arena_block *b = a->head, *next; b; b = next) {
		next = b->next;
		free(b);
	}
	*a = (struct arena){};
}
