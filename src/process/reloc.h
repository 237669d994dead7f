/*
 * reloc: which relocation fills a slot, and which function a PLT stub calls. x86-64.
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
	uint64_t name;   /* where in the file the name of what it calls stands, or 0: */
	uint64_t target; /* it has none in .dynsym, and this function chooses what is called */
};

/*
 * The stub of .plt, .plt.sec or .plt.got around vaddr: 0 or -ENOENT. Nothing is kept: a stub is
 * decoded when asked for, so that loading a file need not read its relocations.
 */
int plt_find(const struct elf_file *e, uint64_t vaddr, struct plt_stub *ret);
