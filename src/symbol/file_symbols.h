/*
 * file_symbols: all that names the functions of one file, loaded.
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
 *or of the next one; nor, where that has no word, beyond the padding before the next (padding.h).
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

struct file_symbols;

struct file_symbols_source {
	int fd;          /* borrowed, and read from until file_symbols_free(); -1: mem */
	const void *mem; /* borrowed as well */
	size_t mem_size;
	const char *path, *root; /* where to look for debug files; either may be NULL */
};

struct file_symbols_hit {
	uint64_t start; /* of the function; a virtual address */
	bool plt;       /* a stub that calls it */
	struct symtab_hit in_table;
	uint64_t name; /* where in the file it stands; 0: as in_table says */
};

/*
 * 0, or why the file cannot be read (elf_file_init). A file that can be, but has no symbols, is an
 * object that finds nothing. At most `max_symbols` are kept.
 */
int file_symbols_open(const struct file_symbols_source *source, uint32_t max_symbols,
		      struct file_symbols **ret);
void file_symbols_free(struct file_symbols *o);

const struct elf_file *file_symbols_elf(const struct file_symbols *o); /* borrowed */
size_t file_symbols_bytes(const struct file_symbols *o);
uint32_t file_symbols_count(const struct file_symbols *o);
uint64_t file_symbols_dropped(const struct file_symbols *o); /* symbols that did not fit */
int file_symbols_fds(const struct file_symbols *o);          /* descriptors that it holds itself */
int file_symbols_debug_error(
	const struct file_symbols *o); /* why a debug file is no use; 0: none there */

/* 0; -ENOENT, with from and to of in_table only. */
int file_symbols_find(struct file_symbols *o, uint64_t vaddr, struct file_symbols_hit *ret);

/*
 * Where a function without a name starts and ends: 0 or -ENOENT (see eh_frame_hdr.h, padding.h).
 * `none`: what file_symbols_find() said of vaddr.
 */
int file_symbols_bounds(struct file_symbols *o, uint64_t vaddr, const struct file_symbols_hit *none,
			uint64_t *ret_start, uint64_t *ret_end);

/* Reads the name of a hit and demangles it. 0, or -EIO when it cannot be read back. */
int file_symbols_name(const struct file_symbols *o, const struct file_symbols_hit *hit,
		      char ret[static DEMANGLE_MAX], enum frame_kind *ret_kind);
