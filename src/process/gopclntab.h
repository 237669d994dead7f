/*
 * gopclntab: the function table that every Go program carries for its own stack traces, stripped
 * or not. Go 1.2 to 1.15, 1.16, 1.18 and 1.20 each laid it out differently.
 *
 * It is a list of pairs (address, where the function's record lies); records and names are read
 * when somebody asks for them.
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
	uint32_t flag_field;   /* offset of its flags; 0: it has none */
	uint64_t pairs;        /* offsets in the file: the pairs, */
	uint64_t records;      /* what their second halves count from, */
	uint64_t names;        /* what names count from, */
	uint64_t values;       /* and what tables of values by address count from */
	uint64_t text;         /* what addresses count from; 0 in old tables */
};

/* 0; -ENOENT when the file has none; -EINVAL when what looks like one makes no sense. */
int gopclntab_init(struct gopclntab *g, const struct elf_file *e);

/* Not 0: stop, and return that. */
typedef int gopclntab_fn(void *arg, uint64_t start, uint64_t size, uint64_t record);

/*
 * Each function that lies in the text and has a size; in the order of the table, which a file that
 * lies may have in any order. 0, -EIO, or what `fn` returned.
 */
int gopclntab_each(const struct gopclntab *g, const struct elf_file *e, gopclntab_fn *fn,
		   void *arg);

/* Where in the file the name starts, or 0. */
uint64_t gopclntab_name(const struct gopclntab *g, const struct elf_file *e, uint64_t record);

enum { /* as Go 1.17 and later say them */
       GO_TOP_FRAME = 1,
       GO_WRITES_SP = 2, /* in a way that its table of stack depths does not show */
       GO_ASSEMBLY = 4,
       GO_FLAGS_UNKNOWN = 0x100, /* an older table */
};

struct gopclntab_func {
	unsigned flags;
	/* Where in the file its stack depths are, and the most there is of them; 0: none, a
	 * function of C that Go's own linker put in */
	uint64_t depths, depths_len;
};

/* 0, or -EIO when the record makes no sense. */
int gopclntab_func(const struct gopclntab *g, const struct elf_file *e, uint64_t record,
		   struct gopclntab_func *ret);
