/*
 * code_class: what kind of code a stack is in, by the names of its functions: a system call that
 * polls, a page fault, an allocator.
 *
 * The rules are a table of names in code_class.c. What a frame is, is found once.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "profile/profile.h"

enum code_class {
	CODE_CALL,    /* in a system call */
	CODE_POLL,    /* … that asks whether there is something, or waits */
	CODE_READ,    /* … that reads or accepts: it may be a poll of a non-blocking descriptor */
	CODE_PROC,    /* in the kernel's code of /proc/PID, or in a library that reads it */
	CODE_FAULT,   /* a page fault */
	CODE_SOFTIRQ, /* work that an interrupt left to do: packets, timers */
	CODE_SPIN,    /* waiting for a lock of the kernel's by spinning */
	CODE_SWITCH,  /* from one thread to another */
	CODE_RECLAIM, /* looking for memory to free */
	CODE_ALLOC,   /* user code that allocates or frees */
	CODE_GC,      /* a runtime's garbage collector */
	CODE_BPF,     /* a BPF program; not seen where interrupts are off */
	CODE_CLASSES,
};

struct code_classes { /* zero-initialised is empty */
	uint8_t *of_frame;
	uint32_t count;
};

void code_classes_done(struct code_classes *c);

struct code {
	uint32_t classes; /* bits: 1 << enum code_class */
	uint32_t call;    /* the frame that tells the system call; 0: none does */
	uint32_t caller;  /* the stack of the user's part; 0: none */
};

struct code code_of(struct code_classes *c, const struct profile *dict, uint32_t stack);

/* "epoll_wait" of "__x64_sys_epoll_wait", else the name itself. Borrowed. */
const char *code_call_name(const char *function);
