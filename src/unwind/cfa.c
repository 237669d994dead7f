#include "unwind/cfa.h"

#include <errno.h>

#include "base/mem.h"

/* Indices of cfa_state.regs. */
enum { SLOT_FP, SLOT_SP, SLOT_RA, SLOT_KEPT, SLOT_OTHERS };

enum cfa_place_kind {
	PLACE_SAME, /* also if nothing was said */
	PLACE_UNDEFINED,
	PLACE_OFFSET,     /* saved at CFA + offset */
	PLACE_VAL_OFFSET, /* is CFA + offset */
	PLACE_REGISTER,   /* of the CFA: cfa_register + offset */
	PLACE_EXPR,       /* saved at the address it computes; for the CFA: the value it computes */
	PLACE_VAL_EXPR,
};

struct machine {
	const struct cfa_cie *cie;
	bool in_cie;
	unsigned remembered_count;
	struct cfa_state now;
	struct cfa_state remembered[CFA_REMEMBERED_MAX];
};

/* ---- from a state to a rule ----------------------------------------------------------------- */

/* Parses `DW_OP_breg<reg> offset …`; what follows is in *ret_rest. */
static bool is_breg(const struct cfa_place *p, unsigned *ret_reg, int64_t *ret_offset,
		    struct byte_reader *ret_rest)
{
	if (p->how != PLACE_EXPR)
		return false;
	struct byte_reader b = {.at = p->expr, .end = p->expr + p->len};
	uint64_t op = byte_reader_uint(&b, 1);
	if (op < DW_OP_breg0 || op > DW_OP_breg31)
		return false;
	*ret_reg = (unsigned)(op - DW_OP_breg0);
	*ret_offset = byte_reader_sleb(&b);
	*ret_rest = b;
	return !b.bad;
}

/* Whether a value is saved at exactly *(reg + offset). */
static bool is_saved_at(const struct cfa_place *p, unsigned reg, int64_t offset)
{
	struct byte_reader rest;
	unsigned r;
	int64_t o;

	return is_breg(p, &r, &o, &rest) && r == reg && o == offset && byte_reader_left(&rest) == 0;
}

static bool equals(const struct byte_reader *b, const void *what, size_t len)
{
	return byte_reader_left(b) == len && memcmp(b->at, what, len) == 0;
}

/* … DW_OP_breg<pc> 0; lit15; and; lit<N>; ge; lit3; shl; plus: a stub of binutils' .plt */
static bool is_plt(const struct byte_reader *b, int64_t *ret_n)
{
	static const uint8_t head[] = {DW_OP_breg0 + ARCH_DWARF_RA, 0, DW_OP_lit15, DW_OP_and};
	static const uint8_t tail[] = {DW_OP_ge, DW_OP_lit3, DW_OP_shl, DW_OP_plus};
	const uint8_t *p = b->at;

	if (byte_reader_left(b) != sizeof(head) + 1 + sizeof(tail) ||
	    memcmp(p, head, sizeof(head)) != 0 ||
	    memcmp(p + sizeof(head) + 1, tail, sizeof(tail)) != 0)
		return false;
	*ret_n = p[sizeof(head)] - DW_OP_lit0;
	return *ret_n >= 0 && *ret_n <= 15;
}

static unsigned cfa_expression(const struct cfa_place *p, int64_t *ret_offset)
{
	static const uint8_t deref[] = {DW_OP_deref};
	static const uint8_t deref8[] = {DW_OP_deref, DW_OP_plus_uconst, 8};
	struct byte_reader rest;
	unsigned reg;

	if (!is_breg(p, &reg, ret_offset, &rest) || (reg != ARCH_DWARF_SP && reg != ARCH_DWARF_FP))
		return UNWIND_UNSUPPORTED;
	if (equals(&rest, deref, sizeof(deref)))
		return reg == ARCH_DWARF_SP ? UNWIND_SP_MEM : UNWIND_FP_MEM;
	if (equals(&rest, deref8, sizeof(deref8)))
		return reg == ARCH_DWARF_SP ? UNWIND_SP_MEM8 : UNWIND_FP_MEM8;
	if (reg == ARCH_DWARF_SP && *ret_offset == 8 && is_plt(&rest, ret_offset))
		return UNWIND_PLT;
	if (byte_reader_left(&rest) == 0)
		return reg == ARCH_DWARF_SP ? UNWIND_SP : UNWIND_FP;
	return UNWIND_UNSUPPORTED;
}

static unsigned cfa_kind(const struct cfa_state *s, int64_t *ret_offset)
{
	*ret_offset = s->cfa.offset;
	if (s->cfa.how == PLACE_EXPR)
		return cfa_expression(&s->cfa, ret_offset);
	if (s->cfa.how != PLACE_REGISTER)
		return UNWIND_UNSUPPORTED;
	switch (s->cfa_register) {
	case ARCH_DWARF_SP:
		return UNWIND_SP;
	case ARCH_DWARF_FP:
		return UNWIND_FP;
	case ARCH_DWARF_LEAF:
		return UNWIND_LEAF;
	case ARCH_DWARF_KEPT:
		return UNWIND_KEPT;
	default:
		return UNWIND_UNSUPPORTED;
	}
}

/* The frame that the kernel makes for a signal handler, with the registers at sp. */
static bool is_signal(const struct cfa_state *s)
{
	int64_t offset;

	return is_saved_at(&s->regs[SLOT_RA], ARCH_DWARF_SP, ARCH_SIGNAL_PC) &&
	       is_saved_at(&s->regs[SLOT_FP], ARCH_DWARF_SP, ARCH_SIGNAL_FP) &&
	       cfa_kind(s, &offset) == UNWIND_SP_MEM && offset == ARCH_SIGNAL_SP;
}

static void set_fp(const struct cfa_place *p, struct unwind_rule *rule)
{
	struct byte_reader rest;
	unsigned reg;
	int64_t offset = p->offset;

	rule->fp = UNWIND_FP_LOST;
	if (p->how == PLACE_SAME)
		rule->fp = UNWIND_FP_SAME;
	else if (p->how == PLACE_OFFSET)
		rule->fp = UNWIND_FP_AT_CFA;
	else if (is_breg(p, &reg, &offset, &rest) && reg == ARCH_DWARF_FP &&
		 byte_reader_left(&rest) == 0)
		rule->fp = UNWIND_FP_AT_FP;
	if (rule->fp == UNWIND_FP_SAME || rule->fp == UNWIND_FP_LOST)
		return;
	if (offset != (int16_t)offset)
		rule->fp = UNWIND_FP_LOST;
	else
		rule->fp_offset = (int16_t)offset;
}

static void set_kept(const struct cfa_place *p, struct unwind_rule *rule)
{
	if (p->how == PLACE_SAME)
		rule->kept_offset = 0;
	else if (p->how == PLACE_OFFSET && p->offset > UNWIND_KEPT_LOST && p->offset < 0)
		rule->kept_offset = (int16_t)p->offset;
	else
		rule->kept_offset = UNWIND_KEPT_LOST;
}

static struct unwind_rule rule_of(const struct machine *m)
{
	const struct unwind_rule other = {.cfa = UNWIND_UNSUPPORTED};
	const struct cfa_state *s = &m->now;
	const struct cfa_place *ra = &s->regs[SLOT_RA], *sp = &s->regs[SLOT_SP];
	struct unwind_rule rule = {};
	int64_t offset;

	if (m->cie->ra != ARCH_DWARF_RA)
		return other;
	if (ra->how == PLACE_UNDEFINED)
		return (struct unwind_rule){.cfa = UNWIND_END};
	if (is_signal(s))
		return (struct unwind_rule){.cfa = UNWIND_SIGNAL};
	if (ra->how != PLACE_OFFSET || ra->offset != ARCH_RETURN_AT)
		return other;
	if (sp->how != PLACE_SAME && (sp->how != PLACE_VAL_OFFSET || sp->offset != 0))
		return other;
	rule.cfa = (uint8_t)cfa_kind(s, &offset);
	if (rule.cfa == UNWIND_UNSUPPORTED || offset != (int32_t)offset)
		return other;
	rule.cfa_offset = (int32_t)offset;
	set_fp(&s->regs[SLOT_FP], &rule);
	set_kept(&s->regs[SLOT_KEPT], &rule);
	return rule;
}

/* ---- instructions --------------------------------------------------------------------------- */

static unsigned slot_of(uint64_t reg)
{
	switch (reg) {
	case ARCH_DWARF_FP:
		return SLOT_FP;
	case ARCH_DWARF_SP:
		return SLOT_SP;
	case ARCH_DWARF_RA:
		return SLOT_RA;
	case ARCH_DWARF_KEPT:
		return SLOT_KEPT;
	default:
		return SLOT_OTHERS;
	}
}

static bool set(struct machine *m, uint64_t reg, enum cfa_place_kind how, int64_t offset)
{
	m->now.regs[slot_of(reg)] = (struct cfa_place){.how = how, .offset = offset};
	return true;
}

/* An offset that is given in units of the data alignment. */
static int64_t factored(const struct machine *m, struct byte_reader *b, int64_t number)
{
	if (__builtin_mul_overflow(number, m->cie->data_align, &number))
		byte_reader_fail(b);
	return number;
}

static int64_t factored_unsigned(const struct machine *m, struct byte_reader *b)
{
	return factored(m, b, (int64_t)byte_reader_uleb(b));
}

static int64_t factored_signed(const struct machine *m, struct byte_reader *b)
{
	return factored(m, b, byte_reader_sleb(b));
}

static int64_t negative_offset(const struct machine *m, struct byte_reader *b)
{
	int64_t v = factored_unsigned(m, b);

	if (__builtin_sub_overflow(0, v, &v))
		byte_reader_fail(b);
	return v;
}

static struct cfa_place expression(struct byte_reader *b, enum cfa_place_kind how)
{
	uint64_t len = byte_reader_uleb(b);
	const uint8_t *expr = byte_reader_skip(b, len);

	return (struct cfa_place){.how = how, .len = b->bad ? 0 : (uint32_t)len, .expr = expr};
}

static bool set_cfa(struct machine *m, uint64_t reg, int64_t offset)
{
	m->now.cfa_register = reg;
	m->now.cfa = (struct cfa_place){.how = PLACE_REGISTER, .offset = offset};
	return true;
}

static bool remember(struct machine *m)
{
	if (m->remembered_count == CFA_REMEMBERED_MAX)
		return false;
	m->remembered[m->remembered_count++] = m->now;
	return true;
}

static bool restore(struct machine *m, uint64_t reg)
{
	m->now.regs[slot_of(reg)] = m->cie->initial.regs[slot_of(reg)];
	return !m->in_cie;
}

/* Executes an instruction that defines the CFA; false: malformed. */
static bool execute_cfa(struct machine *m, struct byte_reader *b, uint8_t op)
{
	bool in_register = m->now.cfa.how == PLACE_REGISTER;
	uint64_t reg = m->now.cfa_register;

	switch (op) {
	case DW_CFA_def_cfa:
		reg = byte_reader_uleb(b);
		return set_cfa(m, reg, (int64_t)byte_reader_uleb(b));
	case DW_CFA_def_cfa_sf:
		reg = byte_reader_uleb(b);
		return set_cfa(m, reg, factored_signed(m, b));
	case DW_CFA_def_cfa_register:
		return set_cfa(m, byte_reader_uleb(b), m->now.cfa.offset) && in_register;
	case DW_CFA_def_cfa_offset:
		return set_cfa(m, reg, (int64_t)byte_reader_uleb(b)) && in_register;
	case DW_CFA_def_cfa_offset_sf:
		return set_cfa(m, reg, factored_signed(m, b)) && in_register;
	case DW_CFA_def_cfa_expression:
		m->now.cfa = expression(b, PLACE_EXPR);
		return true;
	default:
		return false;
	}
}

/* Executes any instruction but those that advance the address; false: malformed. */
static bool execute(struct machine *m, struct byte_reader *b, uint8_t op)
{
	uint64_t reg;

	if ((op & 0xc0) == DW_CFA_offset)
		return set(m, op & 0x3f, PLACE_OFFSET, factored_unsigned(m, b));
	if ((op & 0xc0) == DW_CFA_restore)
		return restore(m, op & 0x3f);

	switch (op) {
	case DW_CFA_nop:
		return true;
	case DW_CFA_remember_state:
		return remember(m);
	case DW_CFA_restore_state:
		if (m->remembered_count == 0)
			return false;
		m->now = m->remembered[--m->remembered_count];
		return true;
	case DW_CFA_offset_extended:
		reg = byte_reader_uleb(b);
		return set(m, reg, PLACE_OFFSET, factored_unsigned(m, b));
	case DW_CFA_offset_extended_sf:
		reg = byte_reader_uleb(b);
		return set(m, reg, PLACE_OFFSET, factored_signed(m, b));
	case DW_CFA_GNU_negative_offset_extended:
		reg = byte_reader_uleb(b);
		return set(m, reg, PLACE_OFFSET, negative_offset(m, b));
	case DW_CFA_val_offset:
		reg = byte_reader_uleb(b);
		return set(m, reg, PLACE_VAL_OFFSET, factored_unsigned(m, b));
	case DW_CFA_val_offset_sf:
		reg = byte_reader_uleb(b);
		return set(m, reg, PLACE_VAL_OFFSET, factored_signed(m, b));
	case DW_CFA_register:
		reg = byte_reader_uleb(b);
		return set(m, reg, PLACE_REGISTER, (int64_t)byte_reader_uleb(b));
	case DW_CFA_undefined:
		return set(m, byte_reader_uleb(b), PLACE_UNDEFINED, 0);
	case DW_CFA_same_value:
		return set(m, byte_reader_uleb(b), PLACE_SAME, 0);
	case DW_CFA_restore_extended:
		return restore(m, byte_reader_uleb(b));
	case DW_CFA_expression:
		reg = slot_of(byte_reader_uleb(b));
		m->now.regs[reg] = expression(b, PLACE_EXPR);
		return true;
	case DW_CFA_val_expression:
		reg = slot_of(byte_reader_uleb(b));
		m->now.regs[reg] = expression(b, PLACE_VAL_EXPR);
		return true;
	case DW_CFA_GNU_args_size:
		byte_reader_uleb(b); /* needed only for exceptions */
		return true;
	default:
		return execute_cfa(m, b, op);
	}
}

/* The address that an instruction advances to; false: it does not advance. */
static bool advances(const struct cfa_fde *f, struct byte_reader *b, uint8_t op, uint64_t at,
		     uint64_t *ret_to)
{
	uint64_t by;

	if ((op & 0xc0) == DW_CFA_advance_loc)
		by = op & 0x3f;
	else if (op == DW_CFA_advance_loc1)
		by = byte_reader_uint(b, 1);
	else if (op == DW_CFA_advance_loc2)
		by = byte_reader_uint(b, 2);
	else if (op == DW_CFA_advance_loc4)
		by = byte_reader_uint(b, 4);
	else if (op == DW_CFA_MIPS_advance_loc8)
		by = byte_reader_uint(b, 8);
	else if (op == DW_CFA_set_loc) {
		uint64_t here = f->code_vaddr + (uint64_t)(b->at - f->code.at);
		*ret_to = byte_reader_pointer(b, f->cie->pointers, here, 0);
		return true;
	} else {
		return false;
	}
	if (__builtin_mul_overflow(by, f->cie->code_align, &by) ||
	    __builtin_add_overflow(at, by, ret_to))
		*ret_to = UINT64_MAX;
	return true;
}

/* ---- programs ------------------------------------------------------------------------------- */

int cfa_run_cie(struct cfa_cie *cie, uint64_t *budget)
{
	struct machine m;
	struct byte_reader b = cie->code;

	m.cie = cie;
	m.in_cie = true;
	m.remembered_count = 0;
	m.now = (struct cfa_state){};
	while (b.at < b.end) {
		if (*budget == 0)
			return -E2BIG;
		--*budget;
		uint8_t op = *b.at++;
		if (!execute(&m, &b, op) || b.bad)
			return -EBADMSG;
	}
	cie->initial = m.now;
	return 0;
}

int cfa_run(const struct cfa_fde *f, uint64_t *budget, cfa_row_fn *row, void *arg)
{
	struct machine m;
	struct byte_reader b = f->code;
	uint64_t at = f->start, to;

	m.cie = f->cie;
	m.in_cie = false;
	m.remembered_count = 0;
	m.now = f->cie->initial;
	while (b.at < b.end) {
		if (*budget == 0)
			return -E2BIG;
		--*budget;
		uint8_t op = *b.at++;
		if (!advances(f, &b, op, at, &to)) {
			if (!execute(&m, &b, op) || b.bad)
				goto bad;
			continue;
		}
		if (b.bad || to < at)
			goto bad;
		if (to == at)
			continue;
		int r = row(arg, at, rule_of(&m));
		if (r != 0 || to >= f->end)
			return r;
		at = to;
	}
	return row(arg, at, rule_of(&m));
bad:;
	int r = row(arg, at, (struct unwind_rule){.cfa = UNWIND_UNSUPPORTED});
	return r ? r : -EBADMSG;
}
