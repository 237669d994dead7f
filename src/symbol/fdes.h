/*
 * fdes: where a function starts, in files whose symbols are gone.
 *
 * Programs keep a sorted table of their functions for exceptions (.eh_frame_hdr), stripped or not.
 * It is searched in the file, a few small reads a lookup; nothing is kept: who asks remembers.
 */
#pragma once

#include <stdint.h>

#include "process/elf_file.h"

/* The start of the function around vaddr. 0, or -ENOENT: none is known to lie there. */
int fdes_find(const struct elf_file *e, uint64_t vaddr, uint64_t *ret_start);
