/*
 * orc: the kernel's stack, frame by frame, by the tables that the kernel itself walks by (ORC).
 *
 * bpf_get_stack() gives the same frames, but searches those tables, megabytes of them, for each:
 * between two samples they leave the cache, and a walk of six frames takes 12 to 15 us. Here what
 * was found for an address is remembered, as walk.bpf.h does for user code.
 *
 * Only what is plain is followed: calls, on the task's own stack, from one function of the kernel
 * proper to the next, until the registers of user space or the end of a kernel thread. Anything
 * else (interrupts' stacks, modules, code made at run time, tracers' trampolines) is given up, and
 * bpf_get_stack() asked. Now and then both are done, and a difference ends it for good on this CPU.
 */
#pragma once

#include "bpf/walk.bpf.h"

const volatile struct wire_orc orc;

/*
 * Where in the table the entries of each KB of text begin; 0: it has none. So a search is among
 * some twenty entries, in two lines of the cache, not among half a million. Filled once, by
 * orc_index.
 */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1); /* sized by the loader */
	__type(key, __u32);
	__type(value, __u32);
} orc_blocks SEC(".maps");

/* What the bits of struct orc_entry mean from 6.4 on; in `how` they are as in the entry. */
enum orc_type { ORC_UNDEFINED, ORC_END_OF_STACK, ORC_CALL, ORC_REGS, ORC_REGS_PARTIAL };
enum orc_reg { ORC_REG_UNDEFINED = 0, ORC_REG_PREV_SP = 1, ORC_REG_BP = 4, ORC_REG_SP = 5 };

#define ORC_SP_REG(how) ((how)&15)
#define ORC_BP_REG(how) ((how) >> 4 & 15)
#define ORC_TYPE(how)   ((how) >> 8 & 7)
#define ORC_SIGNAL(how) ((how) >> 11 & 1)

#define ORC_CHECK_FIRST 4   /* samples of a CPU that are compared with bpf_get_stack() … */
#define ORC_CHECK_EVERY 128 /* … and later one in so many */

#define ORC_INDEX_PIECE  32  /* addresses of entries */
#define ORC_INDEX_PIECES 256 /* in one run */

enum orc_result { ORC_GO_ON, ORC_DONE, ORC_LEAVE };

#define FIELD_BITS(field, left, right)                                                             \
	(__builtin_preserve_field_info(((struct orc_entry *)0)->field, BPF_FIELD_LSHIFT_U64) ==    \
		 (left) &&                                                                         \
	 __builtin_preserve_field_info(((struct orc_entry *)0)->field, BPF_FIELD_RSHIFT_U64) ==    \
		 (right))

/* Whether the entries are as we think: asked of the kernel's BTF, so known before the first walk.
 */
static __always_inline bool orc_is_usable(void)
{
	if (!orc.count || !bpf_core_field_exists(((struct orc_entry *)0)->signal))
		return false; /* before 6.4 */
	return FIELD_BITS(sp_reg, 60, 60) && FIELD_BITS(bp_reg, 56, 60) &&
	       FIELD_BITS(type, 53, 61) && FIELD_BITS(signal, 52, 63) &&
	       bpf_core_type_size(struct orc_entry) == WIRE_ORC_ENTRY;
}

static __always_inline __u32 orc_hash(__u32 at, int bits)
{
	return (at * 0x9e3779b1u) >> (32 - bits);
}

static __always_inline __u32 orc_key(__u64 ip)
{
	return (__u32)(ip - orc.text) + 1;
}

static __always_inline __u32 orc_leaf_place(__u64 ip)
{
	return orc_hash(orc_key(ip), ORC_LEAF_BITS) & (ORC_LEAVES - 1);
}

/* Writes into s->orc.found what the table says of an address; false if it cannot be read. */
__noinline int orc_search(__u64 ip)
{
	struct scratch *s = get_scratch();
	if (!s)
		return 0;
	__u32 at = 0, n = orc.count, block = (__u32)((ip - orc.text) >> WIRE_ORC_BLOCK_BITS);
	__u32 next = block + 1;
	__u32 *low = bpf_map_lookup_elem(&orc_blocks, &block);
	__u32 *high = bpf_map_lookup_elem(&orc_blocks, &next);
	if (low && high && *low && *low < *high) { /* or the last one of the block before */
		at = *low - 1;
		n = *high - at;
	}
	for (int i = 0; i < 24 && n > 1; i++) {
		__u32 half = n / 2;
		__u64 entry = orc.ips + sizeof(__s32) * (__u64)(at + half);
		__s32 from_here;
		if (bpf_probe_read_kernel(&from_here, sizeof(from_here), (void *)entry) != 0)
			return 0;
		/* Without a branch: see walk_find_mapping(). */
		__u32 right = ~(ip - entry - (__s64)from_here) >> 63;
		at += half * right;
		n = half + (n & right);
	}
	struct orc_rule *r = &s->orc.found;
	r->at = orc_key(ip);
	return bpf_probe_read_kernel(&r->sp_offset, WIRE_ORC_ENTRY,
				     (void *)(orc.entries + WIRE_ORC_ENTRY * (__u64)at)) == 0;
}

/* A word of the task's stack, into s->orc.word: a piece at a time, from the frame's sp upwards. */
__noinline int orc_read(__u64 addr)
{
	struct scratch *s = get_scratch();
	if (!s)
		return 0;
	struct orc_walk *w = &s->orc;
	__u64 at = addr - w->piece;

	if (at > sizeof(s->piece) - sizeof(__u64)) {
		if (addr - w->stack > ARCH_KERNEL_STACK - sizeof(__u64))
			return 0;
		__u64 last = w->stack + ARCH_KERNEL_STACK - sizeof(s->piece);
		w->piece = w->sp < last ? w->sp & ~7ull : last;
		if (addr <
		    w->piece) /* below what was read already: a simple walk never goes back */
			return 0;
		if (addr - w->piece > sizeof(s->piece) - sizeof(__u64))
			w->piece = addr < last ? addr & ~7ull : last;
		at = addr - w->piece;
		if (bpf_probe_read_kernel(s->piece, sizeof(s->piece), (void *)w->piece) != 0) {
			w->piece = WALK_NO_PIECE;
			return 0;
		}
	}
	if (at & 7)
		return 0;
	w->word = s->piece[(at / sizeof(__u64)) & (WALK_PIECE - 1)];
	return 1;
}

/* Makes the address of a frame known, and w->next its place. */
__noinline int orc_find(__u64 ip, int frame)
{
	struct scratch *s = get_scratch();
	if (!s)
		return 0;
	struct orc_walk *w = &s->orc;
	__u32 key = orc_key(ip);

	if (frame == 0) {
		if (!orc_search(ip))
			return 0;
		w->found.next = ORC_LEAVES;
		s->orc_cached[w->next & (ORC_CACHED - 1)] = w->found;
		return 1;
	}
	__u16 *at = &s->orc_caller_at[orc_hash(key, ORC_CALLER_BITS + 1) & (2 * ORC_CALLERS - 1)];
	w->next = *at;
	if (s->orc_cached[w->next & (ORC_CACHED - 1)].at != key) {
		if (!orc_search(ip))
			return 0;
		w->next = ORC_LEAVES + (w->oldest & (ORC_CALLERS - 1));
		w->found.next = ORC_LEAVES + (++w->oldest & (ORC_CALLERS - 1));
		s->orc_cached[w->next & (ORC_CACHED - 1)] = w->found;
		*at = w->next;
	}
	s->orc_cached[w->last & (ORC_CACHED - 1)].next = w->next;
	return 1;
}

/* One step: from a frame, which is known, to its caller, which is written. */
__noinline int orc_step(int frame)
{
	struct scratch *s = get_scratch();
	if (!s || frame < 0)
		return ORC_LEAVE;
	struct orc_walk *w = &s->orc;
	__u64 ip = w->pc - !w->exact, sp, bp;

	if (ip - orc.text >= orc.text_bytes)
		return ORC_LEAVE;
	__u32 key = orc_key(ip);
	if (frame == 0)
		w->next = orc_leaf_place(ip);
	struct orc_rule *r = &s->orc_cached[w->next & (ORC_CACHED - 1)];
	if (r->at != key) {
		if (!orc_find(ip, frame))
			return ORC_LEAVE;
		r = &s->orc_cached[w->next & (ORC_CACHED - 1)];
	}
	w->last = w->next;
	w->next = r->next;

	__u32 how = r->how, type = ORC_TYPE(how);
	if (type == ORC_END_OF_STACK)
		return ORC_DONE;
	if (ORC_SP_REG(how) == ORC_REG_SP)
		sp = w->sp + (__s64)r->sp_offset;
	else if (ORC_SP_REG(how) == ORC_REG_BP)
		sp = w->bp + (__s64)r->sp_offset;
	else
		return ORC_LEAVE;
	if (type == ORC_REGS) /* done, if they are those of user space */
		return orc_read(sp + ARCH_MODE_AT) && ARCH_MODE_IS_USER(w->word) ? ORC_DONE
										 : ORC_LEAVE;
	if (type != ORC_CALL || sp <= w->sp)
		return ORC_LEAVE;

	__u64 bp_at = 0;
	if (ORC_BP_REG(how) == ORC_REG_PREV_SP)
		bp_at = sp + (__s64)r->bp_offset;
	else if (ORC_BP_REG(how) == ORC_REG_BP)
		bp_at = w->bp + (__s64)r->bp_offset;
	else if (ORC_BP_REG(how) != ORC_REG_UNDEFINED)
		return ORC_LEAVE;
	__u32 signal = ORC_SIGNAL(how);
	bp = w->bp;
	if (bp_at) {
		if (!orc_read(bp_at))
			return ORC_LEAVE;
		bp = w->word;
	}
	if (!orc_read(sp - sizeof(__u64)))
		return ORC_LEAVE;
	__u64 pc = w->word;
	if (pc - orc.text >= orc.text_bytes)
		return ORC_LEAVE;
	for (int i = 0; i < WIRE_ORC_TRAMPOLINES; i++)
		if (pc == orc.trampolines[i])
			return ORC_LEAVE;
	w->pc = pc;
	w->sp = sp;
	w->bp = bp;
	w->exact = signal;
	*frame_at(s, w->frames++ & WIRE_FRAMES) = pc;
	return ORC_GO_ON;
}

/* Up to the end of the stack, or until there are `most` frames. */
__noinline int orc_steps(int most)
{
	for (int i = 0; i < WIRE_FRAMES - 1; i++) {
		int result = i < most - 1 ? orc_step(i) : ORC_DONE;
		if (result)
			return result;
	}
	return ORC_DONE;
}

/* Writes the frames of the kernel stack from `regs` on: how many, or 0. */
static __always_inline __u32 orc_walk(struct scratch *s, const bpf_user_pt_regs_t *regs,
				      struct task_struct *task)
{
	struct orc_walk *w = &s->orc;

	/* Not the registers of something interrupted: an event of the kernel's own. */
	if (!ARCH_IS_INTERRUPTED(regs))
		return 0;
	w->stack = (__u64)TASK_READ(task, stack);
	w->pc = ARCH_PC(regs);
	w->sp = ARCH_SP(regs);
	w->bp = ARCH_FP(regs);
	w->piece = WALK_NO_PIECE;
	w->exact = 1;
	w->frames = 1;
	*frame_at(s, 0) = w->pc;
	if (w->sp - w->stack >= ARCH_KERNEL_STACK)
		return 0;
	return orc_steps(WIRE_FRAMES) == ORC_LEAVE ? 0 : w->frames;
}

#define ORC_SAME_SOME 16

/* Whether the sample's frames and s->check have the same addresses from `first` up to n. */
__noinline int orc_same_some(__u32 first, __u32 n)
{
	struct scratch *s = get_scratch();
	if (!s)
		return 0;
	for (__u32 i = 0; i < ORC_SAME_SOME; i++) {
		__u32 at = first + i;
		if (at >= n)
			break;
		if (*frame_at(s, at) != s->check[at & WIRE_FRAMES])
			return 0;
	}
	return 1;
}

/* Whether they begin with the same n addresses. */
static __always_inline bool orc_same(__u32 n)
{
	for (__u32 i = 0; i < WIRE_FRAMES && i < n; i += ORC_SAME_SOME)
		if (!orc_same_some(i, n))
			return false;
	return true;
}

/* Notes where blocks begin, in one piece of the table. */
__noinline int orc_index_piece(__u32 first)
{
	struct scratch *s = get_scratch();
	__s32 *piece = s ? (__s32 *)s->piece : NULL;
	__u64 from = orc.ips + sizeof(__s32) * (__u64)first;

	if (!piece || first >= orc.count ||
	    bpf_probe_read_kernel(piece, ORC_INDEX_PIECE * sizeof(__s32), (void *)from) != 0)
		return 0;
	for (__u32 i = 0; i < ORC_INDEX_PIECE; i++) {
		__u64 ip = from + sizeof(__s32) * (__u64)i + (__s64)piece[i];
		__u32 block = (__u32)((ip - orc.text) >> WIRE_ORC_BLOCK_BITS);
		if (ip < orc.text || first + i >= orc.count)
			continue;
		__u32 *at = bpf_map_lookup_elem(&orc_blocks, &block);
		if (at && !*at)
			*at = first + i;
	}
	return 1;
}

__u32 orc_indexed; /* entries so far */

/* Run by user space until all entries are, before the first sample. */
SEC("raw_tp")
int orc_index(void *ctx)
{
	__u32 at = orc_indexed;

	(void)ctx;
	if (!orc_is_usable())
		return 0;
	for (int i = 0; i < ORC_INDEX_PIECES; i++) {
		if (!orc_index_piece(at))
			break;
		at += ORC_INDEX_PIECE;
	}
	orc_indexed = at;
	return at < orc.count;
}
