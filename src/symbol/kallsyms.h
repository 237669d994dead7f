/*
 * kallsyms: kernel address -> name; modules and BPF programs included.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "symbol/symbol.h"

struct kallsyms;

/*
 * Reads all of /proc/kallsyms (or `path`). 0; -EPERM when every address reads as 0 (kptr_restrict,
 * or no CAP_SYSLOG); -EINVAL when there is no symbol in it; or -errno.
 */
int kallsyms_load(const char *path, struct kallsyms **ret);
void kallsyms_free(struct kallsyms *k);

/*
 * *ret is always set: 0 when named; -ENOENT otherwise, with a name like "[kernel+0x1234]", counted
 * from where the kernel starts. *ret_module is "[kernel]", "[ext4]", "[bpf]"; programs of "[bpf]"
 * are FRAME_BPF. Both are valid until the next call.
 */
int kallsyms_find(struct kallsyms *k, uint64_t ip, struct symbol *ret, const char **ret_module);

size_t kallsyms_bytes(const struct kallsyms *k);
