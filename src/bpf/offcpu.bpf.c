// SPDX-License-Identifier: GPL-2.0
/*
 * offcpu: an event is a thread that leaves its CPU: see offcpu.h.
 *
 * The tracepoint is in the scheduler, where interrupts are off, and so is the one of wakers: they
 * write into one ring, and do not interrupt each other.
 */
#include <linux/types.h>

#include "bpf/offcpu.h"

#define EVENT_DETAILS OFFCPU_DETAILS
#include "bpf/event.bpf.h"
#include "bpf/offcpu_task.bpf.h"

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, OFFCPU_THREADS_MAX);
	__type(key, __u32); /* of the initial pid namespace */
	__type(value, struct offcpu_thread);
} threads SEC(".maps");

static __always_inline void count(enum wire_counter which, __u64 n)
{
	__u32 cpu = bpf_get_smp_processor_id();
	struct wire_counts *counts = bpf_map_lookup_elem(&counters, &cpu);

	if (counts)
		counts->n[which & 15] += n;
}

_Static_assert(WIRE_COUNTERS <= 16, "a mask that the verifier understands");

/* ---- periods --------------------------------------------------------------------------------- */

/* What is to be reported of a thread that leaves its CPU again. */
static __always_inline void last_period(const struct offcpu_thread *t, struct task_struct *prev,
					struct offcpu_period *ret)
{
	*ret = t->before;
	if (!t->left || !t->back)
		return;
	__u64 ns = t->back - t->left, runnable = run_delay(prev) - t->delay;
	if (t->lost) {
		count(WIRE_LOST_VALUE, ns);
		return;
	}
	ret->began = t->left;
	ret->ns = ns;
	ret->runnable_ns = t->state == OFFCPU_RUNNABLE || runnable > ns ? ns : runnable;
}

/* One that leaves for the first time was runnable from its creation until it ran. */
static __always_inline void first_period(struct task_struct *prev, struct offcpu_details *d)
{
	if (prev->nvcsw + prev->nivcsw != 1)
		return;
	d->is_first = 1;
	d->before.began = prev->start_time;
	d->before.ns = d->before.runnable_ns = run_delay(prev);
}

static __always_inline void leave(void *ctx, struct task_struct *prev, bool preempted, __u64 now,
				  bool full)
{
	struct offcpu_details d = {.syscall = -1};
	__u32 key = prev->pid;
	struct offcpu_thread *t = bpf_map_lookup_elem(&threads, &key);
	struct taken e = {.time = now, .full = full, .details = (const __u64 *)&d};

	/* As event_put() does; but most threads are others', and should cost no more than this. */
	if (!t && filter.by_pid && !filter.pid_namespace && !is_target(prev->tgid))
		return;
	d.state = state_of(prev, preempted);
	e.bare = d.state == OFFCPU_NONE;
	if (t)
		last_period(t, prev, &d.before);
	else
		first_period(prev, &d);
	d.is_kernel = (prev->flags & PF_KTHREAD) != 0;
	if (!d.is_kernel && !e.bare)
		read_call(prev, &d);
	if (e.bare && !d.before.began)
		return;
	enum event result = event_put(ctx, NULL, &e);
	if (result == EVENT_FILTERED)
		return;
	if (e.bare && result == EVENT_WRITTEN) {
		bpf_map_delete_elem(&threads, &key);
		return;
	}

	struct offcpu_thread now_off = {
		.left = e.bare ? 0 : now,
		.delay = run_delay(prev),
		.tid = e.tid,
		.state = d.state,
		.lost = result == EVENT_LOST,
	};
	if (now_off.lost && !d.is_first)
		now_off.before = d.before;
	if (t)
		*t = now_off;
	else if (bpf_map_update_elem(&threads, &key, &now_off, BPF_ANY) != 0)
		count(WIRE_NO_ROOM, 1);
}

static __always_inline int switched(__u64 *ctx, bool full)
{
	struct task_struct *prev = (void *)ctx[1], *next = (void *)ctx[2];
	__u64 now = bpf_ktime_get_ns();
	__u32 back = next->pid;

	if (back) {
		struct offcpu_thread *t = bpf_map_lookup_elem(&threads, &back);
		if (t)
			t->back = now;
	}
	if (prev->pid)
		leave(ctx, prev, ctx[0], now, full);
	return 0;
}

SEC("tp_btf/sched_switch")
int offcpu(__u64 *ctx)
{
	return switched(ctx, true);
}

SEC("tp_btf/sched_switch")
int offcpu_plain(__u64 *ctx)
{
	return switched(ctx, false);
}

/* ---- wakers ---------------------------------------------------------------------------------- */

/* An event of who wakes a thread that is followed, whoever that is. */
static __always_inline int waking(__u64 *ctx, bool full)
{
	struct task_struct *wakee = (void *)ctx[0];
	__u32 key = wakee->pid;
	struct offcpu_thread *t = bpf_map_lookup_elem(&threads, &key);

	if (!t || !t->left || t->back || t->lost || t->state == OFFCPU_RUNNABLE)
		return 0;
	struct offcpu_details d = {.syscall = -1, .woken = t->left, .wakee = t->tid};
	struct taken e = {
		.time = bpf_ktime_get_ns(),
		.full = full,
		.anyone = true,
		.details = (const __u64 *)&d,
	};
	event_put(ctx, NULL, &e);
	return 0;
}

SEC("tp_btf/sched_waking")
int offcpu_waking(__u64 *ctx)
{
	return waking(ctx, true);
}

/* ---- what is off its CPU already ------------------------------------------------------------- */

struct { /* there is one reader: it takes one at a time */
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct offcpu_found);
} found SEC(".maps");

/* A thread that is not followed yet, off its CPU: it is from now on. */
static __always_inline bool follow(struct task_struct *task, const struct offcpu_found *f)
{
	__u32 key = task->pid;
	struct offcpu_thread t = {
		.left = f->event.time,
		.delay = run_delay(task),
		.tid = f->event.tid,
		.state = f->details.state,
	};

	if (task->on_cpu || bpf_map_update_elem(&threads, &key, &t, BPF_NOEXIST) != 0)
		return false;
	if (task->on_cpu) { /* it came back meanwhile, and was not known */
		struct offcpu_thread *known = bpf_map_lookup_elem(&threads, &key);
		if (known && !known->back)
			known->back = f->event.time;
	}
	return true;
}

SEC("iter/task")
int offcpu_found(__u64 *ctx)
{
	struct bpf_iter_meta *meta = (void *)ctx[0];
	struct task_struct *task = (void *)ctx[1];
	__u32 zero = 0;
	struct offcpu_found *f = bpf_map_lookup_elem(&found, &zero);

	if (!task || !f)
		return 0;
	describe(task, f);
	if (!is_wanted(task, &f->event) || f->details.state == OFFCPU_NONE || !follow(task, f))
		return 0;
	if (task->flags & PF_KTHREAD || !task->mm || filter.no_user)
		f->event.flags |= WIRE_NO_USER;
	else
		other_registers(task, f);
	if (!filter.no_kernel) {
		long n = bpf_get_task_stack(task, f->frames, WIRE_FRAMES * sizeof(__u64), 0);
		f->event.kernel_frames = n > 0 ? (__u64)n / sizeof(__u64) : 0;
	}
	f->event.bytes = sizeof(*f);
	bpf_seq_write(meta->seq, f, sizeof(*f));
	return 0;
}
