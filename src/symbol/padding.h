/*
 * padding: guesses the bounds of functions from the padding between them, where no table has them.
 *
 * Assembly often has neither sizes nor call frame information (libx264 has 400 KB of it after one
 * symbol). But functions are aligned to 16 bytes, and execution cannot run from one into the next:
 * the code before a function ends in a return, or in a jump backwards or far away, followed by nops
 * or int3. Such a spot is taken for a boundary. A function may contain one as well (a loop after a
 * return) and then counts as two; but the code of several functions is never given one name. x86
 * only. Nothing is cached.
 */
#pragma once

#include <stdint.h>

#include "process/elf_file.h"

#define PADDING_REACH (16u << 10) /* bytes that are searched in each direction */

/*
 * The boundaries before and after vaddr. `low` and `high` limit the search, and count as boundaries
 * if they are within reach. 0, or -ENOENT: none before vaddr within reach, or the code is
 * unreadable.
 */
int padding_find(const struct elf_file *e, uint64_t vaddr, uint64_t low, uint64_t high,
		 uint64_t *ret_start, uint64_t *ret_end);

/* The first boundary after vaddr; if there is none, `high` or the end of the search. */
uint64_t padding_end(const struct elf_file *e, uint64_t vaddr, uint64_t high);
