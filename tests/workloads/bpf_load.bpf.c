// SPDX-License-Identifier: GPL-2.0
/* What bpf_load.c attaches: programs whose time is nearly all in the lookup of one map. */
#include <linux/bpf.h>

#include <bpf/bpf_helpers.h>

char LICENSE[] SEC("license") = "GPL";

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 1024);
	__type(key, __u32);
	__type(value, __u64);
} looked_up SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 16);
	__type(key, __u32);
	__type(value, __u64);
} seldom_used SEC(".maps");

/* Of a name that is longer than the 15 bytes that the kernel keeps; here interrupts are on. */
SEC("raw_tp/sys_enter")
int at_each_system_call(void *ctx)
{
	__u32 never = 1;

	(void)ctx;
	for (__u32 i = 0; i < 64; i++) {
		__u32 key = i;
		if (bpf_map_lookup_elem(&looked_up, &key)) /* the hot line */
			bpf_map_delete_elem(&seldom_used, &never);
	}
	return 0;
}

/* Here they are off. */
SEC("raw_tp/sched_switch")
int at_switches(void *ctx)
{
	(void)ctx;
	for (__u32 i = 0; i < 64; i++) {
		__u32 key = i;
		if (bpf_map_lookup_elem(&looked_up, &key))
			return 1;
	}
	return 0;
}

SEC("perf_event")
int at_the_clock(void *ctx)
{
	(void)ctx;
	return 0;
}
