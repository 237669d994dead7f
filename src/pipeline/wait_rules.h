/*
 * wait_rules: the rules of waiting.h, as data. The first rule whose conditions all hold decides.
 *
 * A condition is a list of patterns with "|" between them, one of which must match; NULL: no
 * condition. waiting.h says how functions are matched. A function may be anywhere in its part of
 * the stack.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

#include "pipeline/waiting.h"

#define WAIT_RULES_MAX 128

/* What the arguments of the system call, or the shape of the stack, must be like. */
enum wait_when {
	WAIT_WHENEVER,
	/* The wait is in the outermost loop of a thread: between it and the thread's start there
	 * are no more than a few functions of the program's own (of the kernel's, if it is a thread
	 * of the kernel). The stack must be whole. */
	WAIT_OUTERMOST,
	WAIT_FOR_NOTHING, /* poll or select on no descriptor */
	WAIT_FOR_ONE,     /* … on one */
	WAIT_FOR_EVER,    /* … without a timeout */
	WAIT_ON_WORD,     /* futex by FUTEX_WAIT: for glibc a lock, where FUTEX_WAIT_BITSET is a
			     condition */
};

struct wait_rule {
	const char *name;
	const char *kernel; /* function of the kernel */
	const char *user;   /* function of the program or its libraries … */
	const char *module; /* … in a file of this name */
	const char *caller; /* another function of the program */
	const char *thread; /* name of the thread */
	const char *syscall;
	enum wait_when when;
	enum wait_reason reason;
	bool is_idle;
};

extern const struct wait_rule wait_rules[];
extern const size_t wait_rules_count;

/* Functions that stand between a thread's start and its own ones, or between those and the kernel,
 * by name or by file; the same in the kernel. */
extern const char wait_plumbing_user[], wait_plumbing_modules[], wait_plumbing_kernel[];
/* Where threads start: by name, or, for lack of one, the file of a stack's outermost function. */
extern const char wait_start_user[], wait_start_modules[], wait_start_kernel[];

/* Prints the rules as a table in Markdown, as docs/waiting.md has it. */
void wait_rules_print(FILE *out);
