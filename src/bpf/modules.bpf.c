// SPDX-License-Identifier: GPL-2.0
/*
 * Notes when modules of the kernel come and go: before the first code of one that comes runs, and
 * before the memory of one that goes can be another's, also of one whose beginning fails. The
 * kernel's uevents tell of a module only when it has begun, and not of such a one.
 */
#include "bpf/task.bpf.h"

char LICENSE[] SEC("license") = "GPL";

__u64 changed_ns; /* CLOCK_MONOTONIC; 0: never */

static int note(void)
{
	ARCH_STORE_RELEASE(&changed_ns, bpf_ktime_get_ns());
	return 0;
}

SEC("raw_tp/module_load")
int loaded(void *ctx)
{
	(void)ctx;
	return note();
}

SEC("raw_tp/module_free")
int freed(void *ctx)
{
	(void)ctx;
	return note();
}
