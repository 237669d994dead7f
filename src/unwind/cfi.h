/*
 * cfi: how each address of a program finds its caller, as the program's own tables tell.
 *
 * Reads .eh_frame, and .debug_frame for what that leaves out (code built without unwind tables,
 * Go), of a file for this machine, and gives rows in the order of addresses: from here on this rule
 * holds. Neighbours differ; where no function is described the rule is UNWIND_UNKNOWN, and so is
 * the last one. Only addresses of executable segments count.
 *
 * Tables that contradict themselves are read as libgcc reads them: of two functions at one address
 * the first in the file holds, one that begins inside another ends that other, and one without
 * size is none. A function of .debug_frame that begins inside one of .eh_frame is left out.
 *
 * The file is hostile: work is bounded by the size of its tables and those by the caps below; a
 * record that makes no sense is counted and the rest still read. Nothing is kept; thread-safe.
 */
#pragma once

#include <stdint.h>

#include "process/elf_file.h"
#include "unwind/cfa.h"

#define CFI_TABLE_MAX (32u << 20) /* bytes of a table; libLLVM has 5 MB */
#define CFI_FDES_MAX  (1u << 20)  /* functions; libLLVM has 95,000 */
#define CFI_ROWS_MAX  (8u << 20)  /* rows; libLLVM has 950,000 */

struct cfi_stats {
	uint32_t functions;
	uint32_t rows;
	uint32_t other;  /* rows of UNWIND_OTHER */
	uint32_t broken; /* records and programs that make no sense */
	uint32_t
		ignored; /* functions without size, not in executable segments, or behind another */
	const char *why; /* the first thing wrong: a static text for the user; NULL if nothing is */
	uint64_t where;  /* its offset in the file */
};

/*
 * Calls `row` for each row. 0; -ENOENT when there is no table; -ENOTSUP when it is for another
 * machine, or no rules of this one are known (arch/arch.h); -EFBIG past a cap above; -E2BIG a table
 * made to take long; -EIO the file is cut; or what `row` returned. *stats is always set.
 */
int cfi_each(const struct elf_file *e, cfa_row_fn *row, void *arg, struct cfi_stats *stats);
