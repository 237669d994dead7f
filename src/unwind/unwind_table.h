/*
 * unwind_table: one file's unwind table, in the paged form that the BPF walk searches
 * (bpf/unwind.h).
 *
 * Addresses are those of the file (p_vaddr), not of a process. Page i covers the 64 KB at
 * (base_page + i) << UNWIND_PAGE_BITS; its rows are rows[first] to rows[first + count - 1], sorted
 * by `low`, the first at 0. Pages follow each other in `rows` without gaps. A table does not change
 * after it is built, so threads may share it. Its rows name rules by their numbers in the `struct
 * rules` that it was built with.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "base/mem.h"
#include "bpf/unwind.h"
#include "process/elf_file.h"
#include "unwind/cfi.h"
#include "unwind/rules.h"

/* 1 GB from the first function to the last; Chromium spans 250 MB. */
#define UNWIND_TABLE_PAGES_MAX 16384

struct unwind_table_page {
	uint32_t first, count;
};

struct unwind_table {
	uint64_t base_page;
	uint32_t page_count, row_count;
	struct unwind_table_page *pages;
	struct unwind_row *rows;
	struct cfi_stats stats; /* of the CFI it was made from; if cached, rows and other only */
};

/*
 * Builds the table of a file; the caller frees it. 0; an error of cfi_each(); -ENOENT also when no
 * function is described; -ERANGE when the code spans more than UNWIND_TABLE_PAGES_MAX pages.
 * `stats` may be NULL; otherwise it is set on errors, too.
 */
int unwind_table_build(const struct elf_file *e, struct rules *rules, struct unwind_table **ret,
		       struct cfi_stats *stats);
void unwind_table_free(struct unwind_table *table); /* NULL is fine */
DEFINE_CLEANUP(struct unwind_table *, unwind_table_free)

size_t unwind_table_bytes(const struct unwind_table *table);

/* The number of the rule that applies at an address; RULES_UNKNOWN outside of all pages. */
uint16_t unwind_table_find(const struct unwind_table *table, uint64_t vaddr);
