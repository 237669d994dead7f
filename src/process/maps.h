/*
 * maps: the executable mappings of one address space, sorted, never overlapping.
 *
 * Copy on write: a process and the children it forked share one until either changes its own.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define MAPS_MAX 16384 /* executable mappings of a process; more are dropped and counted */

struct mapping {
	uint64_t start, end;
	uint64_t offset;                    /* in the file */
	uint64_t device, inode, generation; /* 0: not known */
	uint32_t path;                      /* string of struct processes: the path as mapped */
	uint32_t file;        /* id in struct mapped_files; 0: none, or not looked up yet */
	uint32_t unwind_file; /* used by unwind/unwinder.c */
	bool generated;       /* looked up, and not a real file: code that a JIT wrote to a memfd */
};

struct maps {
	unsigned refs;
	uint64_t version; /* changes with every change; no two maps ever have the same */
	size_t count, cap;
	struct mapping *list;
};

struct maps *maps_new(void);
struct maps *maps_ref(struct maps *m);
void maps_unref(struct maps *m); /* NULL is fine */
struct maps *maps_copy(const struct maps *m);
struct maps *
maps_own(struct maps *m); /* for changing: m itself, or a copy if it is shared; takes m */

void maps_remove(struct maps *m, uint64_t start, uint64_t end);

/* Whether one mapping without a file covers the whole range. */
bool maps_is_anonymous(const struct maps *m, uint64_t start, uint64_t end);

/* Whether `new` would overlap a mapping of another file, or of another part of its file. */
bool maps_replaces(const struct maps *m, const struct mapping *new);

/* Adds a mapping; what it overlaps of others is removed. False: it was dropped (MAPS_MAX). */
bool maps_insert(struct maps *m, const struct mapping *new);
struct mapping *maps_find(const struct maps *m, uint64_t addr); /* NULL: not mapped */
