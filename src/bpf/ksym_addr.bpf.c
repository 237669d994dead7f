// SPDX-License-Identifier: GPL-2.0
/*
 * ksym_addr: lets the kernel say where one of its own symbols is. Never attached: run by
 * BPF_PROG_TEST_RUN, it turns `name` into `addr`, or into 0. Reading all of /proc/kallsyms for it
 * would take fifty milliseconds.
 */
#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>

char name[64];
__u64 addr;

SEC("syscall")
int find(void *ctx)
{
	(void)ctx;
	addr = 0;
	name[sizeof(name) - 1] = '\0';
	return (int)bpf_kallsyms_lookup_name(name, sizeof(name), 0, &addr);
}

char LICENSE[] SEC("license") = "GPL";
