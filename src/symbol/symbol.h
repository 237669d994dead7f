/*
 * symbol: what an address resolves to.
 */
#pragma once

#include <stdint.h>

#include "profile/frame.h"

struct symbol {
	const char *name; /* demangled; borrowed until the next lookup */
	enum frame_kind kind;
	uint64_t addr;  /* the address asked for, as a virtual address of the file */
	uint64_t start; /* where the function starts; 0 when there is no name */
	/* The answer is the same for this many bytes before the address, and from it on. */
	uint32_t before, after;
};
