/*
 * unwind_table_file: the file format of a cached unwind table.
 *
 * All numbers are in the machine's byte order:
 *
 *	struct unwind_table_file_head
 *	rules of this file          rule_count * 16 bytes; the first is UNWIND_UNKNOWN
 *	row count of each page      page_count * 4 bytes
 *	rows                        row_count * 4 bytes; a rule is its position in the list above
 *
 * The checksum finds accidental damage. Every field is checked as well, so that even a file made to
 * deceive gives a well-formed table or an error.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "unwind/unwind_table.h"

#define UNWIND_TABLE_FILE_VERSION 13 /* raise it also when the same ELF file gives other rows */
#define UNWIND_TABLE_FILE_MAX                                                                      \
	(sizeof(struct unwind_table_file_head) + UNWIND_RULES_MAX * sizeof(struct unwind_rule) +   \
	 UNWIND_TABLE_PAGES_MAX * 8ul + CFI_ROWS_MAX * 4ul)

/* What a table was built from. */
struct unwind_table_file_origin {
	uint64_t seed, hash[2]; /* of the CFI; the seed is random */
	/* The ELF file: while these are unchanged, so is the CFI. */
	uint64_t device, inode, size, changed_ns;
};

struct unwind_table_file_head {
	char magic[8];
	uint64_t checksum; /* XXH3 of everything after it */
	uint32_t version;
	uint32_t rule_count, page_count, row_count;
	uint64_t base_page;
	struct unwind_table_file_origin origin;
	uint32_t functions, rows, other, broken; /* struct cfi_stats */
};

_Static_assert(sizeof(struct unwind_table_file_head) == 112, "no padding");

/* The table as bytes; the caller frees them. */
void *unwind_table_file_encode(const struct unwind_table *table, const struct rules *rules,
			       const struct unwind_table_file_origin *origin, size_t *ret_len);

/* The checksum that belongs to these bytes; `len` is at least that of the head. */
uint64_t unwind_table_file_checksum(const void *data, size_t len);

/* Reads `len` bytes, aligned to 8; the table's rules are added to `rules`. 0, or -EBADMSG. */
int unwind_table_file_decode(const void *data, size_t len, struct rules *rules,
			     struct unwind_table **ret);
