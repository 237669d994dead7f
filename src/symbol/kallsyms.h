/*
 * kallsyms: kernel address -> name; modules and BPF programs included.
 *
 * The padding in front of a function, which has a mark of its own (__pfx_NAME, __cfi_NAME), counts
 * to that function: what runs there runs for it, and what was interrupted at its first instruction
 * is looked up one byte before.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "symbol/symbol.h"

struct kallsyms;

/*
 * With `path` NULL the kernel itself is asked for each name, where that is possible (ksym.h), and
 * /proc/kallsyms is read where it is not; a `path` is read. 0; -EPERM when every address in the
 * file reads as 0 (kptr_restrict, or no CAP_SYSLOG); -EINVAL when it has no function; or -errno.
 */
int kallsyms_load(const char *path, struct kallsyms **ret);
void kallsyms_free(struct kallsyms *k);

/*
 * *ret is always set: 0 when named; -ENOENT otherwise, with a name like "[kernel+0xADDRESS]".
 * *ret_module is "[kernel]", "[ext4]", "[bpf]"; what is in "[bpf]" is FRAME_BPF. Both are valid
 * until the next call.
 */
int kallsyms_find(struct kallsyms *k, uint64_t ip, struct symbol *ret, const char **ret_module);

/* Names are the kernel's of this moment; else those of when the file was read. */
bool kallsyms_is_asked(const struct kallsyms *k);

size_t kallsyms_bytes(const struct kallsyms *k);
