/*
 * offcpu_task: what the programs of threads off their CPU (offcpu.bpf.c, sites.bpf.c) ask of a
 * task: its state, its system call, and, of one that is not the current one, who and where it is.
 * And what both need besides: memory to work in, and counters.
 */
#pragma once

#include "bpf/event.bpf.h"
#include "bpf/lock_wait.h"
#include "bpf/offcpu_wire.h"

/* What does not fit on the stack, on older kernels: each program has members of its own. */
struct work;

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct work);
} works SEC(".maps");

static __always_inline struct work *get_work(void)
{
	__u32 zero = 0;

	return bpf_map_lookup_elem(&works, &zero);
}

static __always_inline void count(enum wire_counter which, __u64 n)
{
	__u32 cpu = bpf_get_smp_processor_id();
	struct wire_counts *counts = bpf_map_lookup_elem(&counters, &cpu);

	if (counts)
		counts->n[which & 15] += n;
}

_Static_assert(WIRE_COUNTERS <= 16, "a mask that the verifier understands");

/* A member of a task that the tracepoint passed: its type is known, on all kernels. */
static __always_inline long task_state(struct task_struct *task)
{
	if (bpf_core_field_exists(task->__state))
		return task->__state;
	return ((struct task_struct___before_5_14 *)task)->state;
}

/* 0 where the kernel does not count it: then all of a period is taken for blocked. */
static __always_inline __u64 run_delay(struct task_struct *task)
{
	return bpf_core_field_exists(task->sched_info.run_delay) ? task->sched_info.run_delay : 0;
}

static __always_inline enum offcpu_state state_of(struct task_struct *prev, bool preempted)
{
	long state = task_state(prev);

	if (state & TASK_STATE_DEAD)
		return OFFCPU_NONE;
	if (preempted || state == TASK_STATE_RUNNING)
		return OFFCPU_RUNNABLE;
	/* (One that is woken this very moment may have another state by now: sleeping, then.) */
	return state & TASK_STATE_UNINTERRUPTIBLE ? OFFCPU_UNINTERRUPTIBLE : OFFCPU_SLEEPING;
}

static __always_inline bool is_first_leave(const struct task_struct *prev)
{
	return prev->nvcsw + prev->nivcsw == 1;
}

/* ---- the system call ------------------------------------------------------------------------ */

#define CALL(regs, member) (has_regs ? (regs)->member : BPF_CORE_READ(regs, member))

static __always_inline __u32 lock_holder(const struct offcpu_details *d)
{
	__u32 words[LOCK_WAIT_WORDS];

	if (!lock_wait_is_one(d) ||
	    bpf_probe_read_user(words, sizeof(words), (void *)d->args[0]) != 0)
		return 0;
	return lock_wait_holder(words);
}

static __always_inline void read_call(struct task_struct *prev, struct offcpu_details *d)
{
	bool has_regs = bpf_core_enum_value_exists(enum bpf_func_id___kernel,
						   BPF_FUNC_task_pt_regs___kernel);
	struct pt_regs___call *regs;

	if (has_regs)
		regs = (void *)bpf_task_pt_regs(bpf_get_current_task_btf());
	else
		regs = (void *)((char *)prev->stack + ARCH_KERNEL_STACK - ARCH_REGS_BYTES);
	if (!ARCH_MODE_IS_64_BIT(CALL(regs, ARCH_CALL_MODE)))
		return;
	d->syscall = (__s32)CALL(regs, ARCH_CALL);
	if (d->syscall < 0)
		return;
	d->args[0] = CALL(regs, ARCH_CALL_ARG0);
	d->args[1] = CALL(regs, ARCH_CALL_ARG1);
	d->args[2] = CALL(regs, ARCH_CALL_ARG2);
	d->args[3] = CALL(regs, ARCH_CALL_ARG3);
	d->args[4] = CALL(regs, ARCH_CALL_ARG4);
	d->args[5] = CALL(regs, ARCH_CALL_ARG5);
	d->holder = lock_holder(d);
}

/* ---- one that is off its CPU already ----------------------------------------------------------
 */

/* The registers with which a thread that is not the current one entered the kernel. */
static __always_inline void other_registers(struct task_struct *task, struct offcpu_found *f)
{
	struct wire_event *h = &f->event;
	/* Where its kernel frames will be. */
	struct arch_regs *regs = (void *)f->frames;
	void *at;

	if (bpf_core_enum_value_exists(enum bpf_func_id___kernel, BPF_FUNC_task_pt_regs___kernel))
		at = (void *)bpf_task_pt_regs(task);
	else
		at = (char *)task->stack + ARCH_KERNEL_STACK - ARCH_REGS_BYTES;
	if (bpf_probe_read_kernel(regs, sizeof(*regs), at) != 0 || !ARCH_PC(regs) ||
	    !ARCH_MODE_IS_64_BIT(ARCH_MODE(regs))) {
		h->flags |= WIRE_NO_USER;
		return;
	}
	h->pc = ARCH_PC(regs);
	h->sp = ARCH_SP(regs);
	h->fp = ARCH_FP(regs);
	h->kept = ARCH_KEPT(regs);
	h->leaf = ARCH_LEAF(regs);
	f->details.syscall = (__s32)ARCH_SYSCALL(regs);
	if (f->details.syscall < 0)
		return;
	struct pt_regs___call *call = at;
	f->details.args[0] = BPF_CORE_READ(call, ARCH_CALL_ARG0);
	f->details.args[1] = BPF_CORE_READ(call, ARCH_CALL_ARG1);
	f->details.args[2] = BPF_CORE_READ(call, ARCH_CALL_ARG2);
	f->details.args[3] = BPF_CORE_READ(call, ARCH_CALL_ARG3);
	f->details.args[4] = BPF_CORE_READ(call, ARCH_CALL_ARG4);
	f->details.args[5] = BPF_CORE_READ(call, ARCH_CALL_ARG5);
	h->flags |= WIRE_SYSCALL;
}

static __always_inline bool is_wanted(struct task_struct *task, struct wire_event *h)
{
	if (filter.by_pid && !is_target(h->pid))
		return false;
	if (filter.by_tid && !is_target(h->tid))
		return false;
	return passes(task, h->comm, true);
}

static __always_inline void describe(struct task_struct *task, struct offcpu_found *f)
{
	struct wire_event *h = &f->event;
	struct task_struct *leader = task->group_leader;

	*h = (struct wire_event){
		.time = bpf_ktime_get_ns(),
		.source = source,
		.process_start = leader->start_boottime,
		.exec_id = task->self_exec_id,
		.value = task->se.sum_exec_runtime,
		.cgroup = filter.cgroups ? BPF_CORE_READ(task_cgroup(task), kn, id) : 0,
		.pid = filter.pid_namespace ? inner_pid(leader) : (__u32)task->tgid,
		.tid = filter.pid_namespace ? inner_pid(task) : (__u32)task->pid,
		.flags = WIRE_IN_KERNEL | (task->flags & PF_KTHREAD ? WIRE_KTHREAD : 0),
		.details = OFFCPU_DETAILS,
	};
	bpf_probe_read_kernel_str(h->thread, WIRE_COMM, &task->comm);
	bpf_probe_read_kernel_str(h->comm, WIRE_COMM, &leader->comm);
	f->details = (struct offcpu_details){
		.syscall = -1,
		.state = state_of(task, false),
		.flags = OFFCPU_FOUND,
	};
}
