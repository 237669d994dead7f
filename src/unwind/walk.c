#include "unwind/walk.h"

#include <errno.h>
#include <string.h>

#include "base/mem.h"

struct state {
	struct {
		__u64 pc, sp, fp, leaf;
		__u64 kept, kept_at, word; /* as in bpf/walk.bpf.h */
		bool exact;
	} walk;
	const struct walk_input *in;
	walk_rule_fn *rule;
	walk_code_fn *code;
	void *ctx;
};

static bool read_word(const struct state *s, __u64 *to, uint64_t addr)
{
	uint64_t at = addr - s->in->stack_start;

	if (at >= s->in->stack_len || s->in->stack_len - at < sizeof(*to))
		return false;
	memcpy(to, s->in->stack + at, sizeof(*to));
	return true;
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
	if (r->cfa == UNWIND_UNKNOWN && r->keeps_fp)
		return MAYBE_RETURN;
	return r->cfa == UNWIND_SIGNAL ? IS_RETURN : NOT_RETURN;
}

#define STEP_WALKER                 struct state
#define STEP_READ(s, to, addr)      read_word(s, to, addr)
#define STEP_READ_ONCE(s, to, addr) read_word(s, to, addr)
#define STEP_READ_WORD(s, addr)     read_word(s, &(s)->walk.word, addr)
#define STEP_IS_RETURNED_TO(s, pc)  is_return(s, pc)
#include "bpf/step.h"

/* Whether the caller is above fp: see bpf/unwind.h. */
static bool prove_frame(const struct state *s, bool keeps_fp)
{
	__u64 word;

	if (s->walk.fp & 7 || s->walk.sp & 7 || s->walk.fp - s->walk.sp >= UNWIND_SCAN_BYTES)
		return false;
	for (uint64_t at = s->walk.sp; at < s->walk.fp && !keeps_fp; at += sizeof(word))
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
	       !r->must_follow_call;
}

static enum arch_shape find_shape(const struct state *s, bool keeps_fp)
{
	uint64_t word;
	__u64 code[ARCH_CODE_WORDS];
	enum arch_shape shape = ARCH_SHAPE_FRAME;

	if (s->walk.exact && s->code(s->ctx, s->walk.pc - 1, &word))
		shape = arch_shape(word);
	if (shape != ARCH_SHAPE_FRAME || !keeps_fp)
		return shape;
	if (!s->walk.exact && s->walk.sp != s->in->sp + 8)
		return shape;
	__u64 left;
	if (!read_word(s, &left, s->walk.sp))
		return ARCH_SHAPE_UNKNOWN;
	enum returns found = is_return(s, left);
	if (found == NOT_RETURN)
		return shape;
	for (unsigned i = 0; i < ARCH_CODE_WORDS; i++) {
		if (!s->code(s->ctx, s->walk.pc - 8 + 8 * (uint64_t)i, &word))
			return ARCH_SHAPE_UNKNOWN;
		code[i] = word;
	}
	enum arch_frame bare = arch_frame(code);
	if (bare == ARCH_BEFORE_FRAME ||
	    (bare == ARCH_AFTER_FRAME && found == IS_RETURN && s->walk.exact))
		return ARCH_SHAPE_BARE;
	if (found == MAYBE_RETURN)
		return bare == ARCH_IN_FRAME ? ARCH_SHAPE_FRAME : ARCH_SHAPE_UNKNOWN;
	return is_left_over(s, left) ? ARCH_SHAPE_FRAME : ARCH_SHAPE_UNKNOWN;
}

static int step_without_row(struct state *s, bool keeps_fp)
{
	uint64_t code, sp = s->walk.sp;
	uint32_t out = 0;
	enum arch_shape shape = find_shape(s, keeps_fp);

	if ((s->walk.exact || !keeps_fp) && s->code(s->ctx, s->walk.pc - 1, &code))
		out = arch_epilogue(code);
	if (out) {
		sp += (out & 0xff) - 1;
		shape = out & ARCH_POPS_FP ? ARCH_SHAPE_SAVED : ARCH_SHAPE_BARE;
	}
	if (shape == ARCH_SHAPE_UNKNOWN)
		return WIRE_WALK_NO_ROW;
	if (shape == ARCH_SHAPE_FRAME) {
		if (!prove_frame(s, keeps_fp))
			return WIRE_WALK_NO_ROW;
		sp = s->walk.fp + 8;
	} else if (shape == ARCH_SHAPE_SAVED) {
		sp += 8;
	}
	int result = step_to_return(s, shape, sp);
	if (result)
		return result;
	s->walk.kept_at = UNWIND_NOWHERE;
	s->walk.sp = sp + 8;
	s->walk.exact = false;
	return 0;
}

static int step_rule(struct state *s, const struct unwind_rule *r)
{
	uint64_t offset = (uint64_t)(int64_t)r->cfa_offset;

	if (r->cfa == UNWIND_SP)
		return step_by_cfa(s, r, s->walk.sp + offset, true);
	if (r->cfa == UNWIND_FP)
		return step_by_cfa(s, r, s->walk.fp + offset, true);
	int result = step_find_cfa(s, r);
	if (result)
		return result;
	return step_by_cfa(s, r, s->walk.word, r->cfa == UNWIND_LEAF || r->cfa == UNWIND_KEPT);
}

/* As walk_leap() and step() in bpf/walk.bpf.h. */
static int step(struct state *s, const struct unwind_rule *r)
{
	if (!r || r->cfa == UNWIND_UNKNOWN)
		return step_without_row(s, r && r->keeps_fp);
	if (step_has_cfa(r))
		return step_rule(s, r);
	switch (r->cfa) {
	case UNWIND_END:
		return WIRE_WALK_COMPLETE;
	case UNWIND_FRAME:
		return step_frame(s);
	case UNWIND_SIGNAL:
		return step_signal(s);
	default:
		return WIRE_WALK_FAULT; /* Go switched stacks, and only this one was copied */
	}
}

int walk_stack(const struct walk_input *in, walk_rule_fn *rule, walk_code_fn *code, void *ctx,
	       uint64_t *frames, size_t max, size_t *ret_count)
{
	struct state s = {
		.walk = {.pc = in->pc,
			 .sp = in->sp,
			 .fp = in->fp,
			 .kept = in->kept,
			 .leaf = in->leaf,
			 .exact = in->exact},
		.in = in,
		.rule = rule,
		.code = code,
		.ctx = ctx,
	};
	size_t count = 0;
	int result = 0;

	while (result == 0 && count < max) {
		const struct unwind_rule *r;
		uint64_t addr = s.walk.pc - !s.walk.exact;
		int err = rule(ctx, addr, &r);
		if (err == -EAGAIN)
			return err;
		if (err) {
			result = WIRE_WALK_NO_MAPPING;
			break;
		}
		frames[count++] = addr;
		if (r && r->cfa == UNWIND_SIGNAL && count > 1)
			frames[count - 1] = s.walk.pc; /* nothing called it: it is returned to
							  at its first instruction */
		result = step(&s, r);
	}
	*ret_count = count;
	return result ? result : WIRE_WALK_CUT;
}
