/*
 * padding: where functions begin and end that nothing tells of, by the padding between them.
 *
 * Assembly often has neither sizes nor call frame information (libx264 has 400 KB of it behind one
 * symbol). But functions are aligned to 16 bytes, and what is before one cannot be run into: it
 * ends in a return or a jump that goes back or far away, and what is left is filled with nops or
 * int3. Such a place is a boundary. Inside a function there may be some, too (a loop behind a
 * return), so that it counts as two; what is never made by this is one name for the code of many.
 * x86 only. Nothing is kept.
 */
#pragma once

#include <stdint.h>

#include "process/elf_file.h"

#define PADDING_REACH (16u << 10) /* bytes that are looked through, each way */

/*
 * The boundaries around vaddr, both between `low` and `high`, which count as such if they are
 * within reach. 0, or -ENOENT: there is none before it within reach, or the code cannot be read.
 */
int padding_find(const struct elf_file *e, uint64_t vaddr, uint64_t low, uint64_t high,
		 uint64_t *ret_start, uint64_t *ret_end);

/* The first boundary after vaddr; if there is none, `high` or the end of its reach. */
uint64_t padding_end(const struct elf_file *e, uint64_t vaddr, uint64_t high);
