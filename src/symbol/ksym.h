/*
 * ksym: asks the kernel for the names of its addresses, one at a time.
 *
 * A BPF program of one line prints the address as %pS. To name the 500 functions of a profile,
 * reading /proc/kallsyms costs 40 ms and 2 MB; this costs half a millisecond to load and 1.5 µs per
 * function (10 to 15 with cold caches). It also knows modules and BPF programs that were loaded
 * later, and works whatever kptr_restrict is. Needs Linux 5.13, CAP_BPF and CAP_PERFMON; without
 * them kallsyms reads the file. Not thread-safe.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "symbol/symbol.h"

struct ksym;

int ksym_open(struct ksym **ret); /* 0, or -errno: not possible here */
void ksym_close(struct ksym *k);

/* 0, or -ENOENT with *ret not set. ret->name and *ret_module are valid until the next call. */
int ksym_find(struct ksym *k, uint64_t ip, struct symbol *ret, const char **ret_module);

/*
 * Splits "name+0x1f/0x2a0 [module]", in place: 0 or -EINVAL. The module keeps its brackets and is
 * "[kernel]" if there is none. BPF programs have none either: they are told by their names,
 * "[bpf]".
 */
int ksym_parse(char *text, char **ret_name, uint64_t *ret_offset, uint64_t *ret_size,
	       const char **ret_module);

/* The length of the prefix that marks padding before a function (__pfx_); 0 for most names. */
size_t ksym_padding(const char *name, size_t len);

size_t ksym_bytes(const struct ksym *k);
