// SPDX-License-Identifier: GPL-2.0
/*
 * Times each run of another BPF program: attached to its beginning and its end. A program does not
 * interrupt itself; those that sleep may take turns on a CPU, which the thread tells apart.
 */
#include <linux/bpf.h>

#include <bpf/bpf_helpers.h>

#include "bpf/run_times.h"

char LICENSE[] SEC("license") = "GPL";

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct run_times);
} times SEC(".maps");

SEC("fentry/program")
int begins(void *ctx)
{
	__u32 zero = 0;
	struct run_times *t = bpf_map_lookup_elem(&times, &zero);

	(void)ctx;
	if (!t)
		return 0;
	if (t->began_ns)
		t->lost++;
	t->thread = bpf_get_current_pid_tgid();
	t->began_ns = bpf_ktime_get_ns();
	return 0;
}

SEC("fexit/program")
int ends(void *ctx)
{
	__u64 now = bpf_ktime_get_ns();
	__u32 zero = 0;
	struct run_times *t = bpf_map_lookup_elem(&times, &zero);

	(void)ctx;
	if (!t)
		return 0;
	if (!t->began_ns || t->thread != bpf_get_current_pid_tgid()) {
		t->lost++;
		return 0;
	}
	__u64 ns = now - t->began_ns;
	__u32 bucket = run_times_bucket(ns);
	if (bucket < RUN_TIMES_BUCKETS)
		t->buckets[bucket]++;
	t->sum_ns += ns;
	t->began_ns = 0;
	return 0;
}
