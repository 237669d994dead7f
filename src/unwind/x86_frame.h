/*
 * x86_frame: where the caller's registers are before an instruction, and what the instruction makes
 * of that: the state that flow.c follows along each branch of a function.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "bpf/unwind.h"
#include "unwind/x86.h"

#define X86_FRAME_LOST 1 /* of a saved register: it was saved, but it is not known where */

struct x86_frame {
	int32_t depth; /* CFA - rsp; 0: unknown */
	int32_t frame; /* CFA - rbp; 0: rbp is something else */
	int16_t bp; /* the caller's rbp is at CFA + this; 0: it was not saved; or X86_FRAME_LOST */
	int16_t bx;
	uint8_t end, bad;
	uint16_t pad;
};

bool x86_frame_same(const struct x86_frame *a, const struct x86_frame *b);

/* The state that is true whichever of two paths was taken; `bad` if there is none. */
struct x86_frame x86_frame_join(const struct x86_frame *a, const struct x86_frame *b);

/* A register is pushed; X86_NO_REG: something else of its size. */
void x86_frame_push(struct x86_frame *s, uint8_t reg);

/* The effect of an instruction; jumps are the caller's. */
void x86_frame_apply(struct x86_frame *s, const struct x86 *x);

/* How a walk finds the caller from there. */
struct unwind_rule x86_frame_rule(const struct x86_frame *s);
