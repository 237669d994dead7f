/*
 * errors: the names of what a system call fails with: "ENOENT", and those that only the kernel and
 * its tracers see, when a signal interrupts a call: "ERESTARTSYS".
 */
#pragma once

/* "ENOENT"; NULL: it has no name. */
const char *syscall_error_name(int error);

/* Of a name or a number; -ENOENT: there is no such error. */
int syscall_error_number(const char *word);

/* The name that a misspelt word was probably meant to be, or NULL. */
const char *syscall_error_nearest(const char *word);
