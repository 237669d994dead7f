#include "unwind/walk.h"

#include <errno.h>
#include <string.h>

#include "base/mem.h"

struct state {
	uint64_t pc, sp, bp, r10;
	uint64_t bx, bx_at; /* as in bpf/walk.bpf.h */
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

/* Where the kernel puts registers when it delivers a signal: struct ucontext at sp. */
enum {
	UC_R10 = 40 + 2 * 8,
	UC_RBP = 40 + 10 * 8,
	UC_RBX = 40 + 11 * 8,
	UC_RSP = 40 + 15 * 8,
	UC_RIP = 40 + 16 * 8
};

static int step_signal(struct state *s)
{
	uint64_t sp = s->sp;

	if (!read_word(s, &s->pc, sp + UC_RIP) || !read_word(s, &s->bp, sp + UC_RBP) ||
	    !read_word(s, &s->sp, sp + UC_RSP) || !read_word(s, &s->r10, sp + UC_R10))
		return WIRE_WALK_FAULT;
	s->bx_at = sp + UC_RBX;
	s->exact = true;
	return 0;
}

/* As in bpf/walk.bpf.h. */
enum returns { NOT_RETURN, MAYBE_RETURN, IS_RETURN };

static enum returns is_return(const struct state *s, uint64_t addr)
{
	const struct unwind_rule *r;
	uint64_t before;

	if (addr >> 47 || !s->code(s->ctx, addr - sizeof(before), &before))
		return NOT_RETURN;
	if (unwind_is_call(before))
		return IS_RETURN;
	if (s->rule(s->ctx, addr - 1, &r) != 0 || !r)
		return NOT_RETURN;
	if (r->cfa == UNWIND_UNKNOWN && r->checked)
		return MAYBE_RETURN;
	return r->cfa == UNWIND_SIGNAL ? IS_RETURN : NOT_RETURN;
}

/* Whether the caller is above rbp: see bpf/unwind.h. */
static bool prove_frame(const struct state *s, bool keeps_rbp)
{
	uint64_t word;

	if (s->bp & 7 || s->sp & 7 || s->bp - s->sp >= UNWIND_SCAN_BYTES)
		return false;
	for (uint64_t at = s->sp; at < s->bp && !keeps_rbp; at += sizeof(word))
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
	uint64_t called = unwind_called(addr, before);
	return called && s->rule(s->ctx, called, &r) == 0 && r && r->cfa != UNWIND_UNKNOWN &&
	       !r->checked;
}

static enum unwind_shape find_shape(const struct state *s, bool keeps_rbp)
{
	uint64_t word;
	__u64 code[UNWIND_AROUND];
	enum unwind_shape shape = UNWIND_SHAPE_FRAME;

	if (s->code(s->ctx, s->pc - 1, &word))
		shape = unwind_shape(word);
	if (shape != UNWIND_SHAPE_FRAME || !keeps_rbp)
		return shape;
	uint64_t left;
	if (!read_word(s, &left, s->sp))
		return UNWIND_SHAPES;
	enum returns found = is_return(s, left);
	if (found == NOT_RETURN)
		return shape;
	for (unsigned i = 0; i < UNWIND_AROUND; i++) {
		if (!s->code(s->ctx, s->pc - 8 + 8 * (uint64_t)i, &word))
			return UNWIND_SHAPES;
		code[i] = word;
	}
	enum unwind_bare bare = unwind_bare(code);
	if (bare == UNWIND_BEFORE || (bare == UNWIND_AFTER && found == IS_RETURN))
		return UNWIND_SHAPE_BARE;
	return found == MAYBE_RETURN || is_left_over(s, left) ? UNWIND_SHAPE_FRAME : UNWIND_SHAPES;
}

static int step_without_row(struct state *s, bool keeps_rbp)
{
	uint64_t code, sp = s->sp;
	uint32_t out = 0;
	enum unwind_shape shape = s->exact ? find_shape(s, keeps_rbp) : UNWIND_SHAPE_FRAME;

	if (!keeps_rbp && s->code(s->ctx, s->pc - 1, &code))
		out = unwind_epilogue(code);
	if (out) {
		sp += (out & 0xff) - 1;
		shape = out & UNWIND_POPS_RBP ? UNWIND_SHAPE_SAVED : UNWIND_SHAPE_BARE;
	}
	if (shape == UNWIND_SHAPES)
		return WIRE_WALK_NO_ROW;
	if (shape == UNWIND_SHAPE_FRAME) {
		if (!prove_frame(s, keeps_rbp))
			return WIRE_WALK_NO_ROW;
		sp = s->bp + 8;
	} else if (shape == UNWIND_SHAPE_SAVED) {
		sp += 8;
	}
	if (!read_word(s, &s->pc, sp) ||
	    (shape != UNWIND_SHAPE_BARE && !read_word(s, &s->bp, sp - 8)))
		return WIRE_WALK_FAULT;
	if (!is_return(s, s->pc))
		return WIRE_WALK_NO_ROW;
	s->bx_at = UNWIND_NOWHERE;
	s->sp = sp + 8;
	s->exact = false;
	return 0;
}

static int step_frame(struct state *s)
{
	uint64_t bp = s->bp;

	if (!read_word(s, &s->bp, bp) || !read_word(s, &s->pc, bp + 8))
		return WIRE_WALK_FAULT;
	s->bx_at = UNWIND_NOWHERE;
	s->sp = bp + 16;
	s->exact = false;
	return s->pc ? 0 : WIRE_WALK_NO_ROW;
}

static int find_in_memory(const struct state *s, const struct unwind_rule *r, uint64_t *ret)
{
	bool by_rbp = r->cfa == UNWIND_RBP_MEM || r->cfa == UNWIND_RBP_MEM8;
	bool add = r->cfa == UNWIND_RBP_MEM8 || r->cfa == UNWIND_RSP_MEM8;

	if (!read_word(s, ret, (by_rbp ? s->bp : s->sp) + (uint64_t)(int64_t)r->cfa_offset))
		return WIRE_WALK_FAULT;
	*ret += add ? 8 : 0;
	return 0;
}

static int find_cfa(const struct state *s, const struct unwind_rule *r, uint64_t *ret)
{
	uint64_t offset = (uint64_t)(int64_t)r->cfa_offset;

	switch (r->cfa) {
	case UNWIND_RSP:
		*ret = s->sp + offset;
		break;
	case UNWIND_RBP:
		*ret = s->bp + offset;
		break;
	case UNWIND_R10:
		if (!s->exact)
			return WIRE_WALK_NO_ROW;
		*ret = s->r10 + offset;
		break;
	case UNWIND_RBX:
		*ret = s->bx;
		if (s->bx_at && !read_word(s, ret, s->bx_at))
			return WIRE_WALK_FAULT;
		*ret += offset;
		break;
	case UNWIND_RBP_MEM:
	case UNWIND_RBP_MEM8:
	case UNWIND_RSP_MEM:
	case UNWIND_RSP_MEM8:
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
	uint64_t cfa, pc, bp = s->bp;
	int result = find_cfa(s, r, &cfa);

	if (result)
		return result;
	if (!read_word(s, &pc, cfa - 8))
		return WIRE_WALK_FAULT;
	uint64_t offset = (uint64_t)(int64_t)r->rbp_offset;
	if ((r->rbp == UNWIND_RBP_AT_CFA && !read_word(s, &bp, cfa + offset)) ||
	    (r->rbp == UNWIND_RBP_AT_RBP && !read_word(s, &bp, s->bp + offset)))
		return WIRE_WALK_FAULT;
	if (r->checked && !is_return(s, pc))
		return WIRE_WALK_NO_ROW;
	if (r->rbx_offset)
		s->bx_at = r->rbx_offset == UNWIND_RBX_LOST
				   ? UNWIND_NOWHERE
				   : cfa + (uint64_t)(int64_t)r->rbx_offset;
	s->sp = cfa;
	s->bp = r->rbp == UNWIND_RBP_LOST ? 0 : bp;
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
		.bp = in->bp,
		.bx = in->bx,
		.r10 = in->r10,
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
