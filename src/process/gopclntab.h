/*
 * gopclntab: the function table that every Go program contains for its own stack traces, stripped
 * or not. The layout changed in Go 1.16, 1.18 and 1.20.
 *
 * It is a list of pairs (address, offset of the function's record). Records and names are read on
 * demand.
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
	uint32_t name_field;   /* where in a record the name's offset is */
	uint32_t flag_field;   /* where in a record the flags are; 0: no flags */
	/* Offsets in the file: */
	uint64_t pairs;
	uint64_t records; /* what offsets of records are relative to */
	uint64_t names;   /* what offsets of names are relative to */
	uint64_t values;  /* what offsets of per-address tables (stack depths) are relative to */
	uint64_t text;    /* virtual address that addresses are relative to; 0 in old tables */
};

/* 0; -ENOENT when the file has no such table; -EINVAL when it is malformed. */
int gopclntab_init(struct gopclntab *g, const struct elf_file *e);

/* A return value other than 0 ends gopclntab_each(), which returns it. */
typedef int gopclntab_fn(void *arg, uint64_t start, uint64_t size, uint64_t record);

/*
 * Calls `fn` for each function that has a size and lies in an executable segment, in the order of
 * the table (a hostile file may have any order). 0, -EIO, or what `fn` returned.
 */
int gopclntab_each(const struct gopclntab *g, const struct elf_file *e, gopclntab_fn *fn,
		   void *arg);

/* The offset of the name in the file, or 0. */
uint64_t gopclntab_name(const struct gopclntab *g, const struct elf_file *e, uint64_t record);

enum { /* the flags of Go 1.17 and later */
       GO_TOP_FRAME = 1,
       GO_WRITES_SP = 2, /* in ways that its stack depths do not show */
       GO_ASSEMBLY = 4,
       GO_FLAGS_UNKNOWN = 0x100, /* an older table */
};

struct gopclntab_func {
	unsigned flags;
	/* Offset of its stack depths in the file, and their maximum size; 0: it has none, as a C
	 * function that Go's linker added */
	uint64_t depths, depths_len;
};

/* 0, or -EIO when the record is malformed. */
int gopclntab_func(const struct gopclntab *g, const struct elf_file *e, uint64_t record,
		   struct gopclntab_func *ret);
