#include "unwind/walk.h"

#include <errno.h>
#include <string.h>

#include "base/mem.h"

struct state {
	uint64_t pc, sp, fp, leaf;
	uint64_t kept, kept_at; /* as in bpf/walk.bpf.h */
	bool exact;
	const struct walk_input *in;
	walk_rule_fn *rule;
	walk_code_fn *code;
	void *ctx;
};

static bool read_word(const struct state *s, uint64_t *to, uint64_t addr)
{
	uint64_t at = addr - s->in->stack_start;

	if (at >= s->in->stack_len || s->in->stack_len - at < sizeof(*to))
		return false;
	memcpy(to, s->in->stack + at, sizeof(*to));
	return true;
}

static int step_signal(struct state *s)
{
	uint64_t sp = s->sp;

	if (!read_word(s, &s->pc, sp + ARCH_SIGNAL_PC) ||
	    !read_word(s, &s->fp, sp + ARCH_SIGNAL_FP) ||
	    !read_word(s, &s->sp, sp + ARCH_SIGNAL_SP) ||
	    !read_word(s, &s->leaf, sp + ARCH_SIGNAL_LEAF))
		return WIRE_WALK_FAULT;
	s->kept_at = sp + ARCH_SIGNAL_KEPT;
	s->exact = true;
	return 0;
}

/* As in bpf/walk.bpf.h. */
enum returns { NOT_RETURN, MAYBE_RETURN, IS_RETURN };

static enum returns is_return(const struct state *s, uint64_t addr)
{
	const struct unwind_rule *r;
	uint64_t before;

	if (addr >> ARCH_USER_BITS || !s->code(s->ctx, addr - sizeof(before), &before))
		return NOT_RETURN;
	if (arch_is_call(before))
		return IS_RETURN;
	if (s->rule(s->ctx, addr - 1, &r) != 0 || !r)
		return NOT_RETURN;
	if (r->cfa == UNWIND_UNKNOWN && r->checked)
		return MAYBE_RETURN;
	return r->cfa == UNWIND_SIGNAL ? IS_RETURN : NOT_RETURN;
}

/* Whether the caller is above fp: see bpf/unwind.h. */
static bool prove_frame(const struct state *s, bool keeps_fp)
{
	uint64_t word;

	if (s->fp & 7 || s->sp & 7 || s->fp - s->sp >= UNWIND_SCAN_BYTES)
		return false;
	for (uint64_t at = s->sp; at < s->fp && !keeps_fp; at += sizeof(word))
		if (!read_word(s, &word, at) || is_return(s, word) == IS_RETURN)
			return false;
	return true;
}

/* Whether a return address was left behind: see bpf/unwind.h. */
static bool is_left_over(const struct state *s, uint64_t addr)
{
	const struct unwind_rule *r;
	uint64_t before;

	if (!s->code(s->ctx, addr - sizeof(before), &before))
		return false;
	uint64_t called = arch_called(addr, before);
	return called && s->rule(s->ctx, called, &r) == 0 && r && r->cfa != UNWIND_UNKNOWN &&
	       !r->checked;
}

static enum arch_shape find_shape(const struct state *s, bool keeps_fp)
{
	uint64_t word;
	__u64 code[ARCH_AROUND];
	enum arch_shape shape = ARCH_SHAPE_FRAME;

	if (s->code(s->ctx, s->pc - 1, &word))
		shape = arch_shape(word);
	if (shape != ARCH_SHAPE_FRAME || !keeps_fp)
		return shape;
	uint64_t left;
	if (!read_word(s, &left, s->sp))
		return ARCH_SHAPES;
	enum returns found = is_return(s, left);
	if (found == NOT_RETURN)
		return shape;
	for (unsigned i = 0; i < ARCH_AROUND; i++) {
		if (!s->code(s->ctx, s->pc - 8 + 8 * (uint64_t)i, &word))
			return ARCH_SHAPES;
		code[i] = word;
	}
	enum arch_bare bare = arch_bare(code);
	if (bare == ARCH_BEFORE || (bare == ARCH_AFTER && found == IS_RETURN))
		return ARCH_SHAPE_BARE;
	return found == MAYBE_RETURN || is_left_over(s, left) ? ARCH_SHAPE_FRAME : ARCH_SHAPES;
}

static int step_without_row(struct state *s, bool keeps_fp)
{
	uint64_t code, sp = s->sp;
	uint32_t out = 0;
	enum arch_shape shape = s->exact ? find_shape(s, keeps_fp) : ARCH_SHAPE_FRAME;

	if (!keeps_fp && s->code(s->ctx, s->pc - 1, &code))
		out = arch_epilogue(code);
	if (out) {
		sp += (out & 0xff) - 1;
		shape = out & ARCH_POPS_FP ? ARCH_SHAPE_SAVED : ARCH_SHAPE_BARE;
	}
	if (shape == ARCH_SHAPES)
		return WIRE_WALK_NO_ROW;
	if (shape == ARCH_SHAPE_FRAME) {
		if (!prove_frame(s, keeps_fp))
			return WIRE_WALK_NO_ROW;
		sp = s->fp + 8;
	} else if (shape == ARCH_SHAPE_SAVED) {
		sp += 8;
	}
	if (!read_word(s, &s->pc, sp) ||
	    (shape != ARCH_SHAPE_BARE && !read_word(s, &s->fp, sp - 8)))
		return WIRE_WALK_FAULT;
	if (!is_return(s, s->pc))
		return WIRE_WALK_NO_ROW;
	s->kept_at = UNWIND_NOWHERE;
	s->sp = sp + 8;
	s->exact = false;
	return 0;
}

static int step_frame(struct state *s)
{
	uint64_t fp = s->fp;

	if (!read_word(s, &s->fp, fp) || !read_word(s, &s->pc, fp + 8))
		return WIRE_WALK_FAULT;
	s->kept_at = UNWIND_NOWHERE;
	s->sp = fp + 16;
	s->exact = false;
	return s->pc ? 0 : WIRE_WALK_NO_ROW;
}

static int find_in_memory(const struct state *s, const struct unwind_rule *r, uint64_t *ret)
{
	bool by_fp = r->cfa == UNWIND_FP_MEM || r->cfa == UNWIND_FP_MEM8;
	bool add = r->cfa == UNWIND_FP_MEM8 || r->cfa == UNWIND_SP_MEM8;

	if (!read_word(s, ret, (by_fp ? s->fp : s->sp) + (uint64_t)(int64_t)r->cfa_offset))
		return WIRE_WALK_FAULT;
	*ret += add ? 8 : 0;
	return 0;
}

static int find_cfa(const struct state *s, const struct unwind_rule *r, uint64_t *ret)
{
	uint64_t offset = (uint64_t)(int64_t)r->cfa_offset;

	switch (r->cfa) {
	case UNWIND_SP:
		*ret = s->sp + offset;
		break;
	case UNWIND_FP:
		*ret = s->fp + offset;
		break;
	case UNWIND_LEAF:
		if (!s->exact)
			return WIRE_WALK_NO_ROW;
		*ret = s->leaf + offset;
		break;
	case UNWIND_KEPT:
		*ret = s->kept;
		if (s->kept_at && !read_word(s, ret, s->kept_at))
			return WIRE_WALK_FAULT;
		*ret += offset;
		break;
	case UNWIND_FP_MEM:
	case UNWIND_FP_MEM8:
	case UNWIND_SP_MEM:
	case UNWIND_SP_MEM8:
		return find_in_memory(s, r, ret);
	case UNWIND_GO_CGO:
	case UNWIND_GO_SYSTEM:
	case UNWIND_GO_GROW:
		return WIRE_WALK_FAULT; /* another stack, of which there is no copy */
	case UNWIND_PLT:
		*ret = s->sp + 8 + ((s->pc & 15) >= offset ? 8 : 0);
		break;
	default:
		return WIRE_WALK_NO_ROW;
	}
	return *ret > s->sp ? 0 : WIRE_WALK_NO_ROW; /* a stack only grows this way */
}

static int step_rule(struct state *s, const struct unwind_rule *r)
{
	uint64_t cfa, pc, fp = s->fp;
	int result = find_cfa(s, r, &cfa);

	if (result)
		return result;
	if (!read_word(s, &pc, cfa + ARCH_RETURN_AT))
		return WIRE_WALK_FAULT;
	uint64_t offset = (uint64_t)(int64_t)r->fp_offset;
	if ((r->fp == UNWIND_FP_AT_CFA && !read_word(s, &fp, cfa + offset)) ||
	    (r->fp == UNWIND_FP_AT_FP && !read_word(s, &fp, s->fp + offset)))
		return WIRE_WALK_FAULT;
	if (r->checked && !is_return(s, pc))
		return WIRE_WALK_NO_ROW;
	if (r->kept_offset)
		s->kept_at = r->kept_offset == UNWIND_KEPT_LOST
				     ? UNWIND_NOWHERE
				     : cfa + (uint64_t)(int64_t)r->kept_offset;
	s->sp = cfa;
	s->fp = r->fp == UNWIND_FP_LOST ? 0 : fp;
	s->pc = pc;
	s->exact = false;
	return pc ? 0 : WIRE_WALK_NO_ROW;
}

int walk_stack(const struct walk_input *in, walk_rule_fn *rule, walk_code_fn *code, void *ctx,
	       uint64_t *frames, size_t max, size_t *ret_count)
{
	struct state s = {
		.pc = in->pc,
		.sp = in->sp,
		.fp = in->fp,
		.kept = in->kept,
		.leaf = in->leaf,
		.exact = in->exact,
		.in = in,
		.rule = rule,
		.code = code,
		.ctx = ctx,
	};
	size_t count = 0;
	int result = 0;

	while (result == 0 && count < max) {
		const struct unwind_rule *r;
		uint64_t addr = s.pc - !s.exact;
		int err = rule(ctx, addr, &r);
		if (err == -EAGAIN)
			return err;
		if (err) {
			result = WIRE_WALK_NO_MAPPING;
			break;
		}
		frames[count++] = addr;
		if (!r || r->cfa == UNWIND_UNKNOWN)
			result = step_without_row(&s, r && r->checked);
		else if (r->cfa == UNWIND_END)
			result = WIRE_WALK_COMPLETE;
		else if (r->cfa == UNWIND_FRAME)
			result = step_frame(&s);
		else if (r->cfa != UNWIND_SIGNAL)
			result = step_rule(&s, r);
		else {
			if (count > 1) /* nothing called it: its first instruction is returned to */
				frames[count - 1] = s.pc;
			result = step_signal(&s);
		}
	}
	*ret_count = count;
	return result ? result : WIRE_WALK_CUT;
}
