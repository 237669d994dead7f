// SPDX-License-Identifier: GPL-2.0
/*
 * sample: runs at each tick of a perf event on each CPU and writes who was running, with the kernel
 * and user stacks, into the CPU's ring. Nothing is woken: user space drains on a timer.
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
#include "bpf/walk.bpf.h"
#include "bpf/orc.bpf.h"

char LICENSE[] SEC("license") = "GPL";

const volatile struct wire_filter filter = {.cgroup_subsys = -1};

#define CGROUP_DEPTH 1024 /* more than a path has room for by far */
#define TARGETS_MAX  16384

struct { /* pids or tids to sample, when the filter says so */
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, TARGETS_MAX);
	__type(key, __u32);
	__type(value, __u8);
} targets SEC(".maps");

struct { /* one a CPU, set by the loader: all of them in one or two lines of the cache */
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct wire_counts);
} counters SEC(".maps");

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
		if (BPF_CORE_READ(at.ns, ns.inum) == filter.pid_namespace)
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

/* Whether execve has put a new program's memory in place while the registers are the old one's. */
static __always_inline bool in_new_program(const struct arch_regs *regs)
{
	__u64 word;

	return (ARCH_SYSCALL(regs) == ARCH_EXECVE || ARCH_SYSCALL(regs) == ARCH_EXECVEAT) &&
	       bpf_probe_read_user(&word, sizeof(word), (void *)ARCH_SP(regs)) != 0;
}

enum user { USER_GONE, USER_32_BIT, USER_64_BIT };

/* The user's registers: those that were interrupted, or those saved on entry to the kernel. */
static __always_inline enum user user_registers(struct bpf_perf_event_data *ctx,
						struct task_struct *task, bool in_kernel,
						struct scratch *s)
{
	struct walk *w = &s->walk;
	/* Not on the stack, which is small; what the walk puts there comes later. */
	struct arch_regs *regs = (void *)s->piece;

	if (!in_kernel) {
		w->pc = ARCH_PC(&ctx->regs);
		w->sp = ARCH_SP(&ctx->regs);
		w->fp = ARCH_FP(&ctx->regs);
		w->kept = ARCH_KEPT(&ctx->regs);
		w->leaf = ARCH_LEAF(&ctx->regs);
		w->exact = 1;
		__u64 mode = ARCH_MODE(&ctx->regs);
		barrier_var(mode); /* or the compiler makes one load of both, which is refused */
		return ARCH_MODE_IS_64_BIT(mode) ? USER_64_BIT : USER_32_BIT;
	}
	void *at;
	if (bpf_core_enum_value_exists(enum bpf_func_id___kernel, BPF_FUNC_task_pt_regs___kernel))
		at = (void *)bpf_task_pt_regs(bpf_get_current_task_btf());
	else
		at = (char *)BPF_CORE_READ(task, stack) + ARCH_KERNEL_STACK - ARCH_REGS_BYTES;
	if (bpf_probe_read_kernel(regs, sizeof(*regs), at) != 0 || in_new_program(regs))
		return USER_GONE;
	if (!ARCH_PC(regs)) /* a thread of io_uring's or vhost's: it never was in user code */
		return USER_GONE;
	w->pc = ARCH_PC(regs);
	w->sp = ARCH_SP(regs);
	w->fp = ARCH_FP(regs);
	w->kept = ARCH_KEPT(regs);
	w->leaf = ARCH_LEAF(regs);
	w->exact = !arch_is_after_syscall(regs);
	return ARCH_MODE_IS_64_BIT(ARCH_MODE(regs)) ? USER_64_BIT : USER_32_BIT;
}

/* One more chunk of a stack: 0 to go on. Global, so that the verifier looks at it once. */
__noinline int copy_chunk(int chunk)
{
	struct scratch *s = get_scratch();
	if (!s || chunk < 0)
		return 1;
	struct copy *c = &s->copy;
	__u32 at = c->at + c->bytes;
	if (at > WIRE_SAMPLE_MAX - sizeof(struct wire_sample) - WIRE_STACK_CHUNK ||
	    c->from >= c->end)
		return 1;

	__u8 *to = (__u8 *)(open_sample(s) + 1) + at;
	long r = bpf_probe_read_user(to, WIRE_STACK_CHUNK, (void *)c->from);
	c->from += WIRE_STACK_CHUNK;
	if (r == 0)
		c->bytes += WIRE_STACK_CHUNK;
	else if (c->bytes)
		return 1; /* the end of the stack */
	else
		c->skipped++;
	return 0;
}

/*
 * The top of the user's stack, behind the frames, for user space to walk. Chunks begin where sp
 * rounded down does: each lies in one page, so the last one is read whole as well. A frame that is
 * being made may reach down to where there is no memory yet: what is above it is copied. But not
 * what lies above `top`, where the program began: arguments and environment are no frames, and
 * nobody's business.
 */
static __always_inline __u32 copy_stack(struct scratch *s, __u32 frames, __u64 sp, __u64 top)
{
	s->copy = (struct copy){
		.from = sp & ~(WIRE_STACK_CHUNK - 1ull),
		.end = sp <= top ? top + 2 * sizeof(__u64) : ~0ull,
		.at = frames * sizeof(__u64),
	};
	for (int i = 0; i < WIRE_STACK_CHUNKS; i++)
		if (copy_chunk(i) != 0)
			break;
	open_sample(s)->stack_skip = s->copy.skipped;
	return s->copy.bytes;
}

static __always_inline void walk_by_frame_pointers(struct bpf_perf_event_data *ctx,
						   struct scratch *s, __u32 kernel)
{
	struct wire_sample *h = open_sample(s);
	long n = bpf_get_stack(ctx, frame_at(s, kernel & WIRE_FRAMES), WIRE_FRAMES * sizeof(__u64),
			       BPF_F_USER_STACK);

	h->flags |= WIRE_FRAME_POINTERS;
	h->user_frames = n > 0 ? (__u64)n / sizeof(__u64) : 0;
	h->walk = h->user_frames >= WIRE_FRAMES ? WIRE_WALK_CUT : WIRE_WALK_NO_MAPPING;
}

/* What is before the tail was read: it may be written again. */
static __always_inline __u64 ring_used(struct wire_ring *ring)
{
	__u64 tail = ARCH_LOAD_ACQUIRE(&ring->tail), from = MAX(tail, ring->base);

	return ring->head - from;
}

/* In this order, or user space takes what lies between for samples. */
static __always_inline void begin_anew(struct wire_ring *ring)
{
	__u64 at = (ring->head + ring_bytes - 1) & ~(ring_bytes - 1);

	ring->base = at;
	ARCH_STORE_RELEASE(&ring->head, at);
}

/* Also for the head of the next one: some of that is written before it is known if there is room.
 */
static __always_inline bool has_room(struct wire_ring *ring, __u64 bytes)
{
	return ring_used(ring) + bytes + sizeof(struct wire_sample) <= ring_bytes;
}

/* A quarter is left to samples alone: a stack that is copied takes the room of a hundred. */
static __always_inline bool has_room_to_copy(struct wire_ring *ring)
{
	return has_room(ring, WIRE_SAMPLE_MAX + ring_bytes / 4);
}

static __always_inline void user_side(struct bpf_perf_event_data *ctx, struct scratch *s,
				      struct task_struct *task, bool in_kernel,
				      struct wire_counts *counts)
{
	struct wire_sample *h = open_sample(s);
	struct walk *w = &s->walk;
	__u32 kernel = h->kernel_frames;

	enum user user = user_registers(ctx, task, in_kernel, s);
	if (user == USER_GONE) {
		h->flags |= WIRE_NO_USER;
		return;
	}
	if (user == USER_32_BIT) {
		walk_by_frame_pointers(ctx, s, kernel);
		return;
	}
	h->pc = w->pc;
	h->sp = w->sp;
	h->fp = w->fp;
	h->kept = w->kept;
	h->leaf = w->leaf;
	if (!w->exact)
		h->flags |= WIRE_SYSCALL;
	if (!ARCH_HAS_WALK) {
		walk_by_frame_pointers(ctx, s, kernel);
		return;
	}
	/* A child that has not run another program has its parent's mappings. */
	if (walk_find_process(h->pid) ||
	    walk_find_process(BPF_CORE_READ(task, group_leader, real_parent, tgid))) {
		w->base = kernel;
		h->walk = walk_user(w);
		h->user_frames = MIN(w->frames, WIRE_USER_FRAMES);
		h->left_out = w->frames - h->user_frames;
		h->version = w->version;
	} else {
		h->walk = WIRE_WALK_NO_MAPPING;
	}
	/* Where what was missing is something that user space may know by now, it walks again. */
	if (h->walk == WIRE_WALK_NO_MAPPING || (h->flags & WIRE_NO_TABLE)) {
		if (has_room_to_copy(&s->ring))
			h->stack_bytes = copy_stack(
				s, (kernel & WIRE_FRAMES) + (h->user_frames & WIRE_FRAMES_MASK),
				h->sp, BPF_CORE_READ(task, mm, start_stack));
		else
			counts->n[WIRE_NOT_COPIED]++;
	}
	if (!h->version && !h->stack_bytes)
		walk_by_frame_pointers(ctx, s, kernel);
}

static __always_inline __u32 ask_kernel(struct bpf_perf_event_data *ctx, __u64 *frames)
{
	long n = bpf_get_stack(ctx, frames, WIRE_FRAMES * sizeof(__u64), 0);

	return n > 0 ? (__u64)n / sizeof(__u64) : 0;
}

/* Writes the kernel's frames; how many. */
static __always_inline __u32 kernel_side(struct bpf_perf_event_data *ctx, struct scratch *s,
					 struct task_struct *task, struct wire_counts *counts)
{
	__u32 frames;

	if (!orc_is_usable() || s->orc.wrong || !(frames = orc_walk(s, ctx, task))) {
		counts->n[WIRE_KERNEL_ASKED]++;
		return ask_kernel(ctx, frame_at(s, 0));
	}
	counts->n[WIRE_KERNEL_WALKED]++;
	__u32 walks = s->orc.walks++;
	if (!filter.check_kernel && walks >= ORC_CHECK_FIRST && walks % ORC_CHECK_EVERY)
		return frames;
	counts->n[WIRE_KERNEL_COMPARED]++;
	if (ask_kernel(ctx, s->check) == frames && orc_same(frames))
		return frames;
	counts->n[WIRE_KERNEL_DIFFERENT]++;
	s->orc.wrong = !filter.check_kernel;
	return ask_kernel(ctx, frame_at(s, 0));
}

/* Whether the filters let a sample pass that the pid alone does not decide. */
static __always_inline bool passes(struct task_struct *task, const char *comm)
{
	if (filter.by_cgroup && !in_cgroup(task))
		return false;
	return !filter.by_comm || same_comm(comm);
}

/* The bytes of a word before its first 0. */
static __always_inline __u64 before_nul(__u64 word)
{
	__u64 nuls = (word - 0x0101010101010101ull) & ~word & 0x8080808080808080ull;

	return nuls ? word & (((nuls & -nuls) >> 7) - 1) : word;
}

/* Two loads where the kernel lets us: a helper's code is a miss or two, and the name is behind it.
 */
static __always_inline void read_comm(char *to, struct task_struct *task)
{
	__u64 *words = (__u64 *)to;

	if (!task_is_typed()) {
		words[0] = words[1] = 0;
		bpf_probe_read_kernel_str(to, WIRE_COMM, &task->comm);
		return;
	}
	const __u64 *comm = (const __u64 *)task->comm;
	__u64 low = comm[0], high = comm[1]; /* what is behind the end may be anything */
	words[0] = before_nul(low);
	words[1] = words[0] == low && low >> 56 ? before_nul(high) : 0;
}

#define TOUCH(memory) ((void)*(volatile __u64 *)(memory))

/*
 * Loads what is used later, lines that have left the cache and do not depend on each other: so they
 * come together, not one after the other when it is their turn.
 */
static __always_inline void touch(struct scratch *s, struct wire_counts *counts, __u32 pid,
				  __u64 pc)
{
	struct wire_sample *h = open_sample(s);
	__u32 at = unwind_bucket(pid);
	struct unwind_bucket *b = bpf_map_lookup_elem(&processes, &at);

	if (b)
		TOUCH(b);
	TOUCH(&counts->n[WIRE_TAKEN]);
	TOUCH(&s->walk.version);
	TOUCH(&s->walk.low);
	TOUCH(&s->known[leaf_place(pc)]);
	TOUCH(&h->time);
	TOUCH(&h->sp);
	TOUCH(&h->comm);
	TOUCH(frame_at(s, 6));
	TOUCH(frame_at(s, 14));
	for (int i = 0; i < WALK_PIECE; i += 16)
		TOUCH(&s->piece[i]);
	if ((long)pc < 0) {
		TOUCH(&s->orc.pc);
		TOUCH(&s->orc.frames);
		TOUCH(&s->orc_known[orc_leaf_place(pc)]);
	}
}

SEC("perf_event")
int sample(struct bpf_perf_event_data *ctx)
{
	__u64 began = bpf_ktime_get_ns();
	struct task_struct *task = current_task();
	__u32 pid = TASK_READ(task, tgid), tid = TASK_READ(task, pid);
	__u32 cpu = bpf_get_smp_processor_id();
	struct wire_counts *counts = bpf_map_lookup_elem(&counters, &cpu);

	if (!counts)
		return 0; /* cannot be: the loader made one for each CPU */
	counts->n[WIRE_TICKS]++;
	if (pid == 0 && !filter.idle)
		return 0;
	if (filter.pid_namespace) {
		pid = inner_pid(TASK_READ(task, group_leader));
		tid = inner_pid(task);
	}
	if (filter.by_pid && !is_target(pid))
		return 0;
	if (filter.by_tid && !is_target(tid))
		return 0;

	struct scratch *s = get_scratch();
	if (!s)
		return 0; /* cannot be: a CPU without one is not sampled */
	struct wire_ring *ring = &s->ring;
	if (ARCH_LOAD_ACQUIRE(&ring->tail) == ring->head) /* all was read */
		begin_anew(ring);
	touch(s, counts, pid, ARCH_PC(&ctx->regs));
	struct wire_sample *h = open_sample(s);
	struct task_struct *leader = TASK_READ(task, group_leader);
	read_comm(h->thread, task);
	read_comm(h->comm, leader);
	if (!passes(task, h->comm))
		return 0;
	counts->n[WIRE_TAKEN]++;
	if (!has_room(ring, WIRE_PLAIN_MAX)) {
		counts->n[WIRE_RING_FULL]++;
		counts->n[WIRE_RUN_NS] += bpf_ktime_get_ns() - began;
		return 0;
	}

	bool in_kernel = (long)ARCH_PC(&ctx->regs) < 0;
	/* Kernel threads, and a process that gave its memory up. */
	bool no_user = TASK_READ(task, flags) & PF_KTHREAD || !TASK_READ(task, mm);
	if (filter.pid_namespace && !pid) /* beyond our /proc: nothing could be named */
		no_user = true;
	h->time = began;
	h->start = TASK_READ(leader, start_boottime);
	h->exec = TASK_READ(task, self_exec_id);
	h->weight = ctx->sample_period;
	h->cgroup = filter.cgroups ? BPF_CORE_READ(task_cgroup(task), kn, id) : 0;
	h->pc = 0;
	h->pid = pid;
	h->tid = tid;
	h->version = 0;
	h->stack_bytes = 0;
	h->cpu = cpu;
	h->flags = (in_kernel ? WIRE_IN_KERNEL : 0) | (no_user ? WIRE_NO_USER : 0);
	h->walk = WIRE_WALK_NONE;
	h->kernel_frames = h->user_frames = h->left_out = 0;

	if (in_kernel && !filter.no_kernel) {
		h->kernel_frames = kernel_side(ctx, s, task, counts);
		if (h->kernel_frames >= WIRE_FRAMES)
			h->flags |= WIRE_KERNEL_CUT;
	}
	if (!no_user && !filter.no_user) {
		bool timed = (began >> 10) % WIRE_TIMED == 0;
		__u64 before = timed ? bpf_ktime_get_ns() : 0;
		user_side(ctx, s, task, in_kernel, counts);
		if (timed)
			counts->n[WIRE_WALK_NS] += (bpf_ktime_get_ns() - before) * WIRE_TIMED;
	}

	__u64 frames = h->kernel_frames + h->user_frames;
	__u64 end = ring->head + sizeof(*h) + frames * sizeof(__u64) + h->stack_bytes;
	ARCH_STORE_RELEASE(&ring->head, end);
	counts->n[WIRE_RUN_NS] += bpf_ktime_get_ns() - began;
	return 0;
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
