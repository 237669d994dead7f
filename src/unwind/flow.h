/*
 * flow: unwind rules for code that no table describes, from the instructions themselves. x86-64;
 * files for other machines get only what gorows.h gives.
 *
 * musl's libc, V8's builtins and assembly have no call frame information. From the start of each
 * function (known by symbols or by calls to it), instructions are followed along all branches,
 * tracking the depth of the stack, where rbp was saved, and whether rbp points to the frame. Where
 * two paths to an instruction disagree, or rsp gets an unknown value, the rule is
 * UNWIND_UNSUPPORTED; code that no path reaches stays UNWIND_UNKNOWN. A function that clears rbp
 * without having saved it has no caller: _start, and the entry of a thread. Rules found this way
 * are marked must_follow_call: the return address that they find must follow a call.
 *
 * The file may be hostile: instructions, functions and bytes are capped. Has no state; thread-safe.
 */
#pragma once

#include "unwind/cfi.h"

#define FLOW_FUNCTIONS_MAX (1u << 18)
#define FLOW_FUNCTION_MAX  (1u << 20)  /* bytes of one function */
#define FLOW_GAP_MAX       (32u << 20) /* contiguous bytes of code without tables */
#define FLOW_STEPS_MAX     (32u << 20) /* instructions per file */

/* Like gorows_each(): gives its rows, and its own for the code that those do not cover. */
int flow_each(const struct elf_file *e, cfa_row_fn *row, void *arg, struct cfi_stats *stats);
