/*
 * symtab: a sorted table of the functions of one file, 12 bytes each.
 *
 * Addresses are relative to the file's lowest executable one; names are offsets into a string
 * table, which stays in the file. Symbols are added from one source after another, then
 * symtab_finish() sorts them and chooses between those with the same address:
 *
 *	those with a size first; then those of Go's own table, global and weak ones, local ones,
 *	untyped ones. Of what is left after that all are kept: they are aliases, and the caller
 *	chooses by name
 *
 * A function without a size ends at the next function or at the end of its section. If it is in the
 * middle of one with a size, it is a label and is dropped. At most `max` entries. Embedded.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "process/elf_file.h"

enum symtab_rank { SYMTAB_GO, SYMTAB_GLOBAL, SYMTAB_LOCAL, SYMTAB_UNTYPED };

struct symtab_entry {
	uint32_t start;       /* relative to symtab.base */
	uint32_t name;        /* offset in the string table of `source` */
	uint32_t size : 26;   /* in bytes; longer functions are cut */
	uint32_t guessed : 1; /* the size is not from the file */
	uint32_t source : 3;
	uint32_t rank : 2;
};

struct symtab {
	uint64_t base;
	struct symtab_entry *entries;
	uint32_t count, cap, max;
	uint64_t dropped;            /* over `max`, or out of range */
	const struct elf_file *text; /* borrowed until symtab_finish(): has the segments */
};

struct symtab_hit {
	uint32_t first, count; /* entries with the function's start: its aliases */
	uint64_t start;
	uint64_t from, to; /* range of addresses with the same answer */
	bool guessed;      /* its size is a guess, and may be too large */
};

void symtab_init(struct symtab *t, const struct elf_file *text, uint32_t max);
void symtab_done(struct symtab *t);

void symtab_add(struct symtab *t, uint64_t vaddr, uint64_t size, uint64_t name, unsigned source,
		enum symtab_rank rank);

/*
 * Adds the functions of a SHT_SYMTAB or SHT_DYNSYM section of `e` (which may be a debug file of
 * `text`). Names are offsets into the section that `symbols` links to. 0 or -EIO.
 */
int symtab_add_section(struct symtab *t, const struct elf_file *e, const Elf64_Shdr *symbols,
		       unsigned source);
void symtab_finish(struct symtab *t);

/* False: there is no function, and only `from` and `to` are set. */
bool symtab_find(const struct symtab *t, uint64_t vaddr, struct symtab_hit *ret);
size_t symtab_bytes(const struct symtab *t);
