/*
 * kallsyms: names of kernel addresses, including modules and BPF programs.
 *
 * The padding before a function has a symbol of its own (__pfx_NAME, __cfi_NAME), but counts as
 * part of the function: a function that was interrupted at its first instruction is looked up one
 * byte before it.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "symbol/symbol.h"

struct kallsyms;

/*
 * If `path` is NULL, the kernel is asked for each name when it is needed (ksym.h), or, where that
 * is not possible, /proc/kallsyms is read; otherwise the file `path` is read. 0; -EPERM when all
 * addresses in the file are 0 (kptr_restrict, or no CAP_SYSLOG); -EINVAL when it has no function;
 * or -errno.
 */
int kallsyms_load(const char *path, struct kallsyms **ret);
void kallsyms_free(struct kallsyms *k);

/*
 * 0, or -ENOENT with a name like "[kernel+0xADDRESS]": *ret is set in both cases. *ret_module is
 * "[kernel]", "[ext4]" or "[bpf]" (whose frames are FRAME_BPF). Both are valid until the next call.
 */
int kallsyms_find(struct kallsyms *k, uint64_t ip, struct symbol *ret, const char **ret_module);

/* As kallsyms_find(), but names only what never moves: neither modules nor BPF programs. */
int kallsyms_find_fixed(struct kallsyms *k, uint64_t ip, struct symbol *ret,
			const char **ret_module);

/* Code of modules or BPF programs came or went in [start, end): names read from the file for this
 * range are dropped, and it has none until the file is read again. */
void kallsyms_forget(struct kallsyms *k, uint64_t start, uint64_t end);

/* Whether names come from the running kernel at each lookup, and not from a file read once. */
bool kallsyms_is_live(const struct kallsyms *k);

size_t kallsyms_bytes(const struct kallsyms *k);
