// SPDX-License-Identifier: GPL-2.0
/*
 * ksym_name: lets the kernel name one of its own addresses. Never attached: run by
 * BPF_PROG_TEST_RUN, it turns `ip` into `text`, "function+0xoffset/0xsize [module]", or into a bare
 * number.
 */
#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>

__u64 ip;
char text[1024]; /* two KSYM_NAME_LEN of today's kernels */

SEC("raw_tp")
int name(void *ctx)
{
	static const char format[] = "%pS";
	__u64 args[] = {ip};

	(void)ctx;
	return (int)bpf_snprintf(text, sizeof(text), format, args, sizeof(args));
}

char LICENSE[] SEC("license") = "GPL";
