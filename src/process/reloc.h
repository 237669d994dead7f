/*
 * reloc: finds the relocation that fills a slot, and the function that a PLT stub calls. x86-64.
 */
#pragma once

#include <stdint.h>

#include "process/elf_file.h"

struct reloc {
	uint32_t type, symbol; /* symbol: index in .dynsym */
	uint64_t addend;
};

/* The relocation of the section `name` that writes to `slot`: 0 or -ENOENT. */
int reloc_find(const struct elf_file *e, const char *name, uint64_t slot, struct reloc *ret);

struct plt_stub {
	uint64_t start;
	uint64_t name;   /* offset in the file of the called function's name; 0: it has none, */
	uint64_t target; /* and this resolver function chooses what is called (an ifunc) */
};

/*
 * The stub of .plt, .plt.sec or .plt.got that contains vaddr: 0 or -ENOENT. Stubs are decoded only
 * on demand, so that loading a file's symbols need not read its relocations.
 */
int plt_find(const struct elf_file *e, uint64_t vaddr, struct plt_stub *ret);
