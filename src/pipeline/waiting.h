/*
 * waiting: why a thread waits, and whether it is idle.
 *
 * A worker that waits for its next request is idle. One that waits for a lock, a disk or an answer
 * is blocked, and only that is a problem. Both look alike to the scheduler; what tells them apart
 * is where they wait: the functions of the kernel and of the program, the system call and its
 * arguments. wait_rules.c has the rules, as a table; the first one that fits decides, and if none
 * does, the reason is "other" and the thread is not idle: what cannot be told is never hidden.
 * docs/waiting.md has the same table, and the limits.
 *
 * The rules are followed by name, so the frames of the stack must have theirs. What a frame's name
 * matches is found once and kept by frame: a decision then costs a walk up the stack.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/mem.h"
#include "profile/profile.h"

#define WAIT_ARGS 6

enum wait_reason {
	WAIT_OTHER,
	WAIT_CPU, /* it is runnable: it waits only for a CPU */
	WAIT_DISK,
	WAIT_LOCK, /* also condition variables and semaphores */
	WAIT_TIMER,
	WAIT_NETWORK,
	WAIT_PIPE,
	WAIT_POLL, /* for one of several things */
	WAIT_PAGE_FAULT,
	WAIT_CHILD, /* for a process or a thread to end */
	WAIT_REASONS,
};

const char *wait_reason_name(enum wait_reason r); /* the value of the label: "page_fault" */

/* What is known of a wait; what is zero is not known. All borrowed for the call. */
struct wait_site {
	uint32_t stack;      /* with kernel frames, if there are any; a mark at its root is fine */
	bool is_runnable;    /* it was preempted */
	const char *syscall; /* its name, as the program called it; NULL: none, a page fault */
	bool has_args;
	uint64_t args[WAIT_ARGS]; /* of the system call */
	const char *thread;       /* the thread's name */
};

struct wait_verdict {
	enum wait_reason reason;
	bool is_idle;
	const char *rule; /* the name of the rule that decided; static */
};

/*
 * Functions that decide by themselves whether it is idle, before any rule; the reason is still that
 * of the rules. Patterns as in the rules: "*" and "?" stand for any text and character, and what
 * comes after the name itself (parameters, ".constprop.0") and "_" before it do not count. Of
 * several functions of a stack the innermost decides; one that is in both lists means blocked.
 */
struct waiting_options {
	const char *const *idle; /* ends with NULL; borrowed; NULL: none */
	const char *const *blocked;
};

struct waiting;

/* For the stacks of one profile, which is borrowed, as are the options. */
struct waiting *waiting_new(const struct profile *p, const struct waiting_options *o);
void waiting_free(struct waiting *w);
DEFINE_CLEANUP(struct waiting *, waiting_free)

struct wait_verdict waiting_decide(struct waiting *w, const struct wait_site *site);
