// SPDX-License-Identifier: GPL-2.0
/*
 * closeup_calls: the system calls of one process, or of processes by one name, for a second: how
 * often each thread makes which, how long they may wait, and how many return with nothing.
 *
 * Of a lock it also follows who has it. One that others wait for is given back by waking one of
 * them: whoever does that had it, since it was itself woken, or since another that began to wait
 * read the owner's number, which glibc keeps next to the lock.
 *
 * Attached only while it is wanted: then every system call of the machine runs it, and all but the
 * target's leave after a comparison.
 */
#include "bpf/filter.bpf.h"
#include "bpf/closeup_wire.h" /* after its types */
#include "bpf/lock_wait.h"
#include "bpf/syscall_wire.h"

char LICENSE[] SEC("license") = "GPL";

#define PROC_MAGIC      0x9fa0
#define TINY_NS         100000
#define ERROR_AGAIN     11
#define ERROR_TIMED_OUT 110
#define ERROR_MAX       4095
#define FUTEX_COMMAND   127
#define FUTEX_WAIT      0
#define FUTEX_WAKE      1
#define FUTEX_WAIT_BITS 9

const volatile struct closeup_plan plans[SYSCALL_CALLS];

volatile struct closeup_target target;
struct closeup_counts counts;

struct begun { /* a call in progress */
	__u64 start;
	__u64 args[3];
	__u32 call;
	__u8 timeout;
	__u8 pad[3];
};

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, CLOSEUP_THREADS);
	__type(key, __u32);
	__type(value, struct begun);
} threads SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, CLOSEUP_SUMS);
	__type(key, struct closeup_key);
	__type(value, struct closeup_sum);
} sums SEC(".maps");

struct owner {       /* of a lock */
	__u64 since; /* as one that began to wait for it saw it … */
	__u32 tid;   /* … in its own pid namespace; 0: nobody saw */
	__u32 woken; /* the thread that waited and may have it since; 0: none */
	__u64 woken_at;
};

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, CLOSEUP_LOCKS);
	__type(key, __u32);
	__type(value, struct owner);
} owners SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_QUEUE);
	__uint(max_entries, CLOSEUP_HOLDS);
	__type(value, struct closeup_hold);
} holds SEC(".maps");

static __always_inline bool has_name(struct task_struct *task)
{
	char comm[CLOSEUP_COMM] = {};

	bpf_probe_read_kernel_str(comm, sizeof(comm), &TASK_READ(task, group_leader)->comm);
	for (int i = 0; i < CLOSEUP_COMM; i++) {
		if (comm[i] != target.comm[i])
			return false;
		if (!comm[i])
			break;
	}
	return true;
}

static __always_inline bool is_chosen(struct task_struct *task)
{
	__u32 pid = process_id(task);

	if (pid == target.self)
		return false;
	return target.pid ? pid == target.pid : has_name(task);
}

static __always_inline __u8 timeout_class(__s64 ns)
{
	return ns < 0         ? CLOSEUP_FOREVER
	       : ns == 0      ? CLOSEUP_NONE
	       : ns < TINY_NS ? CLOSEUP_TINY
			      : CLOSEUP_SOME;
}

static __always_inline __u8 timeout_of(const volatile struct closeup_plan *plan, const __u64 *args)
{
	struct {
		__s64 seconds, rest;
	} t = {};
	/* Not by a variable index: older verifiers do not follow that. */
	__u64 arg = plan->arg == 0   ? args[0]
		    : plan->arg == 2 ? args[2]
		    : plan->arg == 3 ? args[3]
				     : args[4];

	if (plan->form == CLOSEUP_NO_TIMEOUT)
		return CLOSEUP_UNKNOWN;
	if (plan->form == CLOSEUP_MS)
		return timeout_class((__s64)(__s32)arg * 1000000);
	if (!arg)
		return CLOSEUP_FOREVER;
	if (bpf_probe_read_user(&t, sizeof(t), (void *)arg))
		return CLOSEUP_UNKNOWN;
	if (t.seconds)
		return CLOSEUP_SOME;
	return timeout_class(plan->form == CLOSEUP_TIMEVAL ? t.rest * 1000 : t.rest);
}

static __always_inline __u32 shown_tid(struct task_struct *task)
{
	return filter.pid_namespace ? inner_pid(task) : (__u32)bpf_get_current_pid_tgid();
}

/* In its own pid namespace, as its memory has it. */
static __always_inline __u32 own_tid(struct task_struct *task)
{
	struct pid *pid = BPF_CORE_READ(task, thread_pid);
	const char *numbers = (const char *)__builtin_preserve_access_index(&pid->numbers);
	struct upid at = {};

	bpf_probe_read_kernel(&at, sizeof(at), numbers + BPF_CORE_READ(pid, level) * sizeof(at));
	return (__u32)at.nr;
}

/* The lower half of a lock's address, if the call waits for one; else 0. */
static __always_inline __u32 lock_of(const __u64 *args)
{
	return (args[1] & FUTEX_COMMAND) == FUTEX_WAIT && (__u32)args[2] == LOCK_CONTENDED
		       ? (__u32)args[0]
		       : 0;
}

/* It begins to wait for a lock. */
static __always_inline void see_owner(__u32 lock, __u32 thread, const __u64 *args, __u64 now)
{
	__u32 words[LOCK_WAIT_WORDS] = {};
	struct owner is = {.since = now};

	if (!bpf_probe_read_user(words, sizeof(words), (void *)args[0]))
		is.tid = lock_wait_holder(words);
	struct owner *o = bpf_map_lookup_elem(&owners, &lock);
	if (!o) {
		if (bpf_map_update_elem(&owners, &lock, &is, BPF_ANY))
			counts.dropped++;
		return;
	}
	if (o->woken == thread)
		o->woken = 0; /* another was faster */
	if (is.tid && o->tid != is.tid) {
		o->tid = is.tid;
		o->since = now;
	}
}

/* It has waited for a lock. */
static __always_inline void see_woken(__u32 lock, __u32 thread, __u64 now)
{
	struct owner *o = bpf_map_lookup_elem(&owners, &lock);

	if (o) {
		o->woken = thread;
		o->woken_at = now;
	}
}

/* It gives a lock back. */
static __always_inline void see_wake(struct task_struct *task, __u32 lock, __u64 now)
{
	struct closeup_hold hold = {.until = now, .lock = lock};
	struct owner *o = bpf_map_lookup_elem(&owners, &lock);

	if (!o)
		return;
	if (o->tid && o->tid == own_tid(task))
		hold.from = o->since;
	if (o->woken == (__u32)bpf_get_current_pid_tgid() &&
	    (!hold.from || o->woken_at < hold.from))
		hold.from = o->woken_at;
	o->tid = 0;
	o->woken = 0;
	hold.tid = shown_tid(task);
	if (hold.from && bpf_map_push_elem(&holds, &hold, 0))
		counts.dropped++;
}

SEC("raw_tp/sys_enter")
int closeup_enter(struct bpf_raw_tracepoint_args *ctx)
{
	struct task_struct *task = current_task();
	__u32 call = (__u32)ctx->args[1], thread = (__u32)bpf_get_current_pid_tgid();
	struct begun b = {};
	struct arch_regs regs;
	__u64 args[6];

	if (call >= SYSCALL_COMPAT || !is_chosen(task) ||
	    ARCH_IS_COMPAT(TASK_READ(task, ARCH_COMPAT_WORD)) ||
	    bpf_probe_read_kernel(&regs, sizeof(regs), (void *)ctx->args[0]))
		return 0;
	arch_syscall_args(&regs, false, args);
	counts.calls++;
	b.call = call;
	b.timeout = timeout_of(&plans[call & (SYSCALL_COMPAT - 1)], args);
	b.args[0] = args[0];
	b.args[1] = args[1];
	b.args[2] = args[2];
	b.start = bpf_ktime_get_ns();
	if (call == ARCH_FUTEX && lock_of(args))
		see_owner(lock_of(args), thread, args, b.start);
	else if (call == ARCH_FUTEX && (args[1] & FUTEX_COMMAND) == FUTEX_WAKE)
		see_wake(task, (__u32)args[0], b.start);
	if (bpf_map_update_elem(&threads, &thread, &b, BPF_ANY))
		counts.dropped++;
	return 0;
}

static __always_inline bool is_nothing(const volatile struct closeup_plan *plan,
				       const struct begun *b, __s64 result)
{
	__u64 op = b->args[1] & FUTEX_COMMAND;

	switch (plan->nothing) {
	case CLOSEUP_ZERO:
		return result == 0;
	case CLOSEUP_AGAIN:
		return result == -ERROR_AGAIN;
	case CLOSEUP_WAITS:
		return result == 0;
	case CLOSEUP_FUTEX:
		return (op == FUTEX_WAIT || op == FUTEX_WAIT_BITS) &&
		       (result == -ERROR_AGAIN || result == -ERROR_TIMED_OUT);
	default:
		return false;
	}
}

/* Whether a descriptor is of /proc itself, or of a file below one of its numbers. */
static __always_inline void look_at_file(struct task_struct *task, __u64 fd, __u8 what)
{
	struct fdtable *table = BPF_CORE_READ(task, files, fdt);
	struct file **files = BPF_CORE_READ(table, fd), *file = NULL;
	unsigned char first = 0;

	if (fd >= BPF_CORE_READ(table, max_fds) ||
	    bpf_probe_read_kernel(&file, sizeof(file), files + fd) || !file)
		return;
	struct dentry *entry = BPF_CORE_READ(file, f_path.dentry);
	if (BPF_CORE_READ(entry, d_inode, i_sb, s_magic) != PROC_MAGIC)
		return;
	struct dentry *parent = BPF_CORE_READ(entry, d_parent);
	if (what == CLOSEUP_LISTS) {
		counts.proc_lists += parent == entry;
		return;
	}
	const unsigned char *name = BPF_CORE_READ(parent, d_name.name);
	bpf_probe_read_kernel(&first, sizeof(first), name);
	counts.proc_opens += parent != entry && first >= '0' && first <= '9';
}

static __always_inline void add(struct closeup_key *key, __u64 ns)
{
	struct closeup_sum *sum = bpf_map_lookup_elem(&sums, key), first = {1, ns};

	if (sum) {
		sum->count++;
		sum->ns += ns;
	} else if (bpf_map_update_elem(&sums, key, &first, BPF_ANY)) {
		counts.dropped++;
	}
}

SEC("raw_tp/sys_exit")
int closeup_exit(struct bpf_raw_tracepoint_args *ctx)
{
	struct task_struct *task = current_task();
	__u32 thread = (__u32)bpf_get_current_pid_tgid();
	__s64 result = (__s64)ctx->args[1];
	struct closeup_key key = {};

	if (!is_chosen(task))
		return 0;
	struct begun *b = bpf_map_lookup_elem(&threads, &thread);
	if (!b || b->call == SYSCALL_UNKNOWN)
		return 0;
	const volatile struct closeup_plan *plan = &plans[b->call & (SYSCALL_COMPAT - 1)];
	key.tid = shown_tid(task);
	key.call = (__u16)b->call;
	key.timeout = b->timeout;
	if (plan->nothing == CLOSEUP_FUTEX)
		key.lock = lock_of(b->args);
	if (key.lock && result == 0)
		see_woken(key.lock, thread, bpf_ktime_get_ns());
	if (is_nothing(plan, b, result)) {
		key.result = CLOSEUP_EMPTY;
	} else if (result < 0 && result >= -ERROR_MAX) {
		key.result = CLOSEUP_FAILED;
		key.error = (__u16)-result;
		if (plan->path)
			bpf_probe_read_user_str(
				counts.failed, sizeof(counts.failed),
				(void *)(plan->path == 1 ? b->args[0] : b->args[1]));
	} else if (plan->file) {
		look_at_file(task, plan->file == CLOSEUP_OPENS ? (__u64)result : b->args[0],
			     plan->file);
	}
	add(&key, bpf_ktime_get_ns() - b->start);
	b->call = SYSCALL_UNKNOWN;
	return 0;
}
