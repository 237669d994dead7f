/*
 * goasm: unwind rules for the functions of Go's runtime that switch stacks. Their table of stack
 * depths does not say where the other stack is, but the instructions that switch back do. x86-64.
 *
 *	systemstack, morestack  g0 -> the goroutine's stack, by the sp saved in its g
 *	asmcgocall              g0 -> the goroutine's stack, by the depth saved on g0's stack
 *	goexit, mstart, rt0_go  the outermost frame
 *	mcall, gogo             the same: what they switch to never returns
 *	gopreempt_m             the same, called by newstack: the goroutine has left the thread
 *	sigreturn               registers that the kernel saved for a signal
 *	with a frame of its own (cgocallback, nanotime1): a frame-pointer step
 *
 * If the instructions are not the expected ones, the rule is UNWIND_UNSUPPORTED, never a guess.
 */
#pragma once

#include <elf.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "unwind/cfa.h"

#define GOASM_MACHINE   EM_X86_64 /* whose code this understands */
#define GOASM_CODE_MAX  1024      /* bytes of a function; in Go 1.19 they have 300 at most */
#define GOASM_STEPS_MAX 64

struct goasm_step { /* from `start` on the stack has this depth */
	uint64_t start;
	int64_t depth;
};

struct goasm_func {
	const char *name;
	uint64_t start, end;
	const uint8_t *code;
	size_t code_len;
	const struct goasm_step *steps; /* from its table; the first at `start` */
	size_t step_count;
};

struct goasm {                     /* what earlier functions have shown; zero-initialised */
	struct unwind_rule system; /* how systemstack finds the goroutine's stack */
};

/* The rule of ordinary Go code at this stack depth. */
struct unwind_rule goasm_rule(int64_t depth);

/* Whether it is one of those functions: by name, or since it is marked as writing rsp. */
bool goasm_is_special(const char *name, bool writes_sp);

/* Calls `row` for the rows of such a function, the first at its start or one byte before it. 0, or
 * what `row` returned. */
int goasm_rows(struct goasm *a, const struct goasm_func *f, cfa_row_fn *row, void *arg);
