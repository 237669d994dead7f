/*
 * gorows: like cfi.h, with Go's own table for Go functions.
 *
 * Every Go program, stripped or not, contains the depth of the stack at each address of each of its
 * functions, including assembly. This is preferred to .debug_frame, which has the same, but less
 * about the runtime's assembly. C code in the same program keeps the rows of its .eh_frame. Calls
 * that a signal handler injects (sigpanic, asyncPreempt) are treated like ordinary calls.
 *
 * The table may be hostile: functions that are out of order or have malformed depths are counted
 * and get no rows, and the caps of cfi.h apply. Has no state; thread-safe.
 */
#pragma once

#include "unwind/cfi.h"

/* Like cfi_each(), whose rows it gives for files that are not Go programs. */
int gorows_each(const struct elf_file *e, cfa_row_fn *row, void *arg, struct cfi_stats *stats);
