/*
 * symbol: what an address resolves to.
 */
#pragma once

#include <stdint.h>

#include "profile/frame.h"

struct symbol {
	const char *name; /* demangled; borrowed: valid until the next call that can resolve */
	enum frame_kind kind;
	uint64_t addr;  /* the address asked for, as a virtual address of the file */
	uint64_t start; /* where the function starts; 0 when there is no name */
	/* At so many bytes before the address, and from it on, the answer is the same. */
	uint32_t before, after;
};
