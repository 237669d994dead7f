/*
 * gorows: how each address of a file finds its caller, with Go's own table for Go's functions.
 *
 * Every Go program carries, stripped or not, how deep the stack is at each address of each of its
 * functions, assembly included. That is preferred to .debug_frame, which says the same and less of
 * the runtime's assembly; C code in the same program keeps the rows of its .eh_frame. A call that
 * a signal handler puts into the code (sigpanic, asyncPreempt) is taken for one like others.
 *
 * The table is hostile: functions that are out of order or whose depths make no sense are counted
 * and get no rows, and the caps of cfi.h hold. Nothing is kept; thread-safe.
 */
#pragma once

#include "unwind/cfi.h"

/* As cfi_each(), of which it gives the rows for files that are not Go's. */
int gorows_each(const struct elf_file *e, cfa_row_fn *row, void *arg, struct cfi_stats *stats);
