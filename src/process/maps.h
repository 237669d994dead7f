/*
 * maps: the executable mappings of one address space, sorted, never overlapping.
 *
 * Shared between a process and the children it forked until one of them changes its own.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define MAPS_MAX 16384 /* executable mappings of a process; more are not taken in, and counted */

struct mapping {
	uint64_t start, end;
	uint64_t offset;                    /* in the file */
	uint64_t device, inode, generation; /* 0: not known */
	uint32_t path;                      /* string of the process table, as mapped */
	uint32_t file;                      /* of struct mapped_files; 0: not looked up yet */
	uint32_t unwind_file;               /* the unwinder's own note */
	bool generated; /* looked up, and a file by name only: code that was made at run time */
};

struct maps {
	unsigned refs;
	uint64_t version; /* another one when a mapping changes; no two sets ever have the same */
	size_t count, cap;
	uint64_t dropped; /* at MAPS_MAX */
	struct mapping *list;
};

struct maps *maps_new(void);
struct maps *maps_ref(struct maps *m);
void maps_unref(struct maps *m); /* NULL is fine */
struct maps *maps_copy(const struct maps *m);
struct maps *maps_own(struct maps *m); /* m itself, or a copy when others share it; takes m */

void maps_remove(struct maps *m, uint64_t start, uint64_t end);

/* Whether all of it is one mapping without a file. */
bool maps_is_anonymous(const struct maps *m, uint64_t start, uint64_t end);

/* Whether a mapping would take the place of one of another file, or of another part of it. */
bool maps_replaces(const struct maps *m, const struct mapping *new);

/* Puts a mapping in; what it covers of others goes. */
void maps_insert(struct maps *m, const struct mapping *new);
struct mapping *maps_find(const struct maps *m, uint64_t addr); /* NULL: not mapped */
