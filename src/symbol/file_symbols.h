/*
 * file_symbols: the functions of one file, merged from the best sources that there are:
 *
 *	.symtab of the file or, if that was stripped, of its debug file or of .gnu_debugdata
 *	.dynsym, unless .symtab contains it
 *	.gopclntab of Go programs
 *	PLT stubs, decoded when an address is in one
 *	the entry point of a program: _start, if nothing else names it
 *
 * A function of unknown size ends where .eh_frame_hdr says, or where that has the next function;
 * if it has neither, at the padding before the next function (padding.h).
 *
 * Names stay in the file and are read on demand. Not thread-safe.
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
	const void *mem; /* borrowed, too */
	size_t mem_size;
	const char *path, *root; /* for finding debug files; either may be NULL */
	/*
	 * It is a separate debug file: there is no code in it. Then only its .symtab is read, and a
	 * function of unknown size is found at its first address alone.
	 */
	bool is_debug_file;
};

struct file_symbols_hit {
	uint64_t start; /* of the function; a virtual address */
	bool plt;       /* it is a PLT stub that calls the function */
	struct symtab_hit in_table;
	uint64_t name; /* offset of the name in the file; 0: use in_table */
};

/*
 * 0, or an error of elf_file_init(). A file without symbols is no error: nothing is found in it. At
 * most `max_symbols` are kept.
 */
int file_symbols_open(const struct file_symbols_source *source, uint32_t max_symbols,
		      struct file_symbols **ret);
void file_symbols_free(struct file_symbols *o);

const struct elf_file *file_symbols_elf(const struct file_symbols *o); /* borrowed */
size_t file_symbols_bytes(const struct file_symbols *o);
uint32_t file_symbols_count(const struct file_symbols *o);
uint64_t file_symbols_dropped(const struct file_symbols *o); /* symbols that did not fit */
int file_symbols_fds(const struct file_symbols *o);          /* descriptors that it has opened */
/* Why its debug file is not used; 0: it is used, or there is none. */
int file_symbols_debug_error(const struct file_symbols *o);

/* 0; or -ENOENT, with only `from` and `to` of in_table set. */
int file_symbols_find(struct file_symbols *o, uint64_t vaddr, struct file_symbols_hit *ret);

/*
 * The bounds of a function without a name (eh_frame_hdr.h, padding.h): 0 or -ENOENT. `none` is what
 * file_symbols_find() returned for vaddr.
 */
int file_symbols_bounds(struct file_symbols *o, uint64_t vaddr, const struct file_symbols_hit *none,
			uint64_t *ret_start, uint64_t *ret_end);

/* The demangled name of a hit: 0, or -EIO when it cannot be read. */
int file_symbols_name(const struct file_symbols *o, const struct file_symbols_hit *hit,
		      char ret[static DEMANGLE_MAX], enum frame_kind *ret_kind);
