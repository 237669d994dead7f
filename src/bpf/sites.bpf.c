// SPDX-License-Identifier: GPL-2.0
/*
 * sites: how long threads are off their CPU, by where they leave it: see sites_wire.h.
 *
 * A thread that leaves at one of the places where it did lately costs some additions in two lines
 * of its own memory and one of the CPU's. Where caches are cold, what costs is each function of the
 * kernel's that is called, so that path calls none, if the kernel is new enough: time is the
 * scheduler's, registers are read where they are, and the user's stack is not looked at where the
 * registers tell enough. All else is in functions of their own: the code of that path is small, and
 * so is its stack, of which the verifier counts what all of them have together.
 */
#include <linux/types.h>

#include "bpf/sites_wire.h"

#define EVENT_DETAILS SITES_DETAILS
#define WALK_RETURNS  6
#include "bpf/event.bpf.h"
#include "bpf/offcpu_task.bpf.h"
#include "bpf/sites_clock.bpf.h"
#include "bpf/sites_place.bpf.h"

struct { /* by tid, at one of SITES_PROBES places */
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, SITES_THREADS);
	__type(key, __u32);
	__type(value, struct site_thread);
} site_threads SEC(".maps");

struct { /* places of site_threads that are taken: who comes first is decided here */
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, SITES_THREADS);
	__type(key, __u32);
	__type(value, __u32);
} site_claims SEC(".maps");

struct { /* threads that get their place just now: by their own CPU or by the iterator, not both */
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, SITES_BEGINNING);
	__type(key, __u32);
	__type(value, __u32);
} site_beginning SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, SITES_MAX);
	__type(key, struct site_key);
	__type(value, struct site_value);
} sites SEC(".maps");

struct { /* by the CPU's number; it is as large as there are CPUs */
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct site_cpu);
} by_cpu SEC(".maps");

/* ---- threads --------------------------------------------------------------------------------- */

static __always_inline struct site_thread *thread_at(__u32 tid, __u32 probe)
{
	__u32 at = (tid + probe) & (SITES_THREADS - 1);
	struct site_thread *t = bpf_map_lookup_elem(&site_threads, &at);

	return t && t->tid == tid ? t : NULL;
}

static __noinline struct site_thread *find_elsewhere(__u32 tid)
{
	struct site_thread *t = NULL;

	for (__u32 i = 1; i < SITES_PROBES && !t; i++)
		t = thread_at(tid, i);
	return t;
}

/* Most are at their first place. */
static __always_inline struct site_thread *find_thread(__u32 tid)
{
	struct site_thread *t = thread_at(tid, 0);

	return t ? t : find_elsewhere(tid);
}

/* A place for a thread, empty. The caller fills it, then publishes it. */
static __always_inline struct site_thread *claim_thread(__u32 tid)
{
	for (__u32 i = 0; i < SITES_PROBES; i++) {
		__u32 at = (tid + i) & (SITES_THREADS - 1);
		struct site_thread *t = bpf_map_lookup_elem(&site_threads, &at);
		if (!t || t->tid || bpf_map_update_elem(&site_claims, &at, &tid, BPF_NOEXIST) != 0)
			continue;
		*t = (struct site_thread){};
		return t;
	}
	return NULL;
}

/*
 * A thread has one place: so its CPU and the iterator do not look for one at the same time, and who
 * comes second finds what the first made.
 */
static __always_inline bool may_begin(__u32 tid)
{
	return bpf_map_update_elem(&site_beginning, &tid, &tid, BPF_NOEXIST) == 0;
}

static __always_inline void has_begun(__u32 tid)
{
	bpf_map_delete_elem(&site_beginning, &tid);
}

static __always_inline void forget_thread(struct site_thread *t, __u32 tid)
{
	t->tid = 0;
	for (__u32 i = 0; i < SITES_PROBES; i++) {
		__u32 at = (tid + i) & (SITES_THREADS - 1);
		__u32 *owner = bpf_map_lookup_elem(&site_claims, &at);
		if (owner && *owner == tid)
			bpf_map_delete_elem(&site_claims, &at);
	}
}

/* ---- periods --------------------------------------------------------------------------------- */

static __always_inline void add_period(struct site_slot *to, __u64 blocked, __u64 runnable)
{
	to->blocked += blocked;
	to->runnable += runnable;
	to->periods++;
}

struct work {
	struct leaving leaving;
	struct site_details details;
	struct site_key key;
	struct site_value fresh;
	__u32 slot;
};

/* The sums of a slot are put where others' of the site are. */
static __always_inline void empty_slot(struct work *w, struct site_thread *t,
				       struct site_slot *slot)
{
	struct site_slot *bare = &t->slots[0];

	if (!slot->key || !slot->periods)
		return;
	w->key = (struct site_key){.key = slot->key, .tid = t->tid};
	struct site_value *s = bpf_map_lookup_elem(&sites, &w->key);
	if (s) {
		s->sums.blocked += slot->blocked;
		s->sums.runnable += slot->runnable;
		s->sums.periods += slot->periods;
	} else { /* user space removed it, as it had not been in use */
		bare->blocked += slot->blocked;
		bare->runnable += slot->runnable;
		bare->periods += slot->periods;
	}
	slot->blocked = slot->runnable = slot->periods = 0;
}

/*
 * A period whose stack the iterator found has ended: that becomes a site, as if it had been one.
 */
static __noinline void end_found(struct site_thread *t, __u64 blocked, __u64 runnable)
{
	struct work *w = get_work();

	if (w) {
		w->key = (struct site_key){.key = SITES_FOUND | t->slots[0].key, .tid = t->tid};
		w->fresh = (struct site_value){.walk = t->left, .sums = {blocked, runnable, 1}};
		if (bpf_map_update_elem(&sites, &w->key, &w->fresh, BPF_NOEXIST) == 0)
			return;
	}
	add_period(&t->slots[0], blocked, runnable);
}

/*
 * When a thread came to its CPU by a switch that was not seen here: there are threads that a kernel
 * hides, and it runs no program when they leave. Where it does not tell either, all the time since
 * the thread left counts as waiting.
 */
static __noinline __u64 find_back(struct task_struct *prev, __u64 now)
{
	__u64 ran = 0;

	if (has_scheduler_clock(prev) && bpf_core_field_exists(prev->sched_info.last_arrival))
		ran = prev->se.cfs_rq->rq->clock - prev->sched_info.last_arrival;
	return ran < now ? now - ran : now;
}

/* The period that is over now that the thread, which came back then, leaves a CPU again. */
static __always_inline void end_period(struct site_thread *t, struct site_cpu *cpu,
				       struct task_struct *prev, __u64 delay, __u64 now)
{
	__u64 back = cpu->since, waited = delay - t->delay;
	__u32 at = t->slot_index;

	if (!t->left || at > SITES_SLOTS)
		return;
	if (cpu->tid != t->tid)
		back = find_back(prev, now);
	if (back < t->left) /* clocks have been set; or it was found while it came back */
		back = t->left;
	__u64 ns = back - t->left;
	struct site_slot *slot = &t->slots[at];
	if (now > back)
		t->ran += now - back;
	if ((slot->key & SITES_STATE) == OFFCPU_RUNNABLE || waited > ns)
		waited = ns;
	cpu->taken++;
	if (at || t->found_period_began != t->left)
		add_period(slot, ns - waited, waited);
	else
		end_found(t, ns - waited, waited);
}

static __always_inline __u64 age_of(const struct task_struct *task, __u64 now)
{
	return now > task->start_time ? now - task->start_time : 0;
}

/* One that leaves for the first time; if it is new, it was runnable from its creation until it ran.
 */
static __always_inline struct site_thread *make_thread(struct task_struct *prev,
						       struct site_cpu *cpu, __u64 now)
{
	__u64 waited = run_delay(prev), since = age_of(prev, now);
	struct site_thread *t = claim_thread(prev->pid);

	if (!t) {
		count(WIRE_NO_ROOM, 1);
		return NULL;
	}
	if (is_first_leave(prev)) {
		cpu->taken++;
		add_period(&t->slots[0], 0, waited);
		t->ran = since > waited ? since - waited : 0;
	}
	ARCH_STORE_RELEASE(&t->tid, prev->pid);
	return t;
}

/* NULL: there is no room; or the iterator has found it this very moment, and makes it leave. */
static __noinline struct site_thread *begin_thread(struct task_struct *prev, struct site_cpu *cpu,
						   __u64 now)
{
	__u32 tid = prev->pid;

	if (!may_begin(tid))
		return NULL;
	struct site_thread *t = find_thread(tid);
	if (!t)
		t = make_thread(prev, cpu, now);
	has_begun(tid);
	return t;
}

/* ---- walks ----------------------------------------------------------------------------------- */

static __always_inline bool is_by_chance(const struct leaving *l, __u32 shift)
{
	return (l->now * HASH) >> (64 - SITES_WALK_SHIFTS) >> ((SITES_WALK_SHIFTS - shift) & 31) ==
	       0;
}

/*
 * By chance. Sooner where no return address was found, as several stacks may be one site then: the
 * table that was missing may be there by now, and is so soon where the program is new.
 */
static __always_inline bool is_due(const struct site_control *c, struct task_struct *prev,
				   const struct leaving *l)
{
	__u32 shift = c->shift;

	if (l->sp && !l->returns && age_of(prev, l->now) < SITES_NEW_NS)
		shift = MIN(shift, SITES_NEW_SHIFT);
	else if (l->sp && !l->returns)
		shift = shift > SITES_SOONER ? shift - SITES_SOONER : 0;
	return is_by_chance(l, shift);
}

/* What the event says; `old`: the site as it is, its sums go with it. */
static __always_inline void describe_walk(struct work *w, struct task_struct *prev,
					  const struct site_thread *t, const struct site_value *old)
{
	const struct leaving *l = &w->leaving;
	struct site_details *d = &w->details;

	*d = (struct site_details){
		.of = {.syscall = -1, .state = l->state},
		.walk = l->now,
		.tid = t->tid,
	};
	if (!(prev->flags & PF_KTHREAD) && l->state != OFFCPU_RUNNABLE)
		read_call(prev, &d->of);
	if (old) {
		d->of.previous.began = old->walk;
		d->of.previous.ns = old->sums.blocked + old->sums.runnable;
		d->of.previous.runnable_ns = old->sums.runnable;
		d->previous_periods = old->sums.periods;
	}
}

static __always_inline void describe_end(struct work *w, const struct site_thread *t)
{
	const struct site_slot *bare = &t->slots[0];

	w->details = (struct site_details){
		.of = {.syscall = -1,
		       .previous = {w->leaving.now, bare->blocked + bare->runnable,
				    bare->runnable}},
		.previous_periods = bare->periods,
		.tid = t->tid,
		.is_end = 1,
	};
}

/* A thread has a site at hand from now on: in the slot that w names. */
static __always_inline void fill_slot(struct work *w, struct site_thread *t, __u64 walk)
{
	__u32 i = w->slot & (SITES_SLOTS - 1);
	struct site_slot *slot = &t->slots[i + 1];

	empty_slot(w, t, slot);
	if (slot->key != w->leaving.key) {
		slot->key = w->leaving.key;
		slot->seen = t->tags[i] = 0;
		t->steady[i] = 1;
	}
	t->walks[i] = walk;
	t->slot_index = i + 1;
	t->has_stack = 1;
}

/* The slot of a site; if it has none, the next one but that in use lately. */
static __always_inline __u32 choose_slot(const struct site_thread *t, const struct leaving *l)
{
	__u32 any = (l->now >> 10) & (SITES_SLOTS - 1);

	if (any + 1 == t->slot_index)
		any = (any + 1) & (SITES_SLOTS - 1);
	for (__u32 i = 0; i < SITES_SLOTS; i++)
		if (t->slots[i + 1].key == l->key)
			return i;
	for (__u32 i = 0; i < SITES_SLOTS; i++)
		if (!t->slots[i + 1].key)
			return i;
	return any;
}

/* After a walk: the site by where that found the return addresses; it is made if there is none. */
static __always_inline void enter_walked(struct work *w, struct site_thread *t)
{
	struct leaving *l = &w->leaving;
	__u64 returns = l->sp ? walked_returns() : 0;

	w->fresh = (struct site_value){.walk = l->now};
	if (returns != l->returns) {
		l->returns = returns;
		keep_returns(l->place, returns, l->now);
		l->key = key_of(l);
		w->slot = choose_slot(t, l);
	}
	w->key = (struct site_key){.key = l->key, .tid = t->tid};
	struct site_value *s = bpf_map_lookup_elem(&sites, &w->key);
	if (s || bpf_map_update_elem(&sites, &w->key, &w->fresh, BPF_NOEXIST) == 0) {
		fill_slot(w, t, s ? s->walk : l->now);
		return;
	}
	struct site_control *c = get_control();
	if (c)
		c->full = 1;
}

/* It has ended: if it has no walk, that is told, and it is forgotten; others user space reads. */
static __always_inline void end_thread(__u64 *ctx, struct work *w, struct site_thread *t, bool full)
{
	__u32 tid = t->tid;
	bool is_told = !t->has_stack && t->slots[0].periods;

	describe_end(w, t);
	struct event_args e = {
		.time = w->leaving.now,
		.with_cgroup_and_pidns = full,
		.uncounted = true,
		.bare = true,
		.value = t->ran,
		.details = (const __u64 *)&w->details,
	};
	bool is_written = is_told && event_emit_args(ctx, NULL, &e) == EVENT_WRITTEN;
	t->left = 0;
	if (t->has_stack || (is_told && !is_written))
		ARCH_STORE_RELEASE(&t->tid, tid | SITES_ENDED);
	else
		forget_thread(t, tid);
}

/*
 * What a thread does seldom: it goes to a site that it does not have at hand, or to one that is to
 * be walked. The event has the time by CLOCK_MONOTONIC itself, as it is put in order with those of
 * other sources.
 */
static __always_inline void move(__u64 *ctx, struct work *w, struct site_thread *t, bool full)
{
	struct leaving *l = &w->leaving;
	struct task_struct *prev = (void *)ctx[1];
	struct site_control *c = get_control();

	w->slot = choose_slot(t, l);
	t->slot_index = 0;
	empty_slot(w, t, &t->slots[(w->slot & (SITES_SLOTS - 1)) + 1]);
	w->key = (struct site_key){.key = l->key, .tid = t->tid};
	struct site_value *s = bpf_map_lookup_elem(&sites, &w->key);
	bool is_told = c && (s ? is_due(c, prev, l) : !c->full);
	describe_walk(w, prev, t, s);
	struct event_args e = {
		.time = bpf_ktime_get_ns(),
		.with_cgroup_and_pidns = full,
		.uncounted = true,
		.details = (const __u64 *)&w->details,
	};
	if (is_told && event_emit_args(ctx, NULL, &e) == EVENT_WRITTEN) {
		if (s) /* what it had was told */
			*s = (struct site_value){.walk = l->now};
		enter_walked(w, t);
	} else if (s) {
		fill_slot(w, t, s->walk);
	}
}

/* One for each of the programs: see EVENT_PROGRAM(). */
static __noinline void move_full(__u64 *ctx, struct work *w, struct site_thread *t)
{
	move(ctx, w, t, true);
}

static __noinline void move_plain(__u64 *ctx, struct work *w, struct site_thread *t)
{
	move(ctx, w, t, false);
}

static __noinline void end_full(__u64 *ctx, struct work *w, struct site_thread *t)
{
	end_thread(ctx, w, t, true);
}

static __noinline void end_plain(__u64 *ctx, struct work *w, struct site_thread *t)
{
	end_thread(ctx, w, t, false);
}

/* ---- which site ------------------------------------------------------------------------------ */

/* With a look at the stack. Whether the thread has that site at hand, and it is not to be walked.
 */
static __noinline bool look(struct work *w, struct site_thread *t, struct task_struct *prev)
{
	struct leaving *l = &w->leaving;
	struct site_control *c = get_control();

	if (l->sp)
		l->returns = known_returns(l->place);
	l->key = key_of(l);
	__u32 at = find_key(t, l);
	if (!at || !c || is_due(c, prev, l))
		return false;
	steady(t, l, at);
	t->slot_index = at;
	return true;
}

static __always_inline bool is_young(const struct site_thread *t, struct task_struct *prev,
				     __u64 now)
{
	return !t->has_stack && age_of(prev, now) < SITES_YOUNG_NS;
}

/* Where it leaves; the period that began there the last time has ended. */
static __always_inline void find_site(__u64 *ctx, struct site_cpu *cpu, struct leaving *l,
				      struct site_thread *t, bool full, enum how how)
{
	struct task_struct *prev = (void *)ctx[1];
	struct work *w;

	if (!is_young(t, prev, l->now)) {
		find_place(ctx, prev, cpu, l, how);
		__u32 at = find_tag(t, l);
		if (at && !is_by_chance(l, cpu->shift)) {
			t->slot_index = at;
			return;
		}
		w = get_work();
		if (!w)
			return; /* cannot be: there is one */
		w->leaving = *l;
		if (look(w, t, prev))
			return;
		if (full)
			move_full(ctx, w, t);
		else
			move_plain(ctx, w, t);
		if (t->slot_index)
			return;
	}
	t->slot_index = 0;
	t->slots[0].key = l->state;
}

static __always_inline void leave(__u64 *ctx, struct site_cpu *cpu, __u64 now, bool full,
				  enum how how)
{
	struct task_struct *prev = (void *)ctx[1];
	struct leaving l = {.now = now, .state = state_of(prev, ctx[0])};
	struct site_thread *t = find_thread(prev->pid);
	struct work *w;

	if (!t) {
		if (l.state == OFFCPU_NONE && !is_first_leave(prev))
			return;
		t = begin_thread(prev, cpu, now);
		if (!t)
			return;
	}
	__u64 delay = run_delay(prev);
	t->changes++;
	ARCH_WRITE_BARRIER();
	end_period(t, cpu, prev, delay, now);
	if (l.state == OFFCPU_NONE) {
		w = get_work();
		if (w) {
			w->leaving = l;
			if (full)
				end_full(ctx, w, t);
			else
				end_plain(ctx, w, t);
		}
	} else {
		find_site(ctx, cpu, &l, t, full, how);
		t->left = now;
		t->delay = delay;
	}
	ARCH_STORE_RELEASE(&t->changes, t->changes + 1);
}

/* ---- how long this takes --------------------------------------------------------------------- */

/*
 * To time each switch would cost as much as the switch. So some are timed, by chance, and count for
 * all; but what event_emit_args() took is known already, of all.
 */
static __noinline __u64 begin_timing(struct site_cpu *cpu, __u32 number)
{
	struct wire_counts *counts = bpf_map_lookup_elem(&counters, &number);

	if (!counts)
		return 0; /* cannot be: there is one for each */
	cpu->counted = counts->n[WIRE_RUN_NS];
	return bpf_ktime_get_ns();
}

static __noinline void end_timing(struct site_cpu *cpu, __u32 number, __u64 began)
{
	__u64 took = bpf_ktime_get_ns() - began;
	struct wire_counts *counts = bpf_map_lookup_elem(&counters, &number);

	if (!counts)
		return;
	__u64 known = counts->n[WIRE_RUN_NS] - cpu->counted;
	if (took > known)
		counts->n[WIRE_RUN_NS] += (took - known) * SITES_TIMED;
}

static __always_inline int switched(__u64 *ctx, bool full, enum how how)
{
	struct task_struct *prev = (void *)ctx[1], *next = (void *)ctx[2];
	__u32 number = bpf_get_smp_processor_id();
	struct site_cpu *cpu = bpf_map_lookup_elem(&by_cpu, &number);
	__u64 timed = 0;

	if (!cpu)
		return 0; /* cannot be: there is one for each */
	if ((cpu->since * HASH >> 32 & (SITES_TIMED - 1)) == 0)
		timed = begin_timing(cpu, number);
	__u64 now = read_clock(cpu, prev);
	if (prev->pid)
		leave(ctx, cpu, now, full, how);
	cpu->since = now;
	ARCH_STORE_RELEASE(&cpu->tid, next->pid);
	if (timed)
		end_timing(cpu, number, timed);
	return 0;
}

SEC("tp_btf/sched_switch")
int sites_switch(__u64 *ctx)
{
	return switched(ctx, true, BY_CALL);
}

SEC("tp_btf/sched_switch")
int sites_switch_plain(__u64 *ctx)
{
	return switched(ctx, false, BY_CALL);
}

/* For kernels that let a program cast. */
SEC("tp_btf/sched_switch")
int sites_switch_cast(__u64 *ctx)
{
	return switched(ctx, true, BY_CAST);
}

SEC("tp_btf/sched_switch")
int sites_switch_cast_plain(__u64 *ctx)
{
	return switched(ctx, false, BY_CAST);
}

/* ---- what is off its CPU already ------------------------------------------------------------- */

struct { /* there is one reader: it takes one at a time */
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct site_found);
} found SEC(".maps");

/* A thread off its CPU that was never seen to leave it: it leaves now. */
static __always_inline struct site_thread *make_off(struct task_struct *task, __u64 now)
{
	struct site_thread *t = claim_thread(task->pid);

	if (!t)
		return NULL;
	t->slots[0].key = state_of(task, false);
	t->delay = run_delay(task);
	t->left = now;
	ARCH_STORE_RELEASE(&t->tid, task->pid);
	return t;
}

/* NULL: there is no room, or it has run meanwhile, and leaves just now or has ended. */
static __always_inline struct site_thread *begin_off(struct task_struct *task, __u64 now)
{
	__u32 tid = task->pid;

	if (!may_begin(tid))
		return NULL;
	struct site_thread *t = find_thread(tid);
	if (!t)
		t = make_off(task, now);
	has_begun(tid);
	if (!t || state_of(task, false) != OFFCPU_NONE)
		return t;
	if (t->tid == tid) { /* its CPU may not have found it when it left it for the last time */
		t->left = 0;
		ARCH_STORE_RELEASE(&t->tid, tid | SITES_ENDED);
	}
	return NULL;
}

/* Of a thread that waits now and whose stack no walk has, when it began to; 0: it is not such. */
static __always_inline __u64 waits_since(struct task_struct *task, __u64 now)
{
	struct site_thread *t;

	if (!task->pid || task->on_cpu || state_of(task, false) == OFFCPU_NONE)
		return 0;
	t = find_thread(task->pid);
	if (!t)
		t = begin_off(task, now);
	if (!t || t->slot_index || t->found_period_began == t->left)
		return 0;
	t->found_period_began = t->left;
	t->has_stack = 1;
	return t->left;
}

SEC("iter/task")
int sites_found(__u64 *ctx)
{
	struct bpf_iter_meta *meta = (void *)ctx[0];
	struct task_struct *task = (void *)ctx[1];
	__u32 zero = 0;
	struct site_found *f = bpf_map_lookup_elem(&found, &zero);

	if (!task || !f)
		return 0;
	f->walk = waits_since(task, bpf_ktime_get_ns());
	if (!f->walk)
		return 0;
	f->tid = task->pid;
	describe(task, &f->of);
	if (task->flags & PF_KTHREAD || !task->mm)
		f->of.event.flags |= WIRE_NO_USER;
	else
		other_registers(task, &f->of);
	long n = bpf_get_task_stack(task, f->of.frames, WIRE_FRAMES * sizeof(__u64), 0);
	f->of.event.kernel_frames = n > 0 ? (__u64)n / sizeof(__u64) : 0;
	bpf_seq_write(meta->seq, f, sizeof(*f));
	return 0;
}
