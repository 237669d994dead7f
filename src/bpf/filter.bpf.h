/*
 * filter: whose events are kept: those of the targets, and of what the user named.
 */
#pragma once

#include "bpf/task.bpf.h"
#include "bpf/wire.h"

const volatile struct wire_filter filter = {.cgroup_subsys = -1};

#define CGROUP_DEPTH 1024 /* more than a path has room for by far */
#define TARGETS_MAX  16384

struct { /* pids or tids to sample, when the filter says so */
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, TARGETS_MAX);
	__type(key, __u32);
	__type(value, __u8);
} targets SEC(".maps");

/*
 * The cgroup of a controller's state. libbpf looks through all of the kernel's types for each type
 * whose members are read, about a millisecond each; so this is read as if it were a cgroup's own.
 */
static __always_inline struct cgroup *state_cgroup(struct cgroup_subsys_state *css)
{
	struct cgroup *as_own =
		(void *)((char *)css - bpf_core_field_offset(((struct cgroup *)0)->self));

	return BPF_CORE_READ(as_own, self.cgroup);
}

static __always_inline struct cgroup *task_cgroup(struct task_struct *task)
{
	struct css_set *set = BPF_CORE_READ(task, cgroups);
	__s32 subsys = filter.cgroup_subsys;

	if (subsys < 0)
		return BPF_CORE_READ(set, dfl_cgrp);

	struct cgroup_subsys_state *css = NULL;
	bpf_probe_read_kernel(&css, sizeof(css), &set->subsys[subsys & 15]);
	return state_cgroup(css);
}

/* Whether the task is in the cgroup that was asked for, or below it. */
static __always_inline bool in_cgroup(struct task_struct *task)
{
	struct cgroup *cgrp = task_cgroup(task);

	for (int i = 0; i < CGROUP_DEPTH && cgrp; i++) {
		if (BPF_CORE_READ(cgrp, kn, id) == filter.cgroup)
			return true;
		struct cgroup_subsys_state *up = BPF_CORE_READ(cgrp, self.parent);
		cgrp = up ? state_cgroup(up) : NULL;
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

/*
 * A task's pid as our own pid namespace has it, where that is not the initial one: so it is the
 * same as in /proc, in side-band events and on the command line. 0: the task is not in it, nor
 * below.
 */
static __always_inline __u32 inner_pid(struct task_struct *task)
{
	enum { LEVELS = 8 }; /* the kernel has up to 32; containers in containers are two */
	struct pid *pid = BPF_CORE_READ(task, thread_pid);
	unsigned int level = BPF_CORE_READ(pid, level);
	const char *numbers = (const char *)__builtin_preserve_access_index(&pid->numbers);

#pragma unroll
	for (unsigned int i = 1; i < LEVELS; i++) {
		struct upid at = {};
		if (i > level || bpf_probe_read_kernel(&at, sizeof(at), numbers + i * sizeof(at)))
			break;
		struct pid_namespace *ns = at.ns;
		if (BPF_CORE_READ(ns, ns.inum) == filter.pid_namespace)
			return (__u32)at.nr;
	}
	return 0;
}

static __always_inline __u32 process_id(struct task_struct *task)
{
	return filter.pid_namespace ? inner_pid(BPF_CORE_READ(task, group_leader))
				    : (__u32)BPF_CORE_READ(task, tgid);
}

static __always_inline bool is_target(__u32 id)
{
	return bpf_map_lookup_elem(&targets, &id) != NULL;
}

/* The filters other than pid: control group and name. */
static __always_inline bool passes(struct task_struct *task, const char *comm, bool with_cgroup)
{
	if (with_cgroup && filter.by_cgroup && !in_cgroup(task))
		return false;
	return !filter.by_comm || same_comm(comm);
}

/* A child of a target is a target: `smolder record -- make` is about what make starts. */
SEC("raw_tp/sched_process_fork")
int follow_fork(struct bpf_raw_tracepoint_args *ctx)
{
	struct task_struct *parent = (void *)ctx->args[0], *child = (void *)ctx->args[1];
	__u32 from = process_id(parent), pid = process_id(child);
	__u8 one = 1;

	if (from != pid && is_target(from))
		bpf_map_update_elem(&targets, &pid, &one, BPF_ANY);
	return 0;
}

SEC("raw_tp/sched_process_exit")
int follow_exit(struct bpf_raw_tracepoint_args *ctx)
{
	struct task_struct *task = (void *)ctx->args[0];
	__u32 pid = process_id(task);

	/* Not when the first thread ends: others may go on, or one of them become a program. */
	if (BPF_CORE_READ(task, signal, live.counter) == 0)
		bpf_map_delete_elem(&targets, &pid);
	return 0;
}
