/*
 * walk: walks a user stack in user space, from the registers and the copy of the top of the stack
 * that came with a sample. It takes the same steps as the BPF program: bpf/step.h.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "bpf/unwind.h"
#include "bpf/wire.h"

struct walk_input {
	uint64_t pc, sp, fp, kept, leaf;
	bool exact;           /* pc is the next instruction, not a return address */
	const uint8_t *stack; /* a copy of the stack … */
	uint64_t stack_start; /* … from this address on */
	size_t stack_len;
};

/* Reads 8 bytes of code at an address; false: there is none, or it cannot be read. */
typedef bool walk_code_fn(void *ctx, uint64_t addr, uint64_t *ret);

/*
 * The rule at an address; NULL for code that cannot have a table. Returns 0; -ENOENT: nothing is
 * mapped there; -EAGAIN: the table is not built yet.
 */
typedef int walk_rule_fn(void *ctx, uint64_t addr, const struct unwind_rule **ret);

/*
 * Writes the addresses of the frames, leaf first; a caller's is one byte before the return address,
 * so that it is in the call instruction. Returns enum wire_walk, or -EAGAIN for a table that is not
 * built yet.
 */
int walk_stack(const struct walk_input *in, walk_rule_fn *rule, walk_code_fn *code, void *ctx,
	       uint64_t *frames, size_t max, size_t *ret_count);
