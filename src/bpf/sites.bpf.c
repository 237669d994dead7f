// SPDX-License-Identifier: GPL-2.0
/*
 * sites: how long threads are off their CPU, by where they leave it: see sites.h.
 *
 * A thread that leaves at one of the places where it did lately costs some additions in two lines
 * of its own memory and one of the CPU's. Where caches are cold, what costs is each function of the
 * kernel's that is called, so that path calls none, if the kernel is new enough: time is the
 * scheduler's, registers are read where they are, and the user's stack is not looked at where the
 * registers tell enough. All else is in functions of their own: the code of that path is small, and
 * so is its stack, of which the verifier counts what all of them have together.
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

struct { /* by the CPU's number; it is as large as there are CPUs */
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct site_cpu);
} by_cpu SEC(".maps");

static __always_inline struct site_control *get_control(void)
{
	__u32 zero = 0;

	return bpf_map_lookup_elem(&site_control, &zero);
}

/* ---- the clock ------------------------------------------------------------------------------- */

#define COMPARE_NS (1ull << 26)
#define STEP_NS    20000
#define JUMP_NS    100000000

/*
 * The scheduler has read its clock just before the switch, or, if it knew that one would come, some
 * microseconds ago: then the difference is too large. So the least one counts, and it grows in
 * small steps, which are more than clocks that are adjusted run apart.
 */
static __always_inline void compare_clocks(struct site_control *c, __u64 clock)
{
	__u64 offset = bpf_ktime_get_ns() - clock;
	__s64 more = (__s64)(offset - c->offset);

	if (!c->offset || more < 0 || more > JUMP_NS)
		c->offset = offset;
	else if (more > STEP_NS)
		c->offset += STEP_NS;
}

/* What all CPUs share is copied now and then: a switch reads it where it writes anyway. */
static __noinline void look_at_control(struct site_cpu *cpu, __u64 clock, __u32 has_clock)
{
	struct site_control *c = get_control();

	if (!c)
		return; /* cannot be: there is one */
	if (c->by_scheduler && has_clock)
		compare_clocks(c, clock);
	cpu->compared = clock;
	cpu->offset = c->offset;
	cpu->shift = c->shift;
}

/* CLOCK_MONOTONIC; most often without reading that, which takes as long as all the rest. */
static __always_inline __u64 read_clock(struct site_cpu *cpu, struct task_struct *prev)
{
	bool has_clock = bpf_core_field_exists(prev->se.cfs_rq) &&
			 bpf_core_field_exists(prev->se.cfs_rq->rq);
	__u64 clock = has_clock ? prev->se.cfs_rq->rq->clock : bpf_ktime_get_ns();

	if (clock - cpu->compared > COMPARE_NS)
		look_at_control(cpu, clock, has_clock);
	if (!has_clock)
		return clock;
	return cpu->offset ? clock + cpu->offset : bpf_ktime_get_ns();
}

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

/* A place for a thread, empty. The caller fills it, then publishes it by its tid. */
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
	__u32 at = (place >> 33) & (SITES_PLACES - 1); /* bit 32 is always set */

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
	__u32 tag;
	enum offcpu_state state;
};

/* The higher half is the place's, so that sites at one place know each other. */
static __always_inline __u64 key_of(const struct leaving *l)
{
	__u64 hash = (l->place ^ hash_returns(l->returns, l->sp)) * HASH;
	__u64 low = (hash >> 32 & ~(__u64)SITES_STATE) | SITES_FOUND << 1 | l->state;

	return l->place >> 32 << 32 | low;
}

/*
 * How deep the kernel's stack is: that tells a kernel thread's waits apart. Not those of others:
 * the kernel begins each system call at a depth of its own, by chance. A pointer becomes a number
 * only by way of memory.
 */
static __always_inline __u64 stack_depth(void *ctx, struct site_cpu *cpu)
{
	*(volatile __u64 *)&cpu->word = (__u64)ctx;
	return *(volatile __u64 *)&cpu->word & (ARCH_KERNEL_STACK - 1);
}

extern void *bpf_rdonly_cast(const void *object, __u32 type) __ksym __weak;

static __noinline void locate_registers(struct site_cpu *cpu)
{
	struct task_struct *task = bpf_get_current_task_btf();

	*(volatile __u64 *)&cpu->word = (__u64)bpf_task_pt_regs(task);
	cpu->regs_at = *(volatile __u64 *)&cpu->word - (__u64)task->stack;
}

enum how {          /* the registers that a thread entered the kernel with are found */
	   BY_CALL, /* of the kernel's, if it has that, or by reading its stack */
	   BY_CAST, /* the kernel lets a program look there */
};

static __always_inline void find_user_place(struct task_struct *prev, struct site_cpu *cpu,
					    struct leaving *l, enum how how)
{
	bool has_regs = bpf_core_enum_value_exists(enum bpf_func_id___kernel,
						   BPF_FUNC_task_pt_regs___kernel);
	struct pt_regs___call *regs;
	__u64 hash = l->state;

	if (how == BY_CAST) {
		if (!cpu->regs_at)
			locate_registers(cpu);
		regs = bpf_rdonly_cast((char *)prev->stack + cpu->regs_at,
				       bpf_core_type_id_kernel(struct pt_regs___call));
	} else if (has_regs) {
		regs = (void *)bpf_task_pt_regs(prev);
	} else {
		regs = (void *)((char *)prev->stack + ARCH_KERNEL_STACK - ARCH_REGS_BYTES);
	}
	l->sp = CALL(regs, ARCH_CALL_SP);
	hash = (hash ^ CALL(regs, ARCH_CALL_PC)) * HASH;
	hash = (hash ^ l->sp ^ (__u64)CALL(regs, ARCH_CALL) << 48) * HASH;
	l->place = hash * HASH | 1ull << 32;
	if (!ARCH_MODE_IS_64_BIT(CALL(regs, ARCH_CALL_MODE)))
		l->sp = 0;
	l->tag = 0;
	if (!has_regs) /* each register costs a call: as much as a look at the stack */
		return;
	hash = l->place;
	hash += regs->ARCH_CALL_KEPT0 * (HASH << 1 | 1);
	hash += regs->ARCH_CALL_KEPT1 * (HASH << 2 | 1);
	hash += regs->ARCH_CALL_KEPT2 * (HASH << 3 | 1);
	hash += regs->ARCH_CALL_KEPT3 * (HASH << 4 | 1);
	hash += regs->ARCH_CALL_KEPT4 * (HASH << 5 | 1);
	hash += regs->ARCH_CALL_KEPT5 * (HASH << 6 | 1);
	l->tag = (hash ^ hash >> 32) | 1;
}

/* One that was made to leave may be anywhere: that is one site of the thread. */
static __always_inline void find_place(void *ctx, struct task_struct *prev, struct site_cpu *cpu,
				       struct leaving *l, enum how how)
{
	__u64 hash = l->state;

	l->sp = l->returns = 0;
	if (l->state != OFFCPU_RUNNABLE && !(prev->flags & PF_KTHREAD)) {
		find_user_place(prev, cpu, l, how);
		return;
	}
	if (l->state != OFFCPU_RUNNABLE)
		hash ^= stack_depth(ctx, cpu) << 8;
	l->place = hash * HASH | 1ull << 32;
	l->tag = l->place >> 32 | 1;
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

/* The period that is over now that the thread, which came back then, leaves a CPU again. */
static __always_inline void end_period(struct site_thread *t, struct site_cpu *cpu, __u64 delay,
				       __u64 now)
{
	__u64 back = cpu->since, waited = delay - t->delay;
	__u32 at = t->at;

	if (!t->left || cpu->tid != t->tid || at > SITES_SLOTS)
		return;
	if (back < t->left) /* clocks have been set; or it was found while it came back */
		back = t->left;
	__u64 ns = back - t->left;
	struct site_slot *slot = &t->slots[at];
	if (now > back)
		t->ran += now - back;
	if ((slot->key & SITES_STATE) == OFFCPU_RUNNABLE || waited > ns)
		waited = ns;
	cpu->taken++;
	if (at || t->found != t->left)
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
static __noinline struct site_thread *begin_thread(struct task_struct *prev, struct site_cpu *cpu,
						   __u64 now)
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
	const struct site_slot *bare = &t->slots[0];

	w->details = (struct site_details){
		.of = {.syscall = -1,
		       .before = {w->leaving.now, bare->blocked + bare->runnable, bare->runnable}},
		.before_periods = bare->periods,
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
	t->at = i + 1;
	t->known = 1;
}

/* The slot of a site; if it has none, the next one but that in use lately. */
static __always_inline __u32 choose_slot(const struct site_thread *t, const struct leaving *l)
{
	__u32 any = (l->now >> 10) & (SITES_SLOTS - 1);

	if (any + 1 == t->at)
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
	bool is_told = !t->known && t->slots[0].periods;

	describe_end(w, t);
	struct taken e = {
		.time = w->leaving.now,
		.full = full,
		.uncounted = true,
		.bare = true,
		.value = t->ran,
		.details = (const __u64 *)&w->details,
	};
	bool is_written = is_told && event_put(ctx, NULL, &e) == EVENT_WRITTEN;
	t->left = 0;
	if (t->known || (is_told && !is_written))
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
	t->at = 0;
	empty_slot(w, t, &t->slots[(w->slot & (SITES_SLOTS - 1)) + 1]);
	w->key = (struct site_key){.key = l->key, .tid = t->tid};
	struct site_value *s = bpf_map_lookup_elem(&sites, &w->key);
	bool is_told = c && (s ? is_due(c, prev, l) : !c->full);
	describe_walk(w, prev, t, s);
	struct taken e = {
		.time = bpf_ktime_get_ns(),
		.full = full,
		.uncounted = true,
		.details = (const __u64 *)&w->details,
	};
	if (is_told && event_put(ctx, NULL, &e) == EVENT_WRITTEN) {
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

/*
 * Comparing the stack at each switch would double the cost. So a slot has a tag: a hash of the
 * place and the callee-saved registers, or of the place alone where these differ each time. Once
 * STEADY comparisons in a row at a place found only this site (one with the same registers as
 * before counts STEADY_SAME), the tag alone decides; one time in CHECKED, by chance, the stack is
 * compared anyway (in CHECKED_PLACE, by the place alone). Each wrong tag, up to DOUBTS_MAX, doubles
 * the comparisons that the thread's tags need, and none is of the place alone from then on: so of
 * two callers that differ in nothing but what is on the stack, both are met before long.
 */
#define STEADY        64
#define STEADY_SAME   4
#define DOUBTS_MAX    2
#define CHECKED       16 /* one in so many */
#define CHECKED_PLACE 4

static __always_inline bool is_checked(const struct leaving *l, __u32 one_in)
{
	return (l->now * HASH >> 20 & (one_in - 1)) == 0;
}

static __always_inline __u32 place_tag(const struct leaving *l)
{
	return l->place >> 32 | 1;
}

/* The slot that is told without a look, from 1; 0: none. */
static __always_inline __u32 find_tag(const struct site_thread *t, const struct leaving *l)
{
	__u32 at = 0, by_place = 0, place = place_tag(l);

	for (__u32 i = 0; i < SITES_SLOTS; i++) {
		if (t->tags[i] == place)
			by_place = i + 1;
		if (t->tags[i] == l->tag)
			at = i + 1;
	}
	if (!l->sp) /* a look tells no more */
		return by_place;
	if (at && l->tag)
		return is_checked(l, CHECKED) ? 0 : at;
	return is_checked(l, CHECKED_PLACE) ? 0 : by_place;
}

/*
 * The slot whose key it is, from 1; 0: none. Those of other callers that were met at this place
 * since are no longer told by a tag, and it is not either before long.
 */
static __always_inline __u32 find_key(struct site_thread *t, const struct leaving *l)
{
	__u32 at = 0;
	bool is_mixed = false;

	for (__u32 i = 0; i < SITES_SLOTS; i++) {
		__u64 key = t->slots[i + 1].key;
		if (key == l->key) {
			at = i + 1;
		} else if (key >> 32 == l->key >> 32 && t->steady[i]) {
			is_mixed = true;
			t->doubts += t->tags[i] && t->doubts < DOUBTS_MAX;
			t->tags[i] = t->steady[i] = 0;
		}
	}
	if (at && is_mixed)
		t->steady[(at - 1) & (SITES_SLOTS - 1)] = 0;
	return at;
}

static __always_inline void steady(struct site_thread *t, const struct leaving *l, __u32 at)
{
	__u32 i = (at - 1) & (SITES_SLOTS - 1);
	struct site_slot *slot = &t->slots[i + 1];
	bool is_same = l->tag && slot->seen == l->tag;
	__u32 n = t->steady[i] + (is_same ? STEADY_SAME : 1);

	slot->seen = l->tag;
	t->steady[i] = n < 255 ? n : 255;
	if (!l->sp)
		t->tags[i] = place_tag(l);
	else if (l->returns && n >= (__u32)STEADY << t->doubts && (is_same || !t->doubts))
		t->tags[i] = is_same ? l->tag : place_tag(l);
}

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
	t->at = at;
	return true;
}

static __always_inline bool is_young(const struct site_thread *t, struct task_struct *prev,
				     __u64 now)
{
	return !t->known && age_of(prev, now) < SITES_YOUNG_NS;
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
			t->at = at;
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
		if (t->at)
			return;
	}
	t->at = 0;
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
	end_period(t, cpu, delay, now);
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

static __always_inline int switched(__u64 *ctx, bool full, enum how how)
{
	struct task_struct *prev = (void *)ctx[1], *next = (void *)ctx[2];
	__u32 number = bpf_get_smp_processor_id();
	struct site_cpu *cpu = bpf_map_lookup_elem(&by_cpu, &number);

	if (!cpu)
		return 0; /* cannot be: there is one for each */
	__u64 now = read_clock(cpu, prev);
	if (prev->pid)
		leave(ctx, cpu, now, full, how);
	cpu->since = now;
	ARCH_STORE_RELEASE(&cpu->tid, next->pid);
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
static __always_inline struct site_thread *begin_off(struct task_struct *task, __u64 now)
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

/* Of a thread that waits now and whose stack no walk has, when it began to; 0: it is not such. */
static __always_inline __u64 waits_since(struct task_struct *task, __u64 now)
{
	struct site_thread *t;

	if (!task->pid || task->on_cpu || state_of(task, false) == OFFCPU_NONE)
		return 0;
	t = find_thread(task->pid);
	if (!t)
		t = begin_off(task, now);
	if (!t || t->at || t->found == t->left)
		return 0;
	t->found = t->left;
	t->known = 1;
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
