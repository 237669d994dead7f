#include "unwind/x86_frame.h"

#include <string.h>

#include "base/mem.h"

#define DEPTH_MAX (1 << 24)

bool x86_frame_same(const struct x86_frame *a, const struct x86_frame *b)
{
	return memcmp(a, b, sizeof(*a)) == 0;
}

struct x86_frame x86_frame_join(const struct x86_frame *a, const struct x86_frame *b)
{
	struct x86_frame s = *a;

	if (a->bad || b->bad || a->end != b->end || a->frame != b->frame ||
	    (a->depth && b->depth && a->depth != b->depth && !a->frame))
		return (struct x86_frame){.bad = 1};
	if (!a->frame) /* code that sets rsp without a frame pointer restores it */
		s.depth = MAX(a->depth, b->depth);
	else if (a->depth != b->depth) /* V8's functions drop their arguments from the stack */
		s.depth = 0;
	if (a->bp != b->bp)
		s.bp = X86_FRAME_LOST;
	if (a->bx != b->bx)
		s.bx = X86_FRAME_LOST;
	return s;
}

static void deepen(struct x86_frame *s, int64_t by)
{
	if (!s->depth)
		return;
	int64_t depth = s->depth + by;
	if (depth < 8 || depth > DEPTH_MAX)
		*s = (struct x86_frame){.bad = 1};
	else
		s->depth = (int32_t)depth;
}

void x86_frame_push(struct x86_frame *s, uint8_t reg)
{
	deepen(s, 8);
	bool near = s->depth && s->depth <= INT16_MAX;
	if (reg == X86_RBP && s->bp == 0 && !s->frame)
		s->bp = near ? (int16_t)-s->depth : X86_FRAME_LOST;
	if (reg == X86_RBX && s->bx == 0)
		s->bx = near ? (int16_t)-s->depth : X86_FRAME_LOST;
}

static void pop(struct x86_frame *s, uint8_t reg)
{
	bool own = s->depth && s->bp == -s->depth;

	if (reg == X86_RBP) {
		if (s->bp && !own && s->frame)
			s->bp = X86_FRAME_LOST;
		s->frame = 0;
		if (own)
			s->bp = 0;
	}
	if (reg == X86_RBX && s->depth && s->bx == -s->depth)
		s->bx = 0;
	if (reg == X86_RSP)
		s->depth = 0;
	else
		deepen(s, -8);
}

static void set_depth(struct x86_frame *s, int64_t depth)
{
	if (!s->frame || depth < 8 || depth > DEPTH_MAX)
		*s = (struct x86_frame){.bad = 1};
	else
		s->depth = (int32_t)depth;
}

void x86_frame_apply(struct x86_frame *s, const struct x86 *x)
{
	if (s->bad || s->end)
		return;
	switch (x->kind) {
	case X86_PUSH:
		x86_frame_push(s, x->reg);
		break;
	case X86_POP:
		pop(s, x->reg);
		break;
	case X86_ADD_RSP:
		deepen(s, -(int64_t)x->value);
		break;
	case X86_SET_RSP:
		s->depth = 0;
		break;
	case X86_RSP_FROM_RBP:
		set_depth(s, (int64_t)s->frame - x->value);
		break;
	case X86_RBP_FROM_RSP:
		s->frame = s->depth && s->bp ? s->depth - x->value : 0;
		break;
	case X86_LEAVE:
		set_depth(s, s->frame);
		if (!s->bad)
			pop(s, X86_RBP);
		break;
	case X86_CLEAR_RBP:
		if (s->bp == 0) { /* it cannot restore rbp, so it never returns */
			*s = (struct x86_frame){.end = 1};
			break;
		}
		s->frame = 0;
		break;
	case X86_SET_RBP:
		s->frame = 0;
		if (s->bp == 0)
			s->bp = X86_FRAME_LOST;
		break;
	case X86_STORE_RBP:
		if (s->bp == 0 && !s->frame)
			s->bp = X86_FRAME_LOST;
		break;
	default:
		break;
	}
}

struct unwind_rule x86_frame_rule(const struct x86_frame *s)
{
	struct unwind_rule rule = {.must_follow_call = 1};

	if (s->end)
		return (struct unwind_rule){.cfa = UNWIND_END};
	if (s->bad || (!s->frame && !s->depth))
		return (struct unwind_rule){.cfa = UNWIND_UNSUPPORTED};
	rule.cfa = s->frame ? UNWIND_FP : UNWIND_SP;
	rule.cfa_offset = s->frame ? s->frame : s->depth;
	rule.fp = s->bp == 0                ? UNWIND_FP_SAME
		  : s->bp == X86_FRAME_LOST ? UNWIND_FP_LOST
					    : UNWIND_FP_AT_CFA;
	rule.fp_offset = s->bp == X86_FRAME_LOST ? 0 : s->bp;
	rule.kept_offset = s->bx == X86_FRAME_LOST ? UNWIND_KEPT_LOST : s->bx;
	return rule;
}
