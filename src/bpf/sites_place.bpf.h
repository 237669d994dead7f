/*
 * sites_place: where a thread leaves its CPU, and which of the sites where it was lately that is,
 * for sites.bpf.c.
 */
#pragma once

#include "bpf/event.bpf.h"
#include "bpf/offcpu_task.bpf.h"
#include "bpf/sites_wire.h"

#define HASH 0x9e3779b97f4a7c15ull

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
