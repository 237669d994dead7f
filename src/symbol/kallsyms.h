/*
 * kallsyms: kernel address -> name; modules and BPF programs included.
 */
#pragma once

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

size_t kallsyms_bytes(const struct kallsyms *k);
