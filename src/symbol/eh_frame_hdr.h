/*
 * eh_frame_hdr: where a function starts, in files whose symbols are gone.
 *
 * Programs keep a sorted table of their functions for exceptions (.eh_frame_hdr), stripped or not.
 * It is read when it is first needed, 8 bytes a function; what is larger than EH_FRAME_HDR_MAX is
 * not used. Embedded; zero-initialised is not read yet.
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
	uint64_t vaddr; /* of the header, which entries are relative to */
	struct eh_frame_hdr_entry *list;
	uint8_t *checked; /* a bit of each entry */
};

/* The function around vaddr. 0, or -ENOENT: none is known to lie there. */
int eh_frame_hdr_find(struct eh_frame_hdr *f, const struct elf_file *e, uint64_t vaddr,
		      uint64_t *ret_start, uint64_t *ret_end);

/* What the table leaves free around vaddr, which is in none: from the end of one function to the
 * next. */
void eh_frame_hdr_between(struct eh_frame_hdr *f, const struct elf_file *e, uint64_t vaddr,
			  uint64_t *ret_low, uint64_t *ret_high);
size_t eh_frame_hdr_bytes(const struct eh_frame_hdr *f);
void eh_frame_hdr_done(struct eh_frame_hdr *f);
