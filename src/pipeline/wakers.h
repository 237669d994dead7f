/*
 * wakers: who ended a wait, and who held the lock that was waited for, as frames of a stack.
 *
 * A waker is shown on top of the stack that it woke: the mark [waker], its process, its thread, and
 * its own stack. One that was interrupted to wake somebody has nothing to do with it: then it is
 * the mark [interrupt], or [timer], with what the kernel did there.
 */
#pragma once

#include <stdint.h>

#include "bpf/wire.h"
#include "pipeline/stack_edit.h"
#include "profile/profile.h"

struct wakers;

/* Both are borrowed and outlive it. */
struct wakers *wakers_new(struct profile *p, struct stack_edit *stacks);
void wakers_free(struct wakers *w);

/* The stack that goes on top of the one that was woken. `stack`: of the event of the waking. */
uint32_t wakers_stack(struct wakers *w, const struct wire_event *e, uint32_t stack);

/*
 * The stack with the mark [held by NAME (TID)] on top, if `holder`, a tid of the process' own pid
 * namespace, is one of its threads. Else the stack itself: the word was not that of a lock.
 */
uint32_t wakers_holder(struct wakers *w, uint32_t stack, uint32_t pid, uint32_t holder);
