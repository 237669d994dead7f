/*
 * x86: decodes one x86-64 instruction: its length, and what it does to rsp and rbp.
 *
 * Made for code of compilers and assemblers; an instruction that it does not know is X86_BAD. Reads
 * at most `len` bytes, whatever they are.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum x86_kind {
	X86_BAD,     /* unknown, or incomplete */
	X86_OTHER,   /* changes neither rsp nor rbp */
	X86_LEA_RIP, /* nor does this; loads the address `value`, relative to the next instruction
		      */
	X86_PUSH,    /* 8 bytes; of register `reg`, or X86_NO_REG */
	X86_POP,
	X86_ADD_RSP,      /* rsp += value */
	X86_SET_RSP,      /* to an unknown value */
	X86_RSP_FROM_RBP, /* rsp = rbp + value */
	X86_RBP_FROM_RSP, /* rbp = rsp + value */
	X86_LEAVE,
	X86_SET_RBP,   /* to anything */
	X86_CLEAR_RBP, /* to 0 */
	X86_STORE_RBP, /* into memory */
	X86_CALL,      /* to `value`, relative to the next instruction, if `direct` */
	X86_JUMP,
	X86_BRANCH, /* to `value`, or on to the next instruction */
	X86_END,    /* ret, ud2, hlt, int3: does not continue after it */
};

enum { X86_RBX = 3, X86_RSP = 4, X86_RBP = 5, X86_NO_REG = 255 };

struct x86 {
	enum x86_kind kind;
	uint8_t len;
	uint8_t reg;
	bool direct;
	int32_t value;
};

struct x86 x86_decode(const uint8_t *code, size_t len);
