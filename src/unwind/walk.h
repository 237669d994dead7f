/*
 * walk: a user stack, walked in user space from the registers and the copy of the stack's top that
 * came with a sample. The steps are those of the BPF program: bpf/step.h.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "bpf/unwind.h"
#include "bpf/wire.h"

struct walk_input {
	uint64_t pc, sp, fp, kept, leaf;
	bool exact;           /* pc is the instruction that runs, not a return address */
	const uint8_t *stack; /* a copy of the memory … */
	uint64_t stack_start; /* … from here on */
	size_t stack_len;
};

/* The 8 bytes at an address of the program's code; false: there is none, or it cannot be read. */
typedef bool walk_code_fn(void *ctx, uint64_t addr, uint64_t *ret);

/*
 * The rule that holds at an address, NULL where no table can be. Returns 0; -ENOENT when nothing is
 * mapped there; -EAGAIN when its table is not there yet.
 */
typedef int walk_rule_fn(void *ctx, uint64_t addr, const struct unwind_rule **ret);

/*
 * Writes the addresses (a caller's one byte before the return address, inside its call) leaf first.
 * Returns enum wire_walk, or -EAGAIN as soon as a rule is not there yet.
 */
int walk_stack(const struct walk_input *in, walk_rule_fn *rule, walk_code_fn *code, void *ctx,
	       uint64_t *frames, size_t max, size_t *ret_count);
