/*
 * object: all that names the functions of one file, loaded.
 *
 * Built from the best sources that there are, merged:
 *
 *	.symtab of the file; if it was stripped, of its debug file or of .gnu_debugdata
 *	.dynsym, unless .symtab holds it too
 *	.gopclntab of Go programs
 *	PLT stubs, decoded when an address is in one
 *	a program's entry, which is _start if nothing else names it
 *
 * A function whose size is not told does not reach beyond what the table for exceptions says of it,
 *or of the next one; nor, where that has no word, beyond the padding before the next (gaps.h).
 *
 * Names stay in the file until asked for. Not thread-safe.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "symbol/demangle.h"
#include "process/elf_file.h"
#include "symbol/symbol.h"
#include "symbol/symtab.h"

struct object;

struct object_source {
	int fd;          /* borrowed, and read from as long as the object lives; -1: mem */
	const void *mem; /* borrowed as well */
	size_t mem_size;
	const char *path, *root; /* where to look for debug files; either may be NULL */
};

struct object_hit {
	uint64_t start; /* of the function; a virtual address */
	bool plt;       /* a stub that calls it */
	struct symtab_hit in_table;
	uint64_t name; /* where in the file it stands; 0: as in_table says */
};

/*
 * 0, or why the file cannot be read (elf_file_init). A file that can be, but has no symbols, is an
 * object that finds nothing. At most `max_symbols` are kept.
 */
int object_open(const struct object_source *source, uint32_t max_symbols, struct object **ret);
void object_free(struct object *o);

const struct elf_file *object_elf(const struct object *o); /* borrowed */
size_t object_bytes(const struct object *o);
uint32_t object_symbols(const struct object *o);
uint64_t object_dropped(const struct object *o); /* symbols that did not fit */
int object_fds(const struct object *o);          /* descriptors that it holds itself */
int object_debug_error(const struct object *o);  /* why a debug file is no use; 0: none there */

/* 0; -ENOENT, with from and to of in_table only. */
int object_find(struct object *o, uint64_t vaddr, struct object_hit *ret);

/*
 * Where a function without a name starts and ends: 0 or -ENOENT (see fdes.h, gaps.h). `none`: what
 * object_find() said of vaddr.
 */
int object_function(struct object *o, uint64_t vaddr, const struct object_hit *none,
		    uint64_t *ret_start, uint64_t *ret_end);

/* Reads the name of a hit and demangles it. 0, or -EIO when it cannot be read back. */
int object_name(const struct object *o, const struct object_hit *hit, char ret[static DEMANGLE_MAX],
		enum frame_kind *ret_kind);
