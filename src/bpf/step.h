/*
 * step: from a frame to its caller, the same in the BPF program (walk.bpf.h) and in user space
 * (unwind/walk.c), which includes this after it has said how it reads memory:
 *
 *	STEP_WALKER                     the struct whose `walk` has the registers pc, sp, fp, leaf
 *	                                and kept; kept_at, exact and word
 *	STEP_READ(s, to, addr)          a word of the stack; false: it cannot be read
 *	STEP_READ_ONCE(s, to, addr)     the same, where nothing near is read next
 *	STEP_READ_WORD(s, addr)         the same, into s->walk.word
 *	STEP_IS_RETURNED_TO(s, addr)    whether code is there, after a call
 *
 * Each returns 0, with the caller in s->walk, or enum wire_walk.
 */
#pragma once

#include "bpf/unwind.h"
#include "bpf/wire.h"

/* What the kernel saved when it delivered a signal. */
ARCH_INLINE int step_signal(STEP_WALKER *s)
{
	__u64 sp = s->walk.sp, pc;

	if (!STEP_READ_ONCE(s, &pc, sp + ARCH_SIGNAL_PC) ||
	    !STEP_READ_ONCE(s, &s->walk.fp, sp + ARCH_SIGNAL_FP) ||
	    !STEP_READ_ONCE(s, &s->walk.sp, sp + ARCH_SIGNAL_SP) ||
	    !STEP_READ_ONCE(s, &s->walk.leaf, sp + ARCH_SIGNAL_LEAF))
		return WIRE_WALK_FAULT;
	s->walk.kept_at = sp + ARCH_SIGNAL_KEPT;
	s->walk.pc = pc;
	s->walk.exact = 1; /* it was interrupted, it did not call */
	return 0;
}

/* Code that keeps frame pointers, that of Go's runtime. The stack pointer need not grow. */
ARCH_INLINE int step_frame(STEP_WALKER *s)
{
	__u64 fp = s->walk.fp;

	if (fp == 0)
		return WIRE_WALK_NO_ROW;
	if (!STEP_READ(s, &s->walk.fp, fp) || !STEP_READ(s, &s->walk.pc, fp + 8))
		return WIRE_WALK_FAULT;
	s->walk.kept_at = UNWIND_NOWHERE;
	s->walk.sp = fp + 16;
	s->walk.exact = 0;
	return s->walk.pc ? 0 : WIRE_WALK_NO_ROW;
}

/* The CFA by a rule that few frames have, into s->walk.word. */
ARCH_INLINE int step_find_cfa(STEP_WALKER *s, const struct unwind_rule *r)
{
	__u64 offset = (__s64)r->cfa_offset;

	switch (r->cfa) {
	case UNWIND_LEAF:
		s->walk.word = s->walk.leaf + offset;
		return s->walk.exact ? 0 : WIRE_WALK_NO_ROW;
	case UNWIND_KEPT:
		s->walk.word = s->walk.kept;
		if (s->walk.kept_at && !STEP_READ_WORD(s, s->walk.kept_at))
			return WIRE_WALK_FAULT;
		s->walk.word += offset;
		return 0;
	case UNWIND_FP_MEM:
	case UNWIND_FP_MEM8:
		if (!STEP_READ_WORD(s, s->walk.fp + offset))
			return WIRE_WALK_FAULT;
		s->walk.word += r->cfa == UNWIND_FP_MEM8 ? 8 : 0;
		return 0;
	case UNWIND_SP_MEM:
	case UNWIND_SP_MEM8:
		if (!STEP_READ_WORD(s, s->walk.sp + offset))
			return WIRE_WALK_FAULT;
		s->walk.word += r->cfa == UNWIND_SP_MEM8 ? 8 : 0;
		return 0;
	case UNWIND_PLT:
		s->walk.word = s->walk.sp + 8 + ((s->walk.pc & 15) >= offset ? 8 : 0);
		return 0;
	default:
		return WIRE_WALK_NO_ROW;
	}
}

/* Whether a rule says where the CFA is, and the rest follows from that. */
ARCH_INLINE _Bool step_has_cfa(const struct unwind_rule *r)
{
	return r->cfa != UNWIND_UNKNOWN && r->cfa != UNWIND_END && r->cfa != UNWIND_SIGNAL &&
	       r->cfa != UNWIND_GO_CGO && r->cfa != UNWIND_GO_SYSTEM && r->cfa != UNWIND_GO_GROW &&
	       r->cfa != UNWIND_FRAME;
}

/* By a rule, once the CFA is known; plain: it is a register and an offset, so it lies above sp. */
ARCH_INLINE int step_by_cfa(STEP_WALKER *s, const struct unwind_rule *r, __u64 cfa, _Bool plain)
{
	__u64 pc, fp = s->walk.fp;

	if (plain && cfa <= s->walk.sp)
		return WIRE_WALK_NO_ROW; /* a stack only grows this way; anything else is a loop */
	if (r->fp == UNWIND_FP_AT_CFA && !STEP_READ(s, &fp, cfa + (__s64)r->fp_offset))
		return WIRE_WALK_FAULT;
	if (r->fp == UNWIND_FP_AT_FP && !STEP_READ(s, &fp, s->walk.fp + (__s64)r->fp_offset))
		return WIRE_WALK_FAULT;
	if (r->fp == UNWIND_FP_LOST)
		fp = 0;
	if (!STEP_READ(s, &pc, cfa + ARCH_RETURN_AT))
		return WIRE_WALK_FAULT;
	if (r->must_follow_call && !STEP_IS_RETURNED_TO(s, pc))
		return WIRE_WALK_NO_ROW;
	if (r->kept_offset) /* if it is lost, that is no address, and reading it fails */
		s->walk.kept_at = r->kept_offset == UNWIND_KEPT_LOST ? UNWIND_NOWHERE
								     : cfa + (__s64)r->kept_offset;
	s->walk.sp = cfa;
	s->walk.fp = fp;
	s->walk.pc = pc;
	s->walk.exact = 0;
	return pc ? 0 : WIRE_WALK_NO_ROW;
}

/* Out of code without rows: its return address is at sp, and its caller's fp below that, if saved.
 */
ARCH_INLINE int step_to_return(STEP_WALKER *s, enum arch_shape shape, __u64 sp)
{
	if (!STEP_READ(s, &s->walk.pc, sp))
		return WIRE_WALK_FAULT;
	if (shape != ARCH_SHAPE_BARE && !STEP_READ(s, &s->walk.fp, sp - 8))
		return WIRE_WALK_FAULT;
	return STEP_IS_RETURNED_TO(s, s->walk.pc) ? 0 : WIRE_WALK_NO_ROW;
}
