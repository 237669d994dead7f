/*
 * gopclntab: the function table that every Go program carries for its own stack traces, stripped
 * or not. Go 1.2 to 1.15, 1.16, 1.18 and 1.20 each laid it out differently.
 *
 * Only the pairs (address, where the function's record lies) are read at load; the record and the
 * name are read when somebody asks for the name.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "symbol/elf_file.h"
#include "symbol/symtab.h"

struct gopclntab {             /* embedded; zero-initialised: none */
	uint64_t offset, size; /* of the table in the file */
	uint32_t funcs;        /* functions; 0: no table */
	uint32_t entry_size;   /* of one pair */
	uint32_t name_field;   /* offset of the name's offset in a function's record */
	uint64_t pairs;        /* offsets in the file: the pairs, */
	uint64_t records;      /* what their second halves count from, */
	uint64_t names;        /* and what names count from */
	uint64_t text;         /* what addresses count from; 0 in old tables */
};

/* 0; -ENOENT when the file has none; -EINVAL when what looks like one makes no sense. */
int gopclntab_init(struct gopclntab *g, const struct elf_file *e);

/* Adds its functions, as SYMTAB_GO; an entry's name is for gopclntab_name(). 0 or -EIO. */
int gopclntab_add(const struct gopclntab *g, const struct elf_file *e, struct symtab *t,
		  unsigned source);

/* Where in the file the name starts, or 0. */
uint64_t gopclntab_name(const struct gopclntab *g, const struct elf_file *e, uint32_t name);
