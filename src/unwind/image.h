/*
 * image: how a file's code is unwound, in the paged form of bpf/unwind.h.
 *
 * Addresses are those of the file (p_vaddr), not of a process. Page i covers the 64 KB at
 * (base_page + i) << UNWIND_PAGE_BITS; its rows are rows[first] to rows[first + count - 1], sorted
 * by `low`, the first at 0. Pages follow each other in `rows` without gaps. An image does not
 * change after it is built, so threads may share it; the rules it names are those of the `struct
 * rules` it was built with.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "base/mem.h"
#include "bpf/unwind.h"
#include "process/elf_file.h"
#include "unwind/cfi.h"
#include "unwind/rules.h"

#define IMAGE_PAGES_MAX                                                                            \
	16384 /* 1 GB from the first function to the last; Chromium spans 250 MB                   \
	       */

struct image_page {
	uint32_t first, count;
};

struct image {
	uint64_t base_page;
	uint32_t page_count, row_count;
	struct image_page *pages;
	struct unwind_row *rows;
	struct cfi_stats stats; /* of the tables it was made from; rows and other alone if cached */
};

/*
 * Builds the image of a file. Caller frees. 0; the errors of cfi_each(); -ENOENT also when no
 * function is described; -ERANGE when the code lies too far apart. *stats may be NULL and is set
 * always otherwise.
 */
int image_build(const struct elf_file *e, struct rules *rules, struct image **ret,
		struct cfi_stats *stats);
void image_free(struct image *im); /* NULL is fine */
DEFINE_CLEANUP(struct image *, image_free)

size_t image_bytes(const struct image *im);

/* The number of the rule that holds at an address; RULES_UNKNOWN outside of all pages. */
uint16_t image_find(const struct image *im, uint64_t vaddr);
