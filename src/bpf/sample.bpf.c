// SPDX-License-Identifier: GPL-2.0
/*
 * sample: runs at each tick of a perf event on each CPU and sends who was running, with the kernel
 * and user stacks, to a ring buffer. Nothing is woken: user space drains on a timer.
 */
#include <stdbool.h>
#include <stddef.h>

#include <linux/bpf.h>
#include <linux/ptrace.h>
#include <linux/bpf_perf_event.h>

#include <bpf/bpf_core_read.h>
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>

#include "bpf/kernel.h"
#include "bpf/wire.h"

char LICENSE[] SEC("license") = "GPL";

const volatile struct wire_filter filter = {.cgroup_subsys = -1};

#define CGROUP_DEPTH 24
#define TARGETS_MAX 16384

struct ring {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 1 << 20);
};

struct { /* one ring per 16 CPUs; sized by the loader */
	__uint(type, BPF_MAP_TYPE_ARRAY_OF_MAPS);
	__uint(max_entries, 1);
	__uint(key_size, sizeof(__u32));
	__array(values, struct ring);
} rings SEC(".maps");

struct { /* pids or tids to sample, when the filter says so */
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, TARGETS_MAX);
	__type(key, __u32);
	__type(value, __u8);
} targets SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, WIRE_COUNTERS);
	__type(key, __u32);
	__type(value, __u64);
} counters SEC(".maps");

/* A sample under construction: too large for the BPF stack. */
struct scratch {
	struct wire_sample head;
	__u64 frames[2 * (WIRE_FRAMES + 1)];
};

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct scratch);
} scratch SEC(".maps");

static __always_inline void count(__u32 counter, __u64 n)
{
	__u64 *slot = bpf_map_lookup_elem(&counters, &counter);

	if (slot)
		*slot += n;
}

static __always_inline struct cgroup *task_cgroup(struct task_struct *task)
{
	struct css_set *set = BPF_CORE_READ(task, cgroups);
	__s32 subsys = filter.cgroup_subsys;

	if (subsys < 0)
		return BPF_CORE_READ(set, dfl_cgrp);

	struct cgroup_subsys_state *css = NULL;
	bpf_probe_read_kernel(&css, sizeof(css), &set->subsys[subsys & 15]);
	return BPF_CORE_READ(css, cgroup);
}

/* Whether the task is in the cgroup that was asked for, or below it. */
static __always_inline bool in_cgroup(struct task_struct *task)
{
	struct cgroup *cgrp = task_cgroup(task);

	for (int i = 0; i < CGROUP_DEPTH && cgrp; i++) {
		if (BPF_CORE_READ(cgrp, kn, id) == filter.cgroup)
			return true;
		struct cgroup_subsys_state *up = BPF_CORE_READ(cgrp, self.parent);
		cgrp = up ? BPF_CORE_READ(up, cgroup) : NULL;
	}
	return false;
}

static __always_inline bool same_comm(const char *comm)
{
	for (int i = 0; i < WIRE_COMM; i++) {
		if (comm[i] != filter.comm[i])
			return false;
		if (!comm[i])
			break;
	}
	return true;
}

static __always_inline bool is_target(__u32 id)
{
	return bpf_map_lookup_elem(&targets, &id) != NULL;
}

SEC("perf_event")
int sample(struct bpf_perf_event_data *ctx)
{
	__u64 began = bpf_ktime_get_ns();
	__u64 ids = bpf_get_current_pid_tgid();
	__u32 pid = ids >> 32, tid = (__u32)ids;

	if (pid == 0 && !filter.idle)
		return 0;
	if (filter.by_pid && !is_target(pid))
		return 0;
	if (filter.by_tid && !is_target(tid))
		return 0;

	struct task_struct *task = (void *)bpf_get_current_task();
	if (filter.by_cgroup && !in_cgroup(task))
		return 0;

	__u32 zero = 0;
	struct scratch *s = bpf_map_lookup_elem(&scratch, &zero);
	if (!s)
		return 0;
	struct wire_sample *h = &s->head;
	struct task_struct *leader = BPF_CORE_READ(task, group_leader);
	bpf_probe_read_kernel(h->comm, sizeof(h->comm), &leader->comm);
	if (filter.by_comm && !same_comm(h->comm))
		return 0;

	bool in_kernel = (long)ctx->regs.rip < 0;
	bool kthread = BPF_CORE_READ(task, flags) & PF_KTHREAD;
	__u32 cpu = bpf_get_smp_processor_id();
	__u64 kernel = 0, user = 0;

	h->time = began;
	h->start = BPF_CORE_READ(leader, start_boottime);
	h->weight = ctx->sample_period;
	h->cgroup = 0;
	h->pid = pid;
	h->tid = tid;
	h->cpu = cpu;
	h->flags = (in_kernel ? WIRE_IN_KERNEL : 0) | (kthread ? WIRE_KTHREAD : 0);
	bpf_get_current_comm(h->thread, sizeof(h->thread));

	if (in_kernel && !filter.no_kernel) {
		long n = bpf_get_stack(ctx, s->frames, WIRE_FRAMES * sizeof(__u64), 0);
		if (n > 0)
			kernel = (__u64)n / sizeof(__u64);
		if (kernel >= WIRE_FRAMES)
			h->flags |= WIRE_KERNEL_CUT;
	}
	kernel &= WIRE_FRAMES; /* 127: a mask for the verifier as well as the limit */
	if (!kthread && !filter.no_user) {
		long n = bpf_get_stack(ctx, &s->frames[kernel], WIRE_FRAMES * sizeof(__u64),
				       BPF_F_USER_STACK);
		if (n > 0)
			user = (__u64)n / sizeof(__u64);
		if (user >= WIRE_FRAMES)
			h->flags |= WIRE_USER_CUT;
	}
	user &= WIRE_FRAMES;
	h->kernel_frames = kernel;
	h->user_frames = user;

	count(WIRE_TAKEN, 1);
	__u32 at = cpu / 16;
	void *ring = bpf_map_lookup_elem(&rings, &at);
	__u64 size = sizeof(*h) + (kernel + user) * sizeof(__u64);
	if (!ring || size > sizeof(*s) ||
	    bpf_ringbuf_output(ring, s, size, BPF_RB_NO_WAKEUP) != 0)
		count(WIRE_RING_FULL, 1);
	count(WIRE_RUN_NS, bpf_ktime_get_ns() - began);
	return 0;
}

/* A child of a target is a target: `smolder record -- make` is about what make starts. */
SEC("raw_tp/sched_process_fork")
int follow_fork(struct bpf_raw_tracepoint_args *ctx)
{
	struct task_struct *parent = (void *)ctx->args[0], *child = (void *)ctx->args[1];
	__u32 from = BPF_CORE_READ(parent, tgid), pid = BPF_CORE_READ(child, tgid);
	__u8 one = 1;

	if (from != pid && is_target(from))
		bpf_map_update_elem(&targets, &pid, &one, BPF_ANY);
	return 0;
}

SEC("raw_tp/sched_process_exit")
int follow_exit(struct bpf_raw_tracepoint_args *ctx)
{
	struct task_struct *task = (void *)ctx->args[0];
	__u32 pid = BPF_CORE_READ(task, tgid);

	/* Not when the first thread ends: others may go on, or one of them become a program. */
	if (BPF_CORE_READ(task, signal, live.counter) == 0)
		bpf_map_delete_elem(&targets, &pid);
	return 0;
}
