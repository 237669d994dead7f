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

#include "process/elf_file.h"

struct gopclntab {             /* embedded; zero-initialised: none */
	uint64_t offset, size; /* of the table in the file */
	uint32_t funcs;        /* functions; 0: no table */
	uint32_t entry_size;   /* of one pair */
	uint32_t name_field;   /* offset of the name's offset in a function's record */
	uint64_t pairs;        /* offsets in the file: the pairs, */
	uint64_t records;      /* what their second halves count from, */
	uint64_t names;        /* and what names count from */
	uint64_t text;         /* what addresses count from; 0 in old tables */
	uint64_t values;       /* from Go 1.18 on: what offsets of tables of values count from, */
	uint32_t flag_field;   /* and the offset of the flags in a function's record; else 0 */
};

#define GOPCLNTAB_PCSP_FIELD 16 /* from Go 1.18 on: the offset of how far rsp has moved */

/* 0; -ENOENT when the file has none; -EINVAL when what looks like one makes no sense. */
int gopclntab_init(struct gopclntab *g, const struct elf_file *e);

/*
 * Calls `fn` for each function that lies in the text; its record begins at `record`, counted from
 * g->records. 0, -EIO, or what `fn` returned that is not 0.
 */
typedef int gopclntab_fn(void *arg, uint64_t start, uint64_t size, uint64_t record);
int gopclntab_each(const struct gopclntab *g, const struct elf_file *e, gopclntab_fn *fn,
		   void *arg);

/* Where in the file the name of the function with that record starts, or 0. */
uint64_t gopclntab_name(const struct gopclntab *g, const struct elf_file *e, uint32_t record);
