// SPDX-License-Identifier: GPL-2.0
/*
 * trace: each call of the chosen system calls, as one record when it returns.
 *
 * What a call points to is read when it returns: by then the kernel has read or written it, so it
 * is in memory. What will be gone or changed by then (execve's arguments, a length that is
 * replaced) is read at its entry, and kept with the thread. The traced process never waits: a
 * record that finds no room in the ring is counted.
 */
#include "bpf/trace_capture.bpf.h"
#include "bpf/trace_pending.bpf.h"

char LICENSE[] SEC("license") = "GPL";

const volatile struct trace_choice choice;

#define ENTRIES_MAX 512
#define RING_BYTES  (8 << 20)

#define SIGNAL_KILL  9
#define SIGNAL_CHILD 17 /* SIGCHLD, on the processors that we have */

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, SYSCALL_CALLS);
	__type(key, __u32);
	__type(value, struct trace_plan);
} plans SEC(".maps");

struct entry {
	__u8 data[TRACE_ENTRY];
};

struct { /* by thread; until the call returns */
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, ENTRIES_MAX);
	__type(key, __u32);
	__type(value, struct entry);
} entries SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, RING_BYTES);
} records SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct trace_counts);
} counters SEC(".maps");

__u32 started; /* the program that was awaited has */

static __always_inline void count(enum trace_counter which)
{
	__u32 zero = 0;
	struct trace_counts *c = bpf_map_lookup_elem(&counters, &zero);

	if (c)
		c->n[which]++;
}

static __always_inline bool has_name(struct task_struct *task)
{
	char comm[WIRE_COMM];

	if (!filter.by_comm)
		return true;
	BPF_CORE_READ_INTO(&comm, task, group_leader, comm);
	return same_comm(comm);
}

/* Whether the thread is one of those that are traced, but for its name, and its numbers. */
static __always_inline bool is_chosen(struct task_struct *task, __u32 *ret_pid, __u32 *ret_tid)
{
	__u64 id = bpf_get_current_pid_tgid();
	__u32 pid = id >> 32, tid = (__u32)id;

	if (filter.pid_namespace) {
		pid = inner_pid(BPF_CORE_READ(task, group_leader));
		tid = inner_pid(task);
	}
	if (pid == choice.self)
		return false;
	if (filter.by_pid && !is_target(pid))
		return false;
	if (filter.by_tid && !is_target(tid))
		return false;
	*ret_pid = pid;
	*ret_tid = tid;
	return !filter.by_cgroup || in_cgroup(task);
}

/* What starts a program changes the name: it is a call of both, and told apart when it returns. */
static __always_inline bool is_named(struct task_struct *task, const struct trace_plan *plan)
{
	return plan->starts || has_name(task);
}

static __always_inline void begin(struct draft *d)
{
	d->head.short_of = 0;
	d->used = 0;
	d->limit = TRACE_DATA_MAX;
}

/* What has to be read at the entry waits in `entries`. Returns its length. */
static __always_inline __u32 keep_entry(struct draft *d, __u32 thread)
{
	begin(d);
	d->limit = TRACE_ENTRY;
	capture_all(&d->plan, true);
	__u32 bytes = d->used;
	if (!bytes)
		return 0;

	struct entry *e = bpf_map_lookup_elem(&entries, &thread);
	if (!e) {
		if (bpf_map_update_elem(&entries, &thread, d->data, BPF_ANY)) {
			count(TRACE_NO_ENTRY);
			return 0;
		}
		return bytes < TRACE_ENTRY ? bytes : TRACE_ENTRY;
	}
	if (bytes > TRACE_ENTRY)
		bytes = TRACE_ENTRY;
	bpf_probe_read_kernel(e->data, bytes, d->data);
	return bytes;
}

/* The arguments, and what of them is captured at entry. */
static __always_inline void fill_entry(struct trace_pending *p, const struct trace_plan *plan,
				       const struct arch_regs *regs, __u32 thread)
{
	struct draft *d;

	p->entry_bytes = 0;
	bpf_get_current_comm(p->comm, sizeof(p->comm));
	if (!plan->entry || !(d = get_draft()))
		return;
	if (d->busy) {
		count(TRACE_NO_ENTRY);
		return;
	}
	d->busy = 1;
	barrier();
	d->sp = ARCH_SP(regs);
	d->plan = *plan;
	__builtin_memcpy(d->head.args, p->args, sizeof(p->args));
	p->entry_bytes = keep_entry(d, thread);
	barrier();
	d->busy = 0;
}

SEC("raw_tp/sys_enter")
int trace_enter(struct bpf_raw_tracepoint_args *ctx)
{
	static const struct trace_pending none = {.call = TRACE_NO_CALL};
	struct task_struct *task = current_task();
	struct arch_regs regs;
	__u32 call = (__u32)ctx->args[1], thread = (__u32)bpf_get_current_pid_tgid();
	__u32 pid = 0, tid = 0;
	bool is_32_bit = ARCH_IS_COMPAT(TASK_READ(task, ARCH_COMPAT_WORD));

	if (call >= SYSCALL_COMPAT)
		return 0; /* no system call */
	if (is_32_bit)
		call += SYSCALL_COMPAT;
	const struct trace_plan *plan = bpf_map_lookup_elem(&plans, &call);
	if (!plan || !(choice.awaited && !started ? plan->starts : plan->traced))
		return 0;
	if (!is_named(task, plan) || !is_chosen(task, &pid, &tid) ||
	    bpf_probe_read_kernel(&regs, sizeof(regs), (void *)ctx->args[0]))
		return 0;

	struct trace_pending *p = bpf_map_lookup_elem(&pending, &thread);
	if (!p) {
		bpf_map_update_elem(&pending, &thread, &none, BPF_ANY);
		p = bpf_map_lookup_elem(&pending, &thread);
		if (!p) {
			count(TRACE_NO_THREAD);
			return 0;
		}
	}
	p->pid = pid;
	p->tid = tid;
	arch_syscall_args(&regs, is_32_bit, p->args);
	fill_entry(p, plan, &regs, thread);
	p->call = call;
	p->start = bpf_ktime_get_ns();
	return 0;
}

/* Whether the call is one of those that were asked for, now that it has returned. */
static __always_inline bool is_wanted(__u64 ns, __s64 result)
{
	bool failed = result < 0 && result >= -4095;
	__u64 number = -(__u64)result;

	if (ns < choice.min_ns || (choice.failed && !failed))
		return false;
	if (!choice.by_errno)
		return true;
	return failed && number < 64 * TRACE_ERRNOS &&
	       (choice.errnos[number / 64 % TRACE_ERRNOS] >> number % 64 & 1);
}

static __always_inline bool send(struct draft *d)
{
	__u32 bytes = d->used;

	if (bytes > TRACE_DATA_MAX)
		bytes = TRACE_DATA_MAX;
	bytes += sizeof(d->head);
	d->head.bytes = bytes;
	count(TRACE_TAKEN);
	/* Nobody is woken: user space drains on a timer. */
	if (bpf_ringbuf_output(&records, &d->head, bytes, BPF_RB_NO_WAKEUP) == 0)
		return true;
	count(d->head.kind == TRACE_CALL || d->head.kind == TRACE_NO_RETURN ? TRACE_LOST
									    : TRACE_LOST_NOTES);
	return false;
}

static __always_inline void fill_head(struct draft *d, const struct trace_pending *p, __u64 now)
{
	struct trace_record *h = &d->head;

	h->start = p->start;
	h->end = now;
	__builtin_memcpy(h->args, p->args, sizeof(h->args));
	h->pid = p->pid;
	h->tid = p->tid;
	h->call = p->call;
	__builtin_memcpy(h->comm, p->comm, sizeof(h->comm));
}

static __always_inline void take(struct draft *d, struct trace_pending *p, __u32 thread, __u64 now,
				 __s64 result)
{
	const struct trace_plan *plan = bpf_map_lookup_elem(&plans, &p->call);

	if (!plan || !plan->traced) /* it was only waited for */
		return;
	if (plan->starts && !has_name(current_task()) && !same_comm(p->comm))
		return;
	begin(d);
	fill_head(d, p, now);
	d->head.kind = TRACE_CALL;
	d->head.result = result;
	if (p->entry_bytes) {
		struct entry *e = bpf_map_lookup_elem(&entries, &thread);
		/* Checked only here: older verifiers lose bounds that wait on the stack. */
		__u32 kept = p->entry_bytes;
		if (e && kept <= TRACE_ENTRY && bpf_probe_read_kernel(d->data, kept, e->data) == 0)
			d->used = kept;
		bpf_map_delete_elem(&entries, &thread);
	}
	if (plan->count) {
		d->plan = *plan;
		capture_all(&d->plan, false);
	}
	if (send(d) && choice.stacks)
		p->written = now;
}

SEC("raw_tp/sys_exit")
int trace_exit(struct bpf_raw_tracepoint_args *ctx)
{
	__u32 thread = (__u32)bpf_get_current_pid_tgid();
	struct trace_pending *p = bpf_map_lookup_elem(&pending, &thread);
	__s64 result = (__s64)ctx->args[1];

	if (!p || p->call == TRACE_NO_CALL)
		return 0;
	__u64 now = bpf_ktime_get_ns();
	if (choice.awaited && !started) {
		if (result < 0) { /* not in this directory of $PATH */
			p->call = TRACE_NO_CALL;
			return 0;
		}
		started = 1;
	}
	struct draft *d = get_draft();
	if (!is_wanted(now - p->start, result)) {
		if (p->entry_bytes)
			bpf_map_delete_elem(&entries, &thread);
	} else if (!d || d->busy) {
		count(TRACE_NESTED);
	} else {
		d->busy = 1;
		barrier();
		take(d, p, thread, now, result);
		barrier();
		d->busy = 0;
	}
	p->call = TRACE_NO_CALL;
	return 0;
}

/* A thread that ends in a call, as all do, and its end itself. */
static __always_inline void take_end(struct draft *d, const struct trace_pending *p,
				     struct task_struct *task)
{
	__u64 now = bpf_ktime_get_ns();

	fill_head(d, p, now);
	if (p->call != TRACE_NO_CALL && is_wanted(now - p->start, 0)) {
		begin(d);
		d->head.kind = TRACE_NO_RETURN;
		d->head.result = 0;
		send(d);
	}
	if (choice.calls_only)
		return;
	begin(d);
	d->head.kind = TRACE_ENDED;
	d->head.start = now;
	d->head.result = BPF_CORE_READ(task, exit_code);
	send(d);
}

SEC("raw_tp/sched_process_exit")
int trace_end(struct bpf_raw_tracepoint_args *ctx)
{
	struct task_struct *task = (void *)ctx->args[0];
	__u32 thread = (__u32)bpf_get_current_pid_tgid();
	struct trace_pending *p = bpf_map_lookup_elem(&pending, &thread);
	struct trace_pending silent = {.call = TRACE_NO_CALL}; /* one that made no call */
	struct draft *d = get_draft();

	/* Before that, none of its programs could be started, which is told by other means. */
	if (choice.awaited && !started)
		goto forget;
	if (!has_name(task))
		goto forget;
	if (!p) {
		if (choice.calls_only || !is_chosen(task, &silent.pid, &silent.tid))
			return 0;
		bpf_get_current_comm(silent.comm, sizeof(silent.comm));
	}
	if (!d || d->busy) {
		count(TRACE_NESTED);
	} else {
		d->busy = 1;
		barrier();
		take_end(d, p ? p : &silent, task);
		barrier();
		d->busy = 0;
	}
forget:
	bpf_map_delete_elem(&pending, &thread);
	bpf_map_delete_elem(&entries, &thread);
	return 0;
}

/* Who sent a signal, or where it came from: the same layout in all 64-bit kernels. */
struct sent_info {
	__s32 signal, error, code, pad;
	union {
		struct {
			__s32 pid;
			__u32 uid;
			__s32 status;
		};
		__u64 address;
	};
};

SEC("raw_tp/signal_deliver")
int trace_signal(struct bpf_raw_tracepoint_args *ctx)
{
	struct task_struct *task = current_task();
	struct draft *d = get_draft();
	struct sent_info info = {};
	__u32 pid = 0, tid = 0;

	/* What ends a process at once is told by its end. */
	if (ctx->args[0] == SIGNAL_KILL || (choice.awaited && !started) || !has_name(task) ||
	    !is_chosen(task, &pid, &tid))
		return 0;
	bpf_probe_read_kernel(&info, sizeof(info), (void *)ctx->args[1]);
	if (!d || d->busy) {
		count(TRACE_NESTED);
		return 0;
	}
	d->busy = 1;
	barrier();
	begin(d);
	d->head.start = d->head.end = bpf_ktime_get_ns();
	d->head.kind = TRACE_SIGNAL;
	d->head.call = (__u32)ctx->args[0];
	d->head.pid = pid;
	d->head.tid = tid;
	d->head.result = 0;
	d->head.args[0] = (__u32)info.code;
	d->head.args[1] = (__u32)info.pid;
	d->head.args[2] = info.uid;
	d->head.args[3] = d->head.call == SIGNAL_CHILD ? (__u32)info.status : info.address;
	bpf_get_current_comm(d->head.comm, sizeof(d->head.comm));
	send(d);
	barrier();
	d->busy = 0;
	return 0;
}
