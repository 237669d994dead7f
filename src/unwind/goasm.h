/*
 * goasm: the functions of Go's runtime that leave one stack for another, whose table of stack
 * depths does not say where the other one is. Their own instructions do: the ones that lead back.
 * Reads x86-64.
 *
 *	systemstack, morestack  g0 -> the goroutine's stack, by the sp that its g keeps
 *	asmcgocall              g0 -> the goroutine's stack, by the depth that was put on g0's
 *	goexit, mstart, rt0_go  the outermost frame
 *	mcall, gogo             the same: what they lead to never returns
 *	gopreempt_m             the same, in newstack: the goroutine has left the thread
 *	sigreturn               what the kernel saved for a signal
 *	with a frame of its own (cgocallback, nanotime1): a frame-pointer step
 *
 * Where the instructions are not the ones that are known, the rule is UNWIND_OTHER, never a guess.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "unwind/cfa.h"

#define GOASM_CODE_MAX  1024 /* bytes of a function; those of Go 1.19 have 300 at most */
#define GOASM_STEPS_MAX 64

struct goasm_step { /* from here on the stack is so deep */
	uint64_t start;
	int64_t depth;
};

struct goasm_func {
	const char *name;
	uint64_t start, end;
	const uint8_t *code;
	size_t code_len;
	const struct goasm_step *steps; /* as its table says; the first at `start` */
	size_t step_count;
};

struct goasm {                     /* zero-initialised: what the functions so far have told */
	struct unwind_rule system; /* how systemstack finds the goroutine's stack */
};

/* The rule of code that does as Go's compiler and assembler do. */
struct unwind_rule goasm_rule(int64_t depth);

/* Whether it is one of those functions, by name or because it is said to write to rsp. */
bool goasm_is_special(const char *name, bool writes_sp);

/* Gives the rows of such a function, the first at its start or one byte before it. 0, or what `row`
 * returned. */
int goasm_rows(struct goasm *a, const struct goasm_func *f, cfa_row_fn *row, void *arg);
