/*
 * fdes: where a function starts, in files whose symbols are gone.
 *
 * Programs keep a sorted table of their functions for exceptions (.eh_frame_hdr), stripped or not.
 * It is read when it is first needed, 8 bytes a function; what is larger than FDES_MAX is not used.
 * Embedded; zero-initialised is not read yet.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "process/elf_file.h"

#define FDES_MAX (256u << 10) /* functions: 2 MB; libLLVM has 95,000 */

struct fdes {
	bool read;
	uint32_t count;
	uint64_t vaddr; /* of the header, which entries are relative to */
	struct fdes_entry *list;
	uint8_t *checked; /* a bit of each entry */
};

/* The function around vaddr. 0, or -ENOENT: none is known to lie there. */
int fdes_find(struct fdes *f, const struct elf_file *e, uint64_t vaddr, uint64_t *ret_start,
	      uint64_t *ret_end);

/* What the table leaves free around vaddr, which is in none: from the end of one function to the
 * next. */
void fdes_between(struct fdes *f, const struct elf_file *e, uint64_t vaddr, uint64_t *ret_low,
		  uint64_t *ret_high);
size_t fdes_bytes(const struct fdes *f);
void fdes_done(struct fdes *f);
