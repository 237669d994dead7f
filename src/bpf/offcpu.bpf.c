// SPDX-License-Identifier: GPL-2.0
/*
 * offcpu: an event is a thread that leaves its CPU: see offcpu_wire.h.
 *
 * The tracepoint is in the scheduler, where interrupts are off, and so is the one of wakers: they
 * write into one ring, and do not interrupt each other.
 */
#include <linux/types.h>

#include "bpf/offcpu_wire.h"

#define EVENT_DETAILS OFFCPU_DETAILS
#include "bpf/event.bpf.h"
#include "bpf/offcpu_task.bpf.h"

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, OFFCPU_THREADS_MAX);
	__type(key, __u32); /* of the initial pid namespace */
	__type(value, struct offcpu_thread);
} threads SEC(".maps");

/* What an event says, and what is kept of it. */
struct work {
	struct offcpu_details details;
	struct offcpu_thread thread;
};

/* ---- periods --------------------------------------------------------------------------------- */

static __always_inline __u16 switches(struct task_struct *task)
{
	return (__u16)(task->nvcsw + task->nivcsw);
}

/*
 * How long a thread was off its CPU that leaves it again. The kernel may not have run this program
 * each time that it came or went: then it is the time since it left that it did not run.
 */
static __always_inline __u64 time_off(const struct offcpu_thread *t, struct task_struct *prev,
				      __u64 now)
{
	__u64 ran = prev->se.sum_exec_runtime - t->ran, since = now - t->left;
	__u16 unseen = switches(prev) - t->switches - 1;

	if (t->back && !unseen)
		return t->back - t->left;
	count(WIRE_UNSEEN, unseen ? unseen : 1);
	return since > ran ? since - ran : 0;
}

/* What is to be reported of a thread that leaves its CPU again. */
static __always_inline void last_period(const struct offcpu_thread *t, struct task_struct *prev,
					__u64 now, struct offcpu_period *ret)
{
	*ret = t->previous;
	if (!t->left)
		return;
	__u64 ns = time_off(t, prev, now), runnable = run_delay(prev) - t->delay;
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
	if (!is_first_leave(prev))
		return;
	d->is_first = 1;
	d->previous.began = prev->start_time;
	d->previous.ns = d->previous.runnable_ns = run_delay(prev);
}

/*
 * The filters pass it no more: what is known of its last period is reported when it ends, or at the
 * end of the recording.
 */
static __always_inline void unfollow(struct offcpu_thread *t, const struct offcpu_period *last)
{
	t->previous = *last;
	t->left = 0;
}

/* What is kept of a thread that has left, once its event was written or lost. */
static __always_inline void keep(struct offcpu_thread *t, struct task_struct *prev, struct work *w,
				 const struct event_args *e, bool lost)
{
	const struct offcpu_details *d = &w->details;
	__u32 key = prev->pid;

	w->thread = (struct offcpu_thread){
		.left = e->bare ? 0 : e->time,
		.delay = run_delay(prev),
		.ran = prev->se.sum_exec_runtime,
		.switches = switches(prev),
		.tid = e->tid,
		.state = d->state,
		.lost = lost,
	};
	if (lost && d->is_first)
		count(WIRE_LOST_VALUE, d->previous.ns);
	else if (lost)
		w->thread.previous = d->previous;
	if (t)
		*t = w->thread;
	else if (bpf_map_update_elem(&threads, &key, &w->thread, BPF_ANY) != 0)
		count(WIRE_NO_ROOM, 1);
}

/* A child that ends before it left a CPU even once: it is no target any more, but its parent is. */
static __always_inline bool is_brief_child(struct task_struct *prev)
{
	return filter.follow && prev->flags & PF_EXITING && is_first_leave(prev) &&
	       is_target(process_id(prev->group_leader->real_parent));
}

static __always_inline void leave(void *ctx, struct task_struct *prev, bool preempted, __u64 now,
				  bool full)
{
	__u32 key = prev->pid;
	struct offcpu_thread *t = bpf_map_lookup_elem(&threads, &key);
	struct work *w = get_work();

	/* As event_emit_args() does; but most threads are others', and should cost no more than
	 * this. */
	bool is_brief = !t && is_brief_child(prev);
	if (!w ||
	    (!t && !is_brief && filter.by_pid && !filter.pid_namespace && !is_target(prev->tgid)))
		return;
	struct offcpu_details *d = &w->details;
	*d = (struct offcpu_details){
		.syscall = -1,
		.state = state_of(prev, preempted),
		.flags = t && t->lost ? OFFCPU_AFTER_LOSS : 0,
	};
	struct event_args e = {
		.time = now,
		.value = prev->se.sum_exec_runtime,
		.with_cgroup_and_pidns = full,
		.bare = d->state == OFFCPU_NONE,
		/* A process that ends is no target. */
		.anyone = is_brief || (t && prev->flags & PF_EXITING),
		.details = (const __u64 *)d,
	};
	if (t)
		last_period(t, prev, now, &d->previous);
	if (!t || (!t->left && !d->previous.began))
		first_period(prev, d);
	if (!(prev->flags & PF_KTHREAD) && !e.bare)
		read_call(prev, d);

	enum event result = EVENT_WRITTEN;
	if (!e.bare || d->previous.began || t)
		result = event_emit_args(ctx, NULL, &e);
	if (e.bare && result == EVENT_WRITTEN)
		bpf_map_delete_elem(&threads, &key);
	else if (result != EVENT_FILTERED)
		keep(t, prev, w, &e, result == EVENT_LOST);
	else if (t)
		unfollow(t, &d->previous);
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
	struct work *w = get_work();
	if (!w)
		return 0;
	w->details = (struct offcpu_details){
		.syscall = -1, .woken_period_began = t->left, .wakee = t->tid};
	struct event_args e = {
		.time = bpf_ktime_get_ns(),
		.with_cgroup_and_pidns = full,
		.anyone = true,
		.details = (const __u64 *)&w->details,
	};
	event_emit_args(ctx, NULL, &e);
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
		.ran = task->se.sum_exec_runtime,
		.switches = switches(task),
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

/* ---- every thread there is ------------------------------------------------------------------- */

/* One that is on a CPU, and not followed yet, is from now on: so its end will be told. */
static __always_inline void follow_running(struct task_struct *task, const struct offcpu_found *f)
{
	__u32 key = task->pid;
	struct offcpu_thread t = {
		.back = f->event.time,
		.ran = f->event.value,
		.switches = switches(task),
		.tid = f->event.tid,
	};

	bpf_map_update_elem(&threads, &key, &t, BPF_NOEXIST);
}

SEC("iter/task")
int offcpu_roster(__u64 *ctx)
{
	struct bpf_iter_meta *meta = (void *)ctx[0];
	struct task_struct *task = (void *)ctx[1];
	__u32 zero = 0;
	struct offcpu_found *f = bpf_map_lookup_elem(&found, &zero);

	if (!task || !f)
		return 0;
	describe(task, f);
	struct offcpu_details *d = &f->details;
	if (!is_wanted(task, &f->event) || d->state == OFFCPU_NONE)
		return 0;
	d->is_first = task->nvcsw + task->nivcsw == 0;
	d->previous.began = task->start_time;
	d->previous.ns = d->previous.runnable_ns = run_delay(task);
	if (task->on_cpu) {
		d->state = OFFCPU_NONE;
		follow_running(task, f);
	}
	f->event.flags |= WIRE_NO_USER;
	f->event.bytes = OFFCPU_ROSTER_BYTES;
	bpf_seq_write(meta->seq, f, OFFCPU_ROSTER_BYTES);
	return 0;
}
