/*
 * ksym: asks the kernel for the names of its addresses, one by one.
 *
 * A BPF program of one line prints the address as %pS. Reading /proc/kallsyms costs 40 ms and 2 MB
 * for the 500 functions that a profile has; this costs half a millisecond to load and 1.5 µs a
 * function (10 to 15 where others have had the caches since), knows modules and BPF programs that
 * were loaded since, and does not need kptr_restrict lifted. Linux 5.13 and CAP_BPF with
 * CAP_PERFMON; elsewhere kallsyms reads the file. Not thread-safe.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "symbol/symbol.h"

struct ksym;

int ksym_open(struct ksym **ret); /* 0 or -errno: cannot be done here */
void ksym_close(struct ksym *k);

/* 0, or -ENOENT with *ret not set. ret->name and *ret_module are valid until the next call. */
int ksym_find(struct ksym *k, uint64_t ip, struct symbol *ret, const char **ret_module);

/*
 * Takes "name+0x1f/0x2a0 [module]" apart, in place: 0 or -EINVAL. The module keeps its brackets,
 * "[kernel]" when there is none. Of BPF programs the kernel tells none: "[bpf]", by their names.
 */
int ksym_parse(char *text, char **ret_name, uint64_t *ret_offset, uint64_t *ret_size,
	       const char **ret_module);

/* How much of a name marks the padding in front of the function that it names: 0 for most. */
size_t ksym_padding(const char *name, size_t len);

size_t ksym_bytes(const struct ksym *k);
