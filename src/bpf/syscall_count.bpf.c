// SPDX-License-Identifier: GPL-2.0
/*
 * Counts system calls where they end, and times them from where they began.
 *
 * They are counted at their end, since only that knows the result, and since a call that seccomp
 * refuses has no beginning. What is wrong there is put right:
 *
 *	a new child or thread returns from a clone() that its parent called: not counted
 *	exit and exit_group do not return: counted when their thread ends
 *	rt_sigreturn has lost its number by then, and its result is not one
 *	execve in a thread that is not the first one returns under another tid
 *
 * The tracepoints run with preemption off, and nothing that interrupts them makes system calls: so
 * what belongs to a CPU is written without locks.
 */
#include "bpf/filter.bpf.h"
#include "bpf/syscall_wire.h"

char LICENSE[] SEC("license") = "GPL";

const volatile struct syscall_choice choice;
const volatile __u8 kinds[SYSCALL_CALLS]; /* of enum syscall_kind */

volatile __u32 generation; /* of the slots to be written: 0 or 1 */
__u64 no_room;             /* calls that were not timed, as `threads` was full */

/*
 * Everybody's; and in them, calls of owners that found no room in `owned`. By CPUs that are there:
 * maps that the kernel itself divides by CPU have room for all that could ever be. Behind them is
 * room for what a CPU that came later did not find room for.
 */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 1); /* set by the loader */
	__type(key, __u32);
	__type(value, struct syscall_slot);
} slots SEC(".maps");

struct { /* of owners, and of CPUs that came later */
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 1); /* set by the loader */
	__type(key, struct syscall_slot_key);
	__type(value, struct syscall_owned_slot);
} owned SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 16384);
	__type(key, struct syscall_error_key);
	__type(value, __u64);
} errors SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 1); /* set by the loader */
	__type(key, __u32);
	__type(value, struct syscall_thread);
} threads SEC(".maps");

struct caller {
	struct task_struct *task;
	__u32 pid, tid; /* as our namespace has them */
};

/* As bpf_get_current_pid_tgid() has them, but by loads where the kernel allows that. */
static __always_inline __u32 kernel_pid(struct task_struct *task)
{
	return task_is_typed() ? (__u32)task->tgid : bpf_get_current_pid_tgid() >> 32;
}

static __always_inline __u32 kernel_tid(struct task_struct *task)
{
	return task_is_typed() ? (__u32)task->pid : (__u32)bpf_get_current_pid_tgid();
}

static __always_inline bool is_chosen_id(__u32 id)
{
	return choice.target ? id == choice.target : is_target(id);
}

/* Fills in who it is, and whether the filters let it pass. */
static __always_inline bool is_chosen(struct caller *c)
{
	c->task = current_task();
	if (filter.pid_namespace) {
		c->pid = inner_pid(TASK_READ(c->task, group_leader));
		c->tid = inner_pid(c->task);
	} else {
		c->pid = kernel_pid(c->task);
		c->tid = kernel_tid(c->task);
	}
	if (c->pid == choice.self || (filter.by_pid && !is_chosen_id(c->pid)))
		return false;
	if (filter.by_tid && !is_chosen_id(c->tid))
		return false;
	if (filter.by_comm) {
		char comm[WIRE_COMM] = {};
		bpf_probe_read_kernel_str(comm, sizeof(comm),
					  &TASK_READ(c->task, group_leader)->comm);
		if (!same_comm(comm))
			return false;
	}
	return !filter.by_cgroup || in_cgroup(c->task);
}

static __always_inline __u32 call_of(struct task_struct *task, long number)
{
	bool compat = ARCH_IS_COMPAT(TASK_READ(task, ARCH_COMPAT_WORD));

	if (number < 0)
		number = compat ? choice.compat_sigreturn : choice.sigreturn;
	if ((__u64)number >= SYSCALL_UNKNOWN)
		number = SYSCALL_UNKNOWN;
	return (__u32)number + (compat ? SYSCALL_COMPAT : 0);
}

static __always_inline __u64 owner(const struct caller *c)
{
	struct cgroup *group;

	switch (choice.by) {
	case SYSCALL_BY_PROCESS:
		return c->pid;
	case SYSCALL_BY_THREAD:
		return c->tid;
	case SYSCALL_BY_CGROUP:
		group = task_cgroup(c->task);
		return BPF_CORE_READ(group, kn, id);
	default:
		return 0;
	}
}

static __always_inline struct syscall_owned_slot *new_owned_slot(const struct syscall_slot_key *key,
								 struct task_struct *task)
{
	struct syscall_owned_slot empty = {};

	if (choice.by == SYSCALL_BY_PROCESS)
		bpf_probe_read_kernel_str(empty.comm, sizeof(empty.comm),
					  &TASK_READ(task, group_leader)->comm);
	else if (choice.by == SYSCALL_BY_THREAD)
		bpf_probe_read_kernel_str(empty.comm, sizeof(empty.comm), &task->comm);
	bpf_map_update_elem(&owned, key, &empty, BPF_NOEXIST);
	return bpf_map_lookup_elem(&owned, key);
}

static __always_inline struct syscall_slot *find_slot(__u64 id, __u32 call, __u32 turn,
						      struct task_struct *task)
{
	__u32 cpu = bpf_get_smp_processor_id();

	if (choice.by != SYSCALL_BY_NOBODY || cpu >= choice.cpus) {
		struct syscall_slot_key key = {
			.id = id, .cpu = cpu, .call = call, .generation = turn};
		struct syscall_owned_slot *s = bpf_map_lookup_elem(&owned, &key);
		if (!s)
			s = new_owned_slot(&key, task);
		if (s)
			return &s->slot;
	}
	__u32 at = syscall_slot_at(cpu < choice.cpus ? cpu : choice.cpus, turn, call);
	return bpf_map_lookup_elem(&slots, &at);
}

static __always_inline void count_error(__u64 id, __u32 call, __u32 turn, long result)
{
	struct syscall_error_key key = {
		.id = id,
		.call = call,
		.error = -result,
		.cpu = bpf_get_smp_processor_id(),
		.generation = turn,
	};
	__u64 one = 1, *count = bpf_map_lookup_elem(&errors, &key);

	if (count)
		*count += 1;
	else
		bpf_map_update_elem(&errors, &key, &one, BPF_NOEXIST);
}

static __always_inline __u32 log2_of(__u64 n)
{
	__u32 log = 0;

#pragma unroll
	for (int bits = 32; bits; bits /= 2) {
		if (n >> bits) {
			n >>= bits;
			log += bits;
		}
	}
	return log;
}

static __always_inline void add_time(struct syscall_slot *s, __u64 ns)
{
	__u64 bucket = log2_of(ns);

	if (!s->timed || ns < s->min_ns)
		s->min_ns = ns;
	if (ns > s->max_ns)
		s->max_ns = ns;
	s->timed++;
	s->total_ns += ns;
	barrier_var(bucket);
	if (bucket >= SYSCALL_BUCKETS)
		bucket = SYSCALL_BUCKETS - 1;
	s->buckets[bucket]++;
}

/* The verifier must see that it is bounded, which the compiler knows already. */
static __always_inline __u8 kind_of(__u64 call)
{
	barrier_var(call);
	return kinds[call & (SYSCALL_CALLS - 1)];
}

static __always_inline bool is_failure(__u8 kind, long result)
{
	return result < 0 && result >= -4095 && !(kind & SYSCALL_NO_RESULT);
}

/* Whether a call that ends with this result is one of those that are counted. */
static __always_inline bool is_wanted(__u8 kind, long result)
{
	if (!(kind & SYSCALL_WANTED) || (kind & SYSCALL_FORKS && result == 0))
		return false;
	if (choice.only_failed && !is_failure(kind, result))
		return false;
	return !choice.only_error ||
	       (is_failure(kind, result) && result == -(long)choice.only_error);
}

/* `begun`: the thread's entry in `threads`, if it was seen at the beginning of this call. */
static __always_inline int count_call(const struct caller *c, __u64 id, __u32 call, long result,
				      const struct syscall_thread *begun)
{
	__u32 turn = generation & 1;
	__u8 kind = kind_of(call);

	if (!is_wanted(kind, result))
		return 0;
	struct syscall_slot *s = find_slot(id, call, turn, c->task);
	if (!s)
		return 0; /* cannot be: there is one for each call */
	s->calls++;
	if (is_failure(kind, result)) {
		s->errors++;
		count_error(id, call, turn, result);
	}
	if (begun)
		add_time(s, bpf_ktime_get_ns() - begun->start_ns);
	return 0;
}

SEC("tp_btf/sys_exit")
int count_exit(__u64 *ctx)
{
	const struct arch_regs *regs = (void *)ctx[0];
	struct caller c;

	if (!is_chosen(&c))
		return 0;
	return count_call(&c, owner(&c), call_of(c.task, (long)ARCH_SYSCALL(regs)), (long)ctx[1],
			  NULL);
}

SEC("tp_btf/sys_enter")
int time_enter(__u64 *ctx)
{
	__u32 tid = kernel_tid(current_task());
	struct caller c;

	if (!is_chosen(&c))
		return 0;
	struct syscall_thread *t = bpf_map_lookup_elem(&threads, &tid);
	if (!t) { /* its first one; no room: the call is counted, but not timed */
		struct syscall_thread empty = {};
		bpf_map_update_elem(&threads, &tid, &empty, BPF_NOEXIST);
		t = bpf_map_lookup_elem(&threads, &tid);
	}
	if (!t) {
		__sync_fetch_and_add(&no_room, 1);
		return 0;
	}
	t->call = call_of(c.task, (long)ctx[1]);
	t->id = owner(&c);
	t->start_ns = bpf_ktime_get_ns();
	return 0;
}

SEC("tp_btf/sys_exit")
int time_exit(__u64 *ctx)
{
	const struct arch_regs *regs = (void *)ctx[0];
	__u32 tid = kernel_tid(current_task());
	struct syscall_thread *t = bpf_map_lookup_elem(&threads, &tid);
	struct caller c;

	if (t && t->start_ns) { /* what passed the filters at its beginning is not asked again */
		c.task = current_task();
		count_call(&c, t->id, t->call, (long)ctx[1], t);
		t->start_ns = 0;
		return 0;
	}
	if (!is_chosen(&c))
		return 0;
	return count_call(&c, owner(&c), call_of(c.task, (long)ARCH_SYSCALL(regs)), (long)ctx[1],
			  NULL);
}

static __always_inline void count_without_return(const struct caller *c, __u64 id, __u32 call)
{
	__u8 kind = kind_of(call);

	if (!(kind & SYSCALL_WANTED) || choice.only_failed || choice.only_error)
		return;
	struct syscall_slot *s = find_slot(id, call, generation & 1, c->task);
	if (s && kind & SYSCALL_ENDS)
		s->calls++;
	else if (s)
		s->unfinished++;
}

/* At a thread's end, counting only: was it by a call? */
SEC("tp_btf/sched_process_exit")
int count_end(void *ctx)
{
	struct caller c;

	(void)ctx;
	if (!is_chosen(&c))
		return 0;
	struct arch_regs *regs = saved_registers(c.task);
	__typeof__(ARCH_SYSCALL(regs)) number = -1;
	bpf_probe_read_kernel(&number, sizeof(number), &ARCH_SYSCALL(regs));
	__u32 call = call_of(c.task, (long)number);
	if (kind_of(call) & SYSCALL_ENDS)
		count_without_return(&c, owner(&c), call);
	return 0;
}

SEC("tp_btf/sched_process_exit")
int time_end(void *ctx)
{
	__u32 tid = kernel_tid(current_task());
	struct syscall_thread *t = bpf_map_lookup_elem(&threads, &tid);
	struct caller c = {.task = current_task()};

	(void)ctx;
	if (!t)
		return 0;
	if (t->start_ns)
		count_without_return(&c, t->id, t->call);
	bpf_map_delete_elem(&threads, &tid);
	return 0;
}

/* A thread that runs another program becomes the first one of its process: its tid changes. */
SEC("tp_btf/sched_process_exec")
int time_exec(const __u64 *ctx)
{
	__u32 before = (__u32)ctx[1], tid = kernel_tid(current_task());
	struct syscall_thread *t = bpf_map_lookup_elem(&threads, &before);

	if (before == tid || !t)
		return 0;
	struct syscall_thread moved = *t;
	bpf_map_update_elem(&threads, &tid, &moved, BPF_ANY);
	bpf_map_delete_elem(&threads, &before);
	return 0;
}

/* The program that we started is counted from its own first call on: not what we do in its place.
 */
SEC("tp_btf/sched_process_exec")
int program_begins(void *ctx)
{
	__u32 pid = process_id(current_task());
	__u8 one = 1;

	(void)ctx;
	if (pid == choice.program)
		bpf_map_update_elem(&targets, &pid, &one, BPF_ANY);
	return 0;
}
