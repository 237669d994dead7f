/*
 * eh_frame_hdr: the bounds of functions in files whose symbols were stripped.
 *
 * .eh_frame_hdr is a sorted table of functions for exception handling, which stripping does not
 * remove. It is read when it is first needed, 8 bytes per function; a table of more than
 * EH_FRAME_HDR_MAX functions is not used. Embedded; zero-initialised means not read yet.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "process/elf_file.h"

#define EH_FRAME_HDR_MAX (256u << 10) /* functions: 2 MB; libLLVM has 95,000 */

struct eh_frame_hdr {
	bool read;
	uint32_t count;
	uint64_t vaddr; /* of the table, which entries are relative to */
	struct eh_frame_hdr_entry *list;
	uint8_t *checked; /* one bit per entry: its FDE was read, and agrees */
};

/* The function that contains vaddr: 0, or -ENOENT if the table has none there. */
int eh_frame_hdr_find(struct eh_frame_hdr *f, const struct elf_file *e, uint64_t vaddr,
		      uint64_t *ret_start, uint64_t *ret_end);

/* For a vaddr in no function: the gap around it, from the end of one function to the next. */
void eh_frame_hdr_between(struct eh_frame_hdr *f, const struct elf_file *e, uint64_t vaddr,
			  uint64_t *ret_low, uint64_t *ret_high);
size_t eh_frame_hdr_bytes(const struct eh_frame_hdr *f);
void eh_frame_hdr_done(struct eh_frame_hdr *f);
