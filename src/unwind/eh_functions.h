/*
 * eh_functions: where the function around an address begins, for files without symbols.
 *
 * Asks .eh_frame_hdr, the table by which exceptions find their handlers: a binary search in the
 * file, some twenty small reads, nothing kept. Thread-safe.
 */
#pragma once

#include <stdint.h>

#include "process/elf_file.h"

/* 0; -ENOENT when no function is known there; -EIO. *ret_end may be NULL. */
int eh_functions_find(const struct elf_file *e, uint64_t vaddr, uint64_t *ret_start,
		      uint64_t *ret_end);
