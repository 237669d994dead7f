/*
 * calls: system calls as the BPF programs number them (bpf/syscall_wire.h): the machine's own and
 * those of 32-bit programs, in one row of numbers.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "bpf/syscall_wire.h"
#include "syscall/names.h"

struct syscall_calls;

struct syscall_calls *syscall_calls_new(void);
void syscall_calls_free(struct syscall_calls *c); /* NULL is fine */

/* Its name alone, "syscall_0x1ff" if it has none, and whether it is a 32-bit program's call.
 * Borrowed. */
const char *syscall_calls_name(const struct syscall_calls *c, uint32_t call, bool *ret_compat);

/* Names of the machine's own calls, for lists. Borrowed. */
const struct syscall_names *syscall_calls_own(const struct syscall_calls *c);

/*
 * Sets what is special about each call (enum syscall_kind), with none of them wanted, and the
 * numbers that `choice` has of calls.
 */
void syscall_calls_kinds(const struct syscall_calls *c, uint8_t ret[static SYSCALL_CALLS],
			 struct syscall_choice *choice);

/*
 * Marks calls as wanted: a name, or a class of strace's ("%file"); NULL: all of them. Of both
 * architectures, as each has it. 0; -ENOENT: there is no such call or class.
 */
int syscall_calls_want(const struct syscall_calls *c, const char *word,
		       uint8_t kinds[static SYSCALL_CALLS]);

/* What a misspelt word was probably meant to be, or NULL. Borrowed. */
const char *syscall_calls_nearest(const struct syscall_calls *c, const char *word);
