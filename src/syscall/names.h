/*
 * names: the names of system calls by number, as the architecture of the caller numbers them, and
 * back; and the classes that strace has of them.
 *
 * A kernel has calls of two architectures: its own, and those of 32-bit programs ("compat"). What
 * libseccomp does not know yet of newer kernels is in a table here. A number without a name is
 * shown as syscall_0x1ff, as strace does.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#define SYSCALL_NUMBERS 512 /* numbers from here on are no system calls */

enum syscall_abi { SYSCALL_X86_64, SYSCALL_I386, SYSCALL_ARM64, SYSCALL_ARM };

/* That of programs on this machine: its own, or that of 32-bit ones. */
enum syscall_abi syscall_abi(bool compat);

struct syscall_names; /* of one architecture; all that it returns is borrowed from it */

struct syscall_names *syscall_names_new(enum syscall_abi abi);
void syscall_names_free(struct syscall_names *n); /* NULL is fine */

/* NULL: there is no such call. */
const char *syscall_names_name(const struct syscall_names *n, uint32_t number);

/* Its number; -ENOENT: there is no such call, or not on this architecture. */
int syscall_names_number(const struct syscall_names *n, const char *name);

/* The call that a misspelt word was probably meant to be, or NULL. */
const char *syscall_names_nearest(const struct syscall_names *n, const char *word);

/* Classes: "file", "desc", "network", "process", …: ends with NULL. */
const char *const *syscall_classes(void);

/* Whether the call is of that class; false, too, if there is no such class. */
bool syscall_is_of_class(const char *name, const char *class);
