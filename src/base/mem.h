/*
 * mem: allocation that never fails, and cleanup by scope.
 *
 * When memory runs out, these functions print one line and abort, so callers need not check. Sizes
 * that come from outside must be capped by the caller.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define ARRAY_SIZE(a) (sizeof(a) / sizeof((a)[0]))
#define MIN(a, b)     ((a) < (b) ? (a) : (b))
#define MAX(a, b)     ((a) > (b) ? (a) : (b))

#define NOT_NULL __attribute__((returns_nonnull))

NOT_NULL void *mem_alloc(size_t size); /* zeroed; caller frees */
NOT_NULL void *mem_alloc_array(size_t count, size_t size);
void *mem_resize_array(void *p, size_t count, size_t size); /* new bytes are not zeroed */
void *mem_dup(const void *p, size_t size);
char *mem_strdup(const char *s);
char *mem_strndup(const char *s, size_t len);
__attribute__((format(printf, 1, 2))) char *mem_printf(const char *fmt, ...);

/* Ensures space for one more element; doubles the capacity of a full array. */
#define MEM_GROW(array, count, cap)                                                                \
	do {                                                                                       \
		if ((count) >= (cap)) {                                                            \
			(cap) = (cap) ? (cap)*2 : 16;                                              \
			(array) = mem_resize_array((array), (cap), sizeof(*(array)));              \
		}                                                                                  \
	} while (0)

/*
 * Cleanup by scope: CLEANUP(freep) char *s = …; frees it, unless TAKE_PTR(s) passes it on.
 */
#define CLEANUP(fn) __attribute__((cleanup(fn)))

static inline void freep(void *p)
{
	free(*(void **)p);
}

static inline void fd_closep(const int *fd)
{
	if (*fd >= 0)
		close(*fd);
}

static inline void file_closep(FILE **f)
{
	if (*f)
		fclose(*f);
}

/* Defines destroyp(), for CLEANUP, from a destructor that accepts NULL. */
#define DEFINE_CLEANUP(type, destroy)                                                              \
	static inline void destroy##p(type *p)                                                     \
	{                                                                                          \
		destroy(*p);                                                                       \
	}

#define TAKE_PTR(p)                                                                                \
	({                                                                                         \
		__typeof__(p) take_ = (p);                                                         \
		(p) = NULL;                                                                        \
		take_;                                                                             \
	})
#define TAKE_FD(fd)                                                                                \
	({                                                                                         \
		int take_ = (fd);                                                                  \
		(fd) = -1;                                                                         \
		take_;                                                                             \
	})

/*
 * An arena: many small allocations that are freed together. Embedded; zero-initialised is empty.
 */
struct arena {
	struct arena_block *head;
	size_t used;  /* in head */
	size_t bytes; /* allocated from the system */
};

void *arena_alloc(struct arena *a, size_t size); /* aligned to 8, not zeroed */
void *arena_dup(struct arena *a, const void *p, size_t size);
char *arena_strndup(struct arena *a, const char *s, size_t len); /* not aligned; NUL-terminated */
void arena_undo(struct arena *a, void *last); /* frees the latest arena_alloc() */
void arena_reset(struct arena *a);            /* empties it, but keeps one block */
void arena_done(struct arena *a);
