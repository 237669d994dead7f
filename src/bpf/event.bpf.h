/*
 * event: what every source of events does with one: filter it, and write a record of it into the
 * CPU's ring: its process, its kernel and user stacks. Nothing is woken: user space drains on a
 * timer.
 *
 * A source is a BPF object of its own that includes this file, calls event_emit() where its events
 * happen, and shares with the others only what is read: the tables of the walk (walk.bpf.h) and the
 * targets of the filter. Its rings, counters and the state of a walk under way are its own, so
 * sources may interrupt each other: both events are written.
 *
 * Which can? The kernel runs no perf program (a timer's, or an NMI's) while another perf program, a
 * kprobe's or a plain tracepoint's runs on the same CPU (it counts them: bpf_prog_active): such a
 * tick is skipped, and counted as one that did not come (sampler_ticks()). So an NMI's program is
 * never run inside a timer's. Either can interrupt a program at a raw tracepoint, because the
 * kernel does not count those: tests/unit/test_sources.c proves this for the timer; for NMIs it is
 * untested (our machines have no PMU). A source is not expected to interrupt itself: what a program
 * does here reaches none of the tracepoints that a source may be attached to. If it happens
 * nevertheless, the inner event is dropped and counted (WIRE_NESTED), and the outer one is written.
 *
 * A source whose events have more to say defines EVENT_DETAILS, the number of its own words, before
 * it includes this file, and passes the words to event_emit_args().
 */
#pragma once

#include <linux/bpf_perf_event.h>

#include "bpf/filter.bpf.h"
#include "bpf/walk.bpf.h"
#include "bpf/orc.bpf.h"

char LICENSE[] SEC("license") = "GPL";

const volatile __u16 source; /* which one this is: set by the loader */

struct { /* one a CPU, set by the loader: all of them in one or two lines of the cache */
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct wire_counts);
} counters SEC(".maps");

/* Whether execve has put a new program's memory in place while the registers are the old one's. */
static __always_inline bool in_new_program(const struct arch_regs *regs)
{
	__u64 word;

	return (ARCH_SYSCALL(regs) == ARCH_EXECVE || ARCH_SYSCALL(regs) == ARCH_EXECVEAT) &&
	       bpf_probe_read_user(&word, sizeof(word), (void *)ARCH_SP(regs)) != 0;
}

enum user { USER_GONE, USER_32_BIT, USER_64_BIT };

/* The user's registers: those that were interrupted, or those saved on entry to the kernel. */
static __always_inline enum user user_registers(const bpf_user_pt_regs_t *interrupted,
						struct task_struct *task, bool in_kernel,
						struct scratch *s)
{
	struct walk *w = &s->walk;
	/* Not on the stack, which is small; what the walk puts there comes later. */
	struct arch_regs *regs = (void *)s->piece;

	if (!in_kernel) {
		w->pc = ARCH_PC(interrupted);
		w->sp = ARCH_SP(interrupted);
		w->fp = ARCH_FP(interrupted);
		w->kept = ARCH_KEPT(interrupted);
		w->leaf = ARCH_LEAF(interrupted);
		w->exact = 1;
		__u64 mode = ARCH_MODE(interrupted);
		barrier_var(mode); /* or the compiler makes one load of both, which is refused */
		return ARCH_MODE_IS_64_BIT(mode) ? USER_64_BIT : USER_32_BIT;
	}
	void *at = saved_registers(task);
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
	if (at > WIRE_EVENT_MAX - sizeof(struct wire_event) - WIRE_STACK_CHUNK || c->from >= c->end)
		return 1;

	__u8 *to = (__u8 *)(open_event(s) + 1) + at;
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
		.at = (EVENT_DETAILS + frames) * sizeof(__u64),
	};
	for (int i = 0; i < WIRE_STACK_CHUNKS; i++)
		if (copy_chunk(i) != 0)
			break;
	open_event(s)->stack_skip = s->copy.skipped;
	return s->copy.bytes;
}

static __always_inline void walk_by_frame_pointers(void *ctx, struct scratch *s, __u32 kernel)
{
	struct wire_event *h = open_event(s);
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

/* With room for one more head: names are written there before it is known if there is room. */
static __always_inline bool has_room(struct wire_ring *ring, __u64 bytes)
{
	return ring_used(ring) + bytes + sizeof(struct wire_event) <= ring_bytes;
}

/* A quarter is left to samples alone: a stack that is copied takes the room of a hundred. */
static __always_inline bool has_room_to_copy(struct wire_ring *ring)
{
	return has_room(ring, WIRE_EVENT_MAX + ring_bytes / 4);
}

static __always_inline void user_side(void *ctx, const bpf_user_pt_regs_t *interrupted,
				      struct scratch *s, struct task_struct *task, bool in_kernel,
				      struct wire_counts *counts)
{
	struct wire_event *h = open_event(s);
	struct walk *w = &s->walk;
	__u32 kernel = h->kernel_frames;

	forget_returns(w);
	w->context = 0;
	enum user user = user_registers(interrupted, task, in_kernel, s);
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
		h->mappings_version = w->version;
	} else {
		w->context = 0; /* of another program that had this pid */
		h->walk = WIRE_WALK_NO_MAPPING;
	}
	__u32 frames = (kernel & WIRE_FRAMES) + (h->user_frames & WIRE_FRAMES_MASK);
	if (w->context && walk_find_span(w->context)) {
		h->flags |= WIRE_SPAN;
		barrier_var(frames); /* or the compiler proves what old verifiers cannot follow */
		__u64 *to = frame_at(s, frames);
		for (int i = 0; i < WIRE_SPAN_WORDS; i++)
			to[i] = s->words[i];
		frames += WIRE_SPAN_WORDS;
	}
	/* Where what was missing is something that user space may know by now, it walks again. */
	if (h->walk == WIRE_WALK_NO_MAPPING || (h->flags & WIRE_NO_TABLE)) {
		if (has_room_to_copy(&s->ring))
			h->bytes =
				copy_stack(s, frames, h->sp, BPF_CORE_READ(task, mm, start_stack));
		else
			counts->n[WIRE_NOT_COPIED]++;
	}
	if (!h->mappings_version && !h->bytes)
		walk_by_frame_pointers(ctx, s, kernel);
}

static __always_inline __u32 ask_kernel(void *ctx, __u64 *frames)
{
	long n = bpf_get_stack(ctx, frames, WIRE_FRAMES * sizeof(__u64), 0);

	return n > 0 ? (__u64)n / sizeof(__u64) : 0;
}

/* Writes the kernel's frames; how many. */
static __always_inline __u32 kernel_side(void *ctx, const bpf_user_pt_regs_t *interrupted,
					 struct scratch *s, struct task_struct *task,
					 struct wire_counts *counts)
{
	__u32 frames;

	if (!interrupted) /* at a place of the kernel's own, where it walks as fast as we do */
		return ask_kernel(ctx, frame_at(s, 0));
	if (!orc_is_usable() || s->orc.wrong || !(frames = orc_walk(s, interrupted, task))) {
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

/* The bytes of a word before its first 0. */
static __always_inline __u64 before_nul(__u64 word)
{
	__u64 nuls = (word - 0x0101010101010101ull) & ~word & 0x8080808080808080ull;

	return nuls ? word & (((nuls & -nuls) >> 7) - 1) : word;
}

/* Two loads where the kernel allows them: calling a helper costs a cache miss or two. */
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
	struct wire_event *h = open_event(s);
	__u32 at = unwind_bucket(pid);
	struct unwind_bucket *b = bpf_map_lookup_elem(&processes, &at);

	if (b)
		TOUCH(b);
	TOUCH(&counts->n[WIRE_TAKEN]);
	TOUCH(&s->walk.version);
	TOUCH(&s->walk.low);
	TOUCH(&s->cached[leaf_place(pc)]);
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
		TOUCH(&s->orc_cached[orc_leaf_place(pc)]);
	}
}

/* What the program that an event happens in says of it, and, once it is known, whose it is. */
struct event_args {
	struct task_struct *task; /* this and the ids below are set by event_emit_args() */
	__u64 time, value;
	__u32 pid, tid, cpu;
	bool with_cgroup_and_pidns; /* false in NAME_plain: see EVENT_PROGRAM() */
	bool anyone;                /* whatever the filters say */
	bool bare;                  /* without stacks */
	bool uncounted;             /* the source itself counts what it takes and loses */
	const __u64 *details;       /* EVENT_DETAILS of them */
};

enum event { EVENT_FILTERED, EVENT_LOST, EVENT_WRITTEN };

/* Writes one into the ring, if the filters let it pass and there is room. */
static __always_inline enum event write_event(void *ctx, const bpf_user_pt_regs_t *interrupted,
					      struct scratch *s, struct wire_counts *counts,
					      const struct event_args *e)
{
	struct wire_ring *ring = &s->ring;
	struct task_struct *task = e->task, *leader = TASK_READ(task, group_leader);

	if (ARCH_LOAD_ACQUIRE(&ring->tail) == ring->head) /* all was read */
		begin_anew(ring);
	touch(s, counts, e->pid, interrupted ? ARCH_PC(interrupted) : 0);
	struct wire_event *h = open_event(s);
	read_comm(h->thread, task);
	read_comm(h->comm, leader);
	if (!e->anyone && !passes(task, h->comm, e->with_cgroup_and_pidns))
		return EVENT_FILTERED;
	if (!e->uncounted)
		counts->n[WIRE_TAKEN]++;
	if (!has_room(ring, WIRE_PLAIN_MAX)) {
		if (!e->uncounted)
			counts->n[WIRE_RING_FULL]++;
		return EVENT_LOST;
	}

	bool in_kernel = !interrupted || (long)ARCH_PC(interrupted) < 0;
	/* Kernel threads, and a process that gave its memory up. */
	bool kthread = TASK_READ(task, flags) & PF_KTHREAD;
	bool no_user = kthread || !TASK_READ(task, mm);
	if (e->with_cgroup_and_pidns && filter.pid_namespace &&
	    !e->pid) /* beyond our /proc: nothing could be named */
		no_user = true;
	h->time = e->time;
	h->source = source;
	h->cpu = e->cpu;
	h->process_start = TASK_READ(leader, start_boottime);
	h->exec_id = TASK_READ(task, self_exec_id);
	h->value = e->value;
	h->cgroup = e->with_cgroup_and_pidns && filter.cgroups
			    ? BPF_CORE_READ(task_cgroup(task), kn, id)
			    : 0;
	h->pc = 0;
	h->pid = e->pid;
	h->tid = e->tid;
	h->mappings_version = 0;
	h->flags = (in_kernel ? WIRE_IN_KERNEL : 0) | (no_user ? WIRE_NO_USER : 0) |
		   (kthread ? WIRE_KTHREAD : 0);
	h->walk = WIRE_WALK_NONE;
	h->details = EVENT_DETAILS;
	h->kernel_frames = h->user_frames = h->left_out = 0;
	h->bytes = 0; /* of the copy of a stack, until all is known */
	for (int i = 0; i < EVENT_DETAILS; i++)
		((__u64 *)(h + 1))[i] = e->details[i];

	if (in_kernel && !filter.no_kernel && !e->bare) {
		h->kernel_frames = kernel_side(ctx, interrupted, s, task, counts);
		if (h->kernel_frames >= WIRE_FRAMES)
			h->flags |= WIRE_KERNEL_CUT;
	}
	if (!no_user && !filter.no_user && !e->bare) {
		bool timed = (e->time >> 10) % WIRE_TIMED == 0;
		__u64 before = timed ? bpf_ktime_get_ns() : 0;
		user_side(ctx, interrupted, s, task, in_kernel, counts);
		if (timed)
			counts->n[WIRE_WALK_NS] += (bpf_ktime_get_ns() - before) * WIRE_TIMED;
	}
	__u64 words = EVENT_DETAILS + h->kernel_frames + h->user_frames +
		      (h->flags & WIRE_SPAN ? WIRE_SPAN_WORDS : 0);
	h->bytes += sizeof(*h) + words * sizeof(__u64);
	ARCH_STORE_RELEASE(&ring->head, ring->head + h->bytes);
	return EVENT_WRITTEN;
}

/*
 * Writes an event of the current task: as event_emit(), for a source that sets more of struct
 * event_args than the value, or wants to know what became of the event.
 */
static __always_inline enum event event_emit_args(void *ctx, const bpf_user_pt_regs_t *interrupted,
						  struct event_args *e)
{
	struct task_struct *task = current_task();
	e->task = task;
	e->pid = TASK_READ(task, tgid);
	e->tid = TASK_READ(task, pid);
	e->cpu = bpf_get_smp_processor_id();
	struct wire_counts *counts = bpf_map_lookup_elem(&counters, &e->cpu);

	if (!counts)
		return EVENT_FILTERED; /* cannot be: the loader made one for each CPU */
	counts->n[WIRE_RUNS]++;
	if (e->pid == 0 && !filter.idle && !e->anyone)
		return EVENT_FILTERED;
	if (e->with_cgroup_and_pidns && filter.pid_namespace) {
		e->pid = inner_pid(TASK_READ(task, group_leader));
		e->tid = inner_pid(task);
	}
	if (filter.by_pid && !e->anyone && !is_target(e->pid))
		return EVENT_FILTERED;
	if (filter.by_tid && !e->anyone && !is_target(e->tid))
		return EVENT_FILTERED;

	struct scratch *s = get_scratch();
	if (!s)
		return EVENT_FILTERED; /* cannot be: a CPU without one has no events */
	if (s->ring.writing) {
		counts->n[WIRE_NESTED]++;
		return EVENT_LOST;
	}
	s->ring.writing = 1;
	barrier();
	enum event result = write_event(ctx, interrupted, s, counts, e);
	barrier();
	s->ring.writing = 0;
	counts->n[WIRE_RUN_NS] += bpf_ktime_get_ns() - e->time;
	return result;
}

static __always_inline int emit_value(void *ctx, const bpf_user_pt_regs_t *interrupted, __u64 value,
				      bool with_cgroup_and_pidns)
{
	struct event_args e = {
		.time = bpf_ktime_get_ns(),
		.value = value,
		.with_cgroup_and_pidns = with_cgroup_and_pidns,
	};

	event_emit_args(ctx, interrupted, &e);
	return 0;
}

/*
 * Writes an event of the current task, worth `value` in the source's unit, if the filters let it
 * pass. `interrupted`: the registers of the code that a perf event interrupted; NULL at a
 * tracepoint. Always 0, for the program to return.
 */
static __always_inline int event_emit(void *ctx, const bpf_user_pt_regs_t *interrupted, __u64 value)
{
	return emit_value(ctx, interrupted, value, true);
}

/*
 * A program that does nothing else, in two variants; the loader picks one. NAME is the full one.
 * NAME_plain leaves out control groups and pid namespaces, for when nobody asks for them: libbpf
 * takes a millisecond for each type of the kernel's that a program reads, and they are seven of
 * eleven. (A source without that variant works as well.)
 */
#define EVENT_PROGRAM(section, name, context, interrupted, value)                                  \
	SEC(section) int name(context *ctx)                                                        \
	{                                                                                          \
		return emit_value(ctx, interrupted, value, true);                                  \
	}                                                                                          \
	SEC(section) int name##_plain(context *ctx)                                                \
	{                                                                                          \
		return emit_value(ctx, interrupted, value, false);                                 \
	}
