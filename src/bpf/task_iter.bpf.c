// SPDX-License-Identifier: GPL-2.0
/*
 * task_iter: every thread there is, and the kernel's accounts of it: see task_iter.h.
 */
#include "bpf/filter.bpf.h"
#include "bpf/task_iter.h"

char LICENSE[] SEC("license") = "GPL";

/* Of types that others read as well, what is read only here. */
struct sched_info___queue {
	unsigned long long run_delay;
	unsigned long long last_queued; /* since when it waits, by rq.clock; 0: it does not */
} KERNEL_TYPE;

struct task_struct___queue {
	struct sched_info___queue sched_info;
} KERNEL_TYPE;

struct signal_struct___past {
	unsigned long nvcsw, nivcsw;          /* of threads that have ended, as is … */
	unsigned long long sum_sched_runtime; /* … what they ran */
} KERNEL_TYPE;

static __always_inline bool counts_waiting(void)
{
	return bpf_core_field_exists(((struct task_struct *)0)->sched_info.run_delay);
}

/* What it has waited until now, if it waits: the kernel adds that up when it gets its CPU. */
static __always_inline __u64 waiting_now(struct task_struct *task)
{
	struct task_struct___queue *q = (void *)task;
	struct rq *rq;

	if (task->on_cpu || !bpf_core_field_exists(q->sched_info.last_queued) ||
	    !bpf_core_field_exists(task->se.cfs_rq))
		return 0;
	__u64 since = BPF_CORE_READ(q, sched_info.last_queued);
	rq = BPF_CORE_READ(task, se.cfs_rq, rq);
	__u64 now = BPF_CORE_READ(rq, clock);
	return since && now > since ? now - since : 0;
}

static __always_inline long state_of(struct task_struct *task)
{
	if (bpf_core_field_exists(task->__state))
		return task->__state;
	return ((struct task_struct___before_5_14 *)task)->state;
}

static __always_inline bool is_wanted(struct task_struct *task, const struct task_account *a)
{
	if (!a->pid || (filter.by_pid && !is_target(a->pid)))
		return false;
	if (filter.by_tid && !is_target(a->tid))
		return false;
	return passes(task, a->comm, true);
}

SEC("iter/task")
int tasks_each(__u64 *ctx)
{
	struct bpf_iter_meta *meta = (void *)ctx[0];
	struct task_struct *task = (void *)ctx[1];

	if (!task)
		return 0;
	struct task_struct *leader = task->group_leader;
	struct task_account a = {
		.time = bpf_ktime_get_ns(),
		.start = task->start_time,
		.ran = task->se.sum_exec_runtime,
		.switches = task->nvcsw + task->nivcsw,
		.blocks = task->nvcsw,
		.pid = filter.pid_namespace ? inner_pid(leader) : (__u32)task->tgid,
		.tid = filter.pid_namespace ? inner_pid(task) : (__u32)task->pid,
		.is_running = task->on_cpu != 0,
		.is_dead = (state_of(task) & TASK_STATE_DEAD) != 0,
		.is_ready = state_of(task) == TASK_STATE_RUNNING,
	};
	bpf_probe_read_kernel_str(a.thread, WIRE_COMM, &task->comm);
	bpf_probe_read_kernel_str(a.comm, WIRE_COMM, &leader->comm);
	if (!is_wanted(task, &a))
		return 0;
	if (counts_waiting()) {
		a.has_waited = 1;
		a.waited = task->sched_info.run_delay + waiting_now(task);
	}
	if (filter.cgroups)
		a.cgroup = BPF_CORE_READ(task_cgroup(task), kn, id);
	if (task->pid == task->tgid) {
		struct signal_struct___past *past = (void *)task->signal;
		a.past_ran = BPF_CORE_READ(past, sum_sched_runtime);
		a.past_switches = BPF_CORE_READ(past, nvcsw) + BPF_CORE_READ(past, nivcsw);
	}
	bpf_seq_write(meta->seq, &a, sizeof(a));
	return 0;
}
