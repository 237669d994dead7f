// SPDX-License-Identifier: GPL-2.0
/*
 * sites: how long threads are off their CPU, by where they leave it: see sites.h.
 *
 * A thread that leaves where it left the last time costs some additions in two lines of memory and
 * one look at its stack; no map that hashes, no helper that could be done without. All else is in
 * functions of their own: the code of that path is small, and so is its stack, of which the
 * verifier counts what all of them have together.
 */
#include <linux/types.h>

#include "bpf/sites.h"

#define EVENT_DETAILS SITES_DETAILS
#define WALK_RETURNS  6
#include "bpf/event.bpf.h"
#include "bpf/offcpu_task.bpf.h"

#define HASH 0x9e3779b97f4a7c15ull

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

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, SITES_MAX);
	__type(key, struct site_key);
	__type(value, struct site_value);
} sites SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct site_control);
} site_control SEC(".maps");

/* ---- threads --------------------------------------------------------------------------------- */

static __always_inline struct site_thread *find_thread(__u32 tid)
{
	for (__u32 i = 0; i < SITES_PROBES; i++) {
		__u32 at = (tid + i) & (SITES_THREADS - 1);
		struct site_thread *t = bpf_map_lookup_elem(&site_threads, &at);
		if (t && t->tid == tid)
			return t;
	}
	return NULL;
}

static __always_inline struct site_thread *new_thread(__u32 tid)
{
	for (__u32 i = 0; i < SITES_PROBES; i++) {
		__u32 at = (tid + i) & (SITES_THREADS - 1);
		struct site_thread *t = bpf_map_lookup_elem(&site_threads, &at);
		if (!t || t->tid || bpf_map_update_elem(&site_claims, &at, &tid, BPF_NOEXIST) != 0)
			continue;
		*t = (struct site_thread){};
		ARCH_STORE_RELEASE(&t->tid, tid);
		return t;
	}
	return NULL;
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

static __always_inline void count(enum wire_counter which)
{
	__u32 cpu = bpf_get_smp_processor_id();
	struct wire_counts *counts = bpf_map_lookup_elem(&counters, &cpu);

	if (counts)
		counts->n[which & 15]++;
}

_Static_assert(WIRE_COUNTERS <= 16, "a mask that the verifier understands");

/* ---- where a thread is ----------------------------------------------------------------------- */

/*
 * Where return addresses are above a stack pointer, as a walk found them, in one word: a byte each,
 * in words above sp (those that there are not repeat the first), and in the highest byte how many
 * words are to be read.
 */
struct place_returns {
	__u64 place, returns;
};

struct place_bucket { /* one line of the cache */
	struct place_returns at[SITES_PLACE_WAYS];
};

struct { /* of places that threads are not at just now */
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, SITES_PLACES);
	__type(key, __u32);
	__type(value, struct place_bucket);
} places SEC(".maps");

static __always_inline struct place_bucket *place_bucket(__u64 place)
{
	__u32 at = (place >> 32) & (SITES_PLACES - 1);

	return bpf_map_lookup_elem(&places, &at);
}

static __always_inline __u64 known_returns(__u64 place)
{
	struct place_bucket *b = place_bucket(place);

	for (int i = 0; b && i < SITES_PLACE_WAYS; i++)
		if (b->at[i].place == place)
			return b->at[i].returns;
	return 0;
}

/* Two CPUs may do so at a time: a place with another's returns makes a site more, no wrong time. */
static __always_inline void keep_returns(__u64 place, __u64 returns, __u64 now)
{
	struct place_bucket *b = place_bucket(place);
	__u32 at = (now >> 4) % SITES_PLACE_WAYS;

	if (!b)
		return;
	for (int i = 0; i < SITES_PLACE_WAYS; i++)
		if (b->at[i].place == place)
			at = i;
	at &= SITES_PLACE_WAYS - 1;
	b->at[at].place = place;
	b->at[at].returns = returns;
}

/* Those that the last walk on this CPU found. */
static __always_inline __u64 walked_returns(void)
{
	struct scratch *s = get_scratch();
	__u64 returns = 0, last = 0;

	if (!s || !s->walk.return_count)
		return 0;
	for (__u32 i = 0; i < WALK_RETURNS; i++) {
		__u64 at = s->walk.return_at[i < s->walk.return_count ? i : 0] & (WALK_PIECE - 1);
		returns |= at << 8 * i;
		last = MAX(last, at);
	}
	return returns | (last + 1) << 56;
}

/* A hash of the return addresses on a stack: a sum, so that no step waits for another. */
static __always_inline __u64 hash_returns(__u64 returns, __u64 sp)
{
	struct scratch *s = get_scratch();
	__u64 hash = 0;
	__u32 bytes = (returns >> 56) * sizeof(__u64) & (2 * sizeof(s->piece) - 1);

	if (!s || !bytes || bytes > sizeof(s->piece) ||
	    bpf_probe_read_user(s->piece, bytes, (void *)sp) != 0)
		return 0;
#pragma unroll
	for (int i = 0; i < WALK_RETURNS; i++)
		hash += s->piece[returns >> 8 * i & (WALK_PIECE - 1)] *
			((HASH >> 5 * i ^ HASH << 9 * i) | 1);
	return hash * HASH;
}

/* A thread that leaves its CPU: when, and where. */
struct leaving {
	__u64 now;
	__u64 place, returns, sp;
	__u64 key;
	enum offcpu_state state;
};

static __always_inline __u64 key_of(const struct leaving *l)
{
	__u64 hash = (l->place ^ hash_returns(l->returns, l->sp)) * HASH;

	return ((hash ^ hash >> 32) & ~(__u64)SITES_STATE) | SITES_FOUND << 1 | l->state;
}

/*
 * How deep the kernel's stack is: that tells a kernel thread's waits apart. Not those of others:
 * the kernel begins each system call at a depth of its own, by chance. A pointer becomes a number
 * only by way of memory.
 */
static __always_inline __u64 stack_depth(void *ctx, struct site_thread *t)
{
	__u64 was = t->place;

	*(volatile __u64 *)&t->place = (__u64)ctx;
	__u64 depth = *(volatile __u64 *)&t->place & (ARCH_KERNEL_STACK - 1);
	t->place = was;
	return depth;
}

/* One that was made to leave may be anywhere: that is one site of the thread. */
static __always_inline void find_place(void *ctx, struct task_struct *prev, struct leaving *l,
				       struct site_thread *t)
{
	bool has_regs = bpf_core_enum_value_exists(enum bpf_func_id___kernel,
						   BPF_FUNC_task_pt_regs___kernel);
	struct pt_regs___call *regs;
	__u64 hash = l->state;

	l->sp = l->returns = 0;
	if (l->state != OFFCPU_RUNNABLE && prev->flags & PF_KTHREAD) {
		hash ^= stack_depth(ctx, t) << 8;
	} else if (l->state != OFFCPU_RUNNABLE) {
		if (has_regs)
			regs = (void *)bpf_task_pt_regs(prev);
		else
			regs = (void *)((char *)prev->stack + ARCH_KERNEL_STACK - ARCH_REGS_BYTES);
		l->sp = CALL(regs, ARCH_CALL_SP);
		hash = (hash ^ CALL(regs, ARCH_CALL_PC)) * HASH;
		hash = (hash ^ l->sp ^ (__u64)CALL(regs, ARCH_CALL) << 48) * HASH;
		if (!ARCH_MODE_IS_64_BIT(CALL(regs, ARCH_CALL_MODE)))
			l->sp = 0;
	}
	l->place = hash * HASH | 1;
	if (l->sp)
		l->returns = l->place == t->place ? t->returns : known_returns(l->place);
}

/* ---- periods --------------------------------------------------------------------------------- */

static __always_inline void add_sums(struct site_value *to, const struct site_thread *t)
{
	to->sums.blocked += t->blocked;
	to->sums.runnable += t->runnable;
	to->sums.periods += t->periods;
}

static __always_inline void clear_sums(struct site_thread *t)
{
	t->blocked = t->runnable = t->periods = 0;
}

static __always_inline void add_bare(struct site_thread *t, __u64 blocked, __u64 runnable,
				     __u32 periods)
{
	t->bare_blocked += blocked;
	t->bare_runnable += runnable;
	t->bare_periods += periods;
}

/* What does not fit on the stack, on older kernels. */
struct work {
	struct leaving leaving;
	struct site_details details;
	struct site_key key;
	struct site_value fresh;
};

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

/* The sums of the site that a thread was at so far are put where others' are. */
static __always_inline void leave_site(struct work *w, struct site_thread *t)
{
	if (t->key < SITES_FOUND || !t->periods)
		return;
	w->key = (struct site_key){.key = t->key, .tid = t->tid};
	struct site_value *s = bpf_map_lookup_elem(&sites, &w->key);
	if (s)
		add_sums(s, t);
	else /* user space removed it, as it had not been in use */
		add_bare(t, t->blocked, t->runnable, t->periods);
	clear_sums(t);
}

/*
 * A period without a site has ended. If the iterator found a stack for it, it becomes one, as if it
 * had been one.
 */
static __noinline void end_bare(struct site_thread *t, __u64 blocked, __u64 runnable)
{
	struct work *w = get_work();

	if (w && t->found == t->left) {
		w->key = (struct site_key){.key = SITES_FOUND | t->key, .tid = t->tid};
		w->fresh = (struct site_value){.walk = t->left, .sums = {blocked, runnable, 1}};
		if (bpf_map_update_elem(&sites, &w->key, &w->fresh, BPF_NOEXIST) == 0)
			return;
	}
	add_bare(t, blocked, runnable, 1);
}

/* The period that is over now that the thread leaves a CPU again. */
static __always_inline void end_period(struct site_thread *t, __u64 delay, __u64 now)
{
	__u64 ns = t->back - t->left, waited = delay - t->delay;

	if (!t->left || !t->back)
		return;
	t->ran += now - t->back;
	if ((t->key & SITES_STATE) == OFFCPU_RUNNABLE || waited > ns)
		waited = ns;
	count(WIRE_TAKEN);
	if (t->key >= SITES_FOUND) {
		t->blocked += ns - waited;
		t->runnable += waited;
		t->periods++;
	} else {
		end_bare(t, ns - waited, waited);
	}
}

static __always_inline bool is_first_leave(const struct task_struct *prev)
{
	return prev->nvcsw + prev->nivcsw == 1;
}

/* One that leaves for the first time; if it is new, it was runnable from its creation until it ran.
 */
static __noinline struct site_thread *begin_thread(struct task_struct *prev, __u64 now)
{
	__u64 waited = run_delay(prev), since = now - prev->start_time;
	struct site_thread *t = new_thread(prev->pid);

	if (!t) {
		count(WIRE_NO_ROOM);
	} else if (is_first_leave(prev)) {
		count(WIRE_TAKEN);
		add_bare(t, 0, waited, 1);
		t->ran = since > waited ? since - waited : 0;
	}
	return t;
}

/* ---- walks ----------------------------------------------------------------------------------- */

/*
 * By chance. Sooner where no return address was found, as several stacks may be one site then: the
 * table that was missing may be there by now, and is so soon where the program is new.
 */
static __always_inline bool is_due(const struct site_control *c, struct task_struct *prev,
				   const struct leaving *l)
{
	__u32 shift = c->shift;

	if (l->sp && !l->returns && l->now - prev->start_time < SITES_NEW_NS)
		shift = MIN(shift, SITES_NEW_SHIFT);
	else if (l->sp && !l->returns)
		shift = shift > SITES_SOONER ? shift - SITES_SOONER : 0;
	return (l->now * HASH) >> (64 - SITES_WALK_SHIFTS) >> ((SITES_WALK_SHIFTS - shift) & 31) ==
	       0;
}

static __always_inline struct site_control *get_control(void)
{
	__u32 zero = 0;

	return bpf_map_lookup_elem(&site_control, &zero);
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
	d->of.is_kernel = (prev->flags & PF_KTHREAD) != 0;
	if (!d->of.is_kernel && l->state != OFFCPU_RUNNABLE)
		read_call(prev, &d->of);
	if (old) {
		d->of.before.began = old->walk;
		d->of.before.ns = old->sums.blocked + old->sums.runnable;
		d->of.before.runnable_ns = old->sums.runnable;
		d->before_periods = old->sums.periods;
	}
}

static __always_inline void describe_end(struct work *w, const struct site_thread *t)
{
	w->details = (struct site_details){
		.of = {.syscall = -1,
		       .before = {w->leaving.now, t->bare_blocked + t->bare_runnable,
				  t->bare_runnable}},
		.before_periods = t->bare_periods,
		.tid = t->tid,
		.is_end = 1,
	};
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
	}
	w->key = (struct site_key){.key = l->key, .tid = t->tid};
	struct site_value *s = bpf_map_lookup_elem(&sites, &w->key);
	t->walk = s ? s->walk : l->now;
	if (s || bpf_map_update_elem(&sites, &w->key, &w->fresh, BPF_NOEXIST) == 0)
		return;
	struct site_control *c = get_control();
	if (c)
		c->full = 1;
	l->key = l->state;
}

/*
 * What a thread does seldom: it goes to another site than that of the last time, or to one that is
 * to be walked, or it ends. Then, if it has no walk, that is told, and it is forgotten; others user
 * space reads. Sets key and returns of w->leaving.
 */
static __always_inline void move(__u64 *ctx, struct work *w, struct site_thread *t, bool full)
{
	struct leaving *l = &w->leaving;
	struct task_struct *prev = (void *)ctx[1];
	struct site_value *s = NULL;
	bool is_end = l->state == OFFCPU_NONE, is_told;

	leave_site(w, t);
	if (is_end) {
		is_told = !t->walk && !t->found && t->bare_periods;
		describe_end(w, t);
	} else {
		struct site_control *c = get_control();
		w->key = (struct site_key){.key = l->key, .tid = t->tid};
		s = bpf_map_lookup_elem(&sites, &w->key);
		if (s)
			t->walk = s->walk;
		is_told = c && (s ? is_due(c, prev, l) : !c->full);
		describe_walk(w, prev, t, s);
	}
	struct taken e = {
		.time = l->now,
		.full = full,
		.uncounted = true,
		.bare = is_end,
		.value = is_end ? t->ran : 0,
		.details = (const __u64 *)&w->details,
	};
	bool is_written = is_told && event_put(ctx, NULL, &e) == EVENT_WRITTEN;
	if (is_end) {
		__u32 tid = t->tid;
		t->left = 0;
		if (t->walk || t->found || (is_told && !is_written))
			ARCH_STORE_RELEASE(&t->tid, tid | SITES_ENDED);
		else
			forget_thread(t, tid);
	} else if (is_written) {
		if (s) /* what it had was told */
			*s = (struct site_value){.walk = l->now};
		enter_walked(w, t);
	} else if (!s) {
		l->key = l->state;
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

static __always_inline void move_thread(__u64 *ctx, struct leaving *l, struct site_thread *t,
					bool full)
{
	struct work *w = get_work();

	if (!w)
		return; /* cannot be: there is one */
	w->leaving = *l;
	if (full)
		move_full(ctx, w, t);
	else
		move_plain(ctx, w, t);
	*l = w->leaving;
}

static __always_inline bool is_young(const struct site_thread *t, struct task_struct *prev,
				     __u64 now)
{
	return !t->place && now - prev->start_time < SITES_YOUNG_NS;
}

/* Where it leaves; the period that began there the last time has ended. */
static __always_inline void find_site(__u64 *ctx, struct leaving *l, struct site_thread *t,
				      bool full)
{
	struct task_struct *prev = (void *)ctx[1];
	struct site_control *c = get_control();

	l->key = l->state;
	if (!c || is_young(t, prev, l->now))
		return;
	find_place(ctx, prev, l, t);
	l->key = key_of(l);
	if (l->key == t->key && !is_due(c, prev, l))
		return;
	move_thread(ctx, l, t, full);
	t->place = l->place;
	t->returns = l->returns;
}

static __always_inline void leave(__u64 *ctx, struct task_struct *prev, __u64 now, bool full)
{
	struct leaving l = {.now = now, .state = state_of(prev, ctx[0])};
	struct site_thread *t = find_thread(prev->pid);

	if (!t) {
		if (l.state == OFFCPU_NONE && !is_first_leave(prev))
			return;
		t = begin_thread(prev, now);
		if (!t)
			return;
	}
	__u64 delay = run_delay(prev);
	t->begin++;
	barrier();
	end_period(t, delay, now);
	if (l.state == OFFCPU_NONE) {
		move_thread(ctx, &l, t, full);
	} else {
		find_site(ctx, &l, t, full);
		t->key = l.key;
		t->left = now;
		t->back = 0;
		t->delay = delay;
	}
	ARCH_STORE_RELEASE(&t->end, t->begin);
}

static __always_inline int switched(__u64 *ctx, bool full)
{
	struct task_struct *prev = (void *)ctx[1], *next = (void *)ctx[2];
	__u64 now = bpf_ktime_get_ns();
	__u32 back = next->pid;

	if (back) {
		struct site_thread *t = find_thread(back);
		if (t)
			t->back = now;
	}
	if (prev->pid)
		leave(ctx, prev, now, full);
	return 0;
}

SEC("tp_btf/sched_switch")
int sites_switch(__u64 *ctx)
{
	return switched(ctx, true);
}

SEC("tp_btf/sched_switch")
int sites_switch_plain(__u64 *ctx)
{
	return switched(ctx, false);
}

/* ---- what is off its CPU already ------------------------------------------------------------- */

struct { /* there is one reader: it takes one at a time */
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct site_found);
} found SEC(".maps");

/* A thread off its CPU that was never seen to leave it: it leaves now. */
static __always_inline struct site_thread *begin_off(struct task_struct *task, __u64 now)
{
	struct site_thread *t = new_thread(task->pid);

	if (!t)
		return NULL;
	t->key = state_of(task, false);
	t->delay = run_delay(task);
	t->left = now;
	if (task->on_cpu && !t->back) /* it came back meanwhile, and was not known */
		t->back = now;
	return t;
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
	if (!t || t->key >= SITES_FOUND || t->back || t->found == t->left)
		return 0;
	t->found = t->left;
	return t->found;
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
