/*
 * symtab: where the functions of one file lie, 12 bytes each.
 *
 * Addresses are kept relative to the file's lowest executable one and names as offsets into their
 * string table, which stays in the file. Sources are added one after another, then symtab_finish()
 * sorts them and decides between those that start at one address:
 *
 *	sized before unsized; Go's own table, then global and weak, then local, then untyped;
 *	those that are left are aliases, kept side by side: who reads the names chooses
 *
 * A function without a size reaches to the next one or to the end of its section at most, unless it
 * lies inside a sized one: then it is a label, and dropped. Bounded by `max`. Embedded.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "process/elf_file.h"

enum symtab_rank { SYMTAB_GO, SYMTAB_GLOBAL, SYMTAB_LOCAL, SYMTAB_UNTYPED };

struct symtab_entry {
	uint32_t start;       /* above symtab.base */
	uint32_t name;        /* offset in the names of `source` */
	uint32_t size : 26;   /* of code; longer functions are cut */
	uint32_t guessed : 1; /* the file tells no size */
	uint32_t source : 3;
	uint32_t rank : 2;
};

struct symtab {
	uint64_t base;
	struct symtab_entry *entries;
	uint32_t count, cap, max;
	uint64_t dropped;            /* past `max`, or not representable */
	const struct elf_file *text; /* borrowed until symtab_finish: whose segments count */
};

struct symtab_hit {
	uint32_t first, count; /* entries that start where the function does */
	uint64_t start;
	uint64_t from, to; /* addresses with the same answer */
	bool guessed;      /* it has no size: who asks must see if it reaches so far */
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

/* False: no function lies there, and *ret has only from and to. */
bool symtab_find(const struct symtab *t, uint64_t vaddr, struct symtab_hit *ret);
size_t symtab_bytes(const struct symtab *t);
