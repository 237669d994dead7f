/*
 * cfi: how to find the caller at each address of a file, from its call frame information (CFI).
 *
 * Reads .eh_frame and, for code that this does not cover (built without unwind tables, Go),
 * .debug_frame, of a file for this machine. Gives rows in ascending order of addresses: from this
 * address on, this rule applies. Consecutive rules differ; where no function is described the rule
 * is UNWIND_UNKNOWN, as is the last one. Only addresses in executable segments count.
 *
 * Contradictions are resolved as libgcc does: of two functions at one address the first in the file
 * counts, a function that starts inside another ends that other, and functions without a size are
 * ignored. A function of .debug_frame that starts inside one of .eh_frame is ignored. The function
 * at which a program starts has no caller, whatever its table says (a _start written in C).
 *
 * The file may be hostile: work is bounded by the size of its tables, which are bounded by the caps
 * below; a malformed record is counted and the rest is still read. Has no state; thread-safe.
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
	uint32_t other;   /* rows of UNWIND_UNSUPPORTED */
	uint32_t broken;  /* malformed records and programs */
	uint32_t ignored; /* functions without size, not executable, or overridden by another */
	const char *why;  /* the first problem, as static text for the user; NULL: none */
	uint64_t where;   /* its offset in the file */
};

/*
 * Calls `row` for each row. 0; -ENOENT: there is no table; -ENOTSUP: the file is for another
 * machine, or this one has no unwind rules yet (ARCH_HAS_WALK); -EFBIG: over a cap above; -E2BIG: a
 * table built to waste time; -EIO: the file is truncated; or what `row` returned. *stats is set in
 * all cases.
 */
int cfi_each(const struct elf_file *e, cfa_row_fn *row, void *arg, struct cfi_stats *stats);
