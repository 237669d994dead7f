/*
 * flow: how code finds its caller that no table describes, by what its own instructions do. Reads
 * x86-64; files for other machines get what gorows.h gives.
 *
 * musl's libc, V8's builtins and assembly come without call frame information. From the start of a
 * function, as symbols or calls name it, instructions are followed along their branches: how deep
 * the stack is at each, where rbp was saved, whether rbp points to the frame. Where two ways to an
 * instruction disagree, or rsp becomes something that is not known, the rule is UNWIND_OTHER; what
 * no way leads to stays UNWIND_UNKNOWN. Who gives up rbp without having saved it has no caller:
 * _start, and where a thread begins. A rule made so is `checked`: what it finds must follow a call.
 *
 * The file is hostile: instructions, functions and bytes have caps. Nothing is kept; thread-safe.
 */
#pragma once

#include "unwind/cfi.h"

#define FLOW_FUNCTIONS_MAX (1u << 18)
#define FLOW_FUNCTION_MAX  (1u << 20)  /* bytes of one */
#define FLOW_GAP_MAX       (32u << 20) /* bytes of code without tables in a row */
#define FLOW_STEPS_MAX     (32u << 20) /* instructions of a file */

/* As gorows_each(), of which it gives the rows, with its own where those leave something open. */
int flow_each(const struct elf_file *e, cfa_row_fn *row, void *arg, struct cfi_stats *stats);
