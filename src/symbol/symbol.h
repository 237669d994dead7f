/*
 * symbol: what an address resolves to. The vocabulary of symbol/ and of everything after it.
 */
#pragma once

#include <stdint.h>

enum frame_kind {
	FRAME_USER,
	FRAME_KERNEL,
	FRAME_INLINED, /* an inlined call inside the frame below it */
	FRAME_INTERPRETED,
	FRAME_JIT,
	FRAME_GO,
	FRAME_BPF,
	FRAME_MARK, /* not code: "[truncated]", a process or thread name, "-" between stacks */
	FRAME_KINDS,
};

struct symbol {
	const char *name; /* demangled; borrowed: valid until the next call that can resolve */
	enum frame_kind kind;
	uint64_t addr;  /* the address asked for, as a virtual address of the file */
	uint64_t start; /* where the function starts; 0 when there is no name */
	/* At so many bytes before the address, and from it on, the answer is the same. */
	uint32_t before, after;
};
