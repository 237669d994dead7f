/*
 * stack_edit: stacks of a profile made from others: less their last frames, or put on top of one
 * another.
 */
#pragma once

#include <stdint.h>

#include "profile/profile.h"

struct stack_edit;

/* The profile is borrowed and outlives it. */
struct stack_edit *stack_edit_new(struct profile *p);
void stack_edit_free(struct stack_edit *s);

/* The stack `below` with one more frame that is no code, by this name. */
uint32_t stack_edit_mark(struct stack_edit *s, uint32_t below, const char *name);

/* The stack `below` with all frames of `above` on top of it. Looked up once, then remembered. */
uint32_t stack_edit_join(struct stack_edit *s, uint32_t below, uint32_t above);

/* Up to the last frame by that name (a string of the profile); the whole of it if there is none
 * among its last frames. */
uint32_t stack_edit_cut(const struct stack_edit *s, uint32_t stack, uint32_t name);

/* The frames of `stack` that came after those of `root`, one of its callers, on top of `below`. */
uint32_t stack_edit_move(struct stack_edit *s, uint32_t below, uint32_t stack, uint32_t root);
