/* Tables made by hand: each instruction, each encoding, and what an enemy would write. */
#include "unit/unit.h"

#include <dwarf.h>

#include "base/mem.h"
#include "process/elf_file.h"
#include "unit/eh_elf.h"
#include "unwind/cfi.h"

enum { ROWS = 16, START = EH_TEXT + 0x1000, SIZE = 0x100 };

/* ---- writing tables ------------------------------------------------------------------------- */

struct table {
	uint8_t *data;
	size_t len, cap;
};

static void put(struct table *t, const void *what, size_t len)
{
	if (len == 0)
		return;
	while (t->cap - t->len < len) {
		t->cap = t->cap ? 2 * t->cap : 4096;
		t->data = mem_resize_array(t->data, t->cap, 1);
	}
	memcpy(t->data + t->len, what, len);
	t->len += len;
}

static void put_int(struct table *t, uint64_t v, size_t size)
{
	put(t, &v, size);
}

static void end_record(struct table *t, size_t at)
{
	uint32_t len = (uint32_t)(t->len - at - 4);

	memcpy(t->data + at, &len, 4);
}

#define BYTES(...) (const uint8_t[]){__VA_ARGS__}, sizeof((const uint8_t[]){__VA_ARGS__})

/* CFA is rsp + 8, the return address at CFA - 8. */
static const uint8_t usual[] = {DW_CFA_def_cfa, 7, 8, DW_CFA_offset | 16, 1};

static size_t put_cie_of(struct table *t, const char *letters, const void *data, size_t data_len,
			 const void *code, size_t code_len)
{
	size_t at = t->len;

	put_int(t, 0, 4);
	put_int(t, 0, 4);
	put_int(t, 1, 1);
	put(t, letters, strlen(letters) + 1);
	put(t, BYTES(1, 0x78, 16)); /* alignments 1 and -8, return address */
	if (letters[0] == 'z')
		put_int(t, data_len, 1);
	put(t, data, data_len);
	put(t, code, code_len);
	end_record(t, at);
	return at;
}

static size_t put_cie(struct table *t, uint8_t encoding)
{
	return put_cie_of(t, "zR", &encoding, 1, usual, sizeof(usual));
}

static size_t pointer_size(uint8_t encoding)
{
	static const size_t sizes[16] = {8, 0, 2, 4, 8, 0, 0, 0, 8, 0, 2, 4, 8};

	return sizes[encoding & 15];
}

static size_t put_fde_as(struct table *t, size_t cie, uint8_t encoding, uint64_t start,
			 uint64_t size, const void *code, size_t code_len)
{
	size_t at = t->len;

	put_int(t, 0, 4);
	put_int(t, at + 4 - cie, 4);
	uint64_t base = (encoding & 0xf0) == DW_EH_PE_pcrel ? EH_TABLE + t->len : 0;
	put_int(t, start - base, pointer_size(encoding));
	put_int(t, size, pointer_size(encoding));
	put_int(t, 0, 1);
	put(t, code, code_len);
	end_record(t, at);
	return at;
}

static size_t put_fde(struct table *t, size_t cie, uint64_t start, uint64_t size, const void *code,
		      size_t code_len)
{
	return put_fde_as(t, cie, DW_EH_PE_absptr, start, size, code, code_len);
}

/* ---- reading them --------------------------------------------------------------------------- */

struct row {
	uint64_t start;
	struct unwind_rule rule;
};

struct seen {
	struct row rows[ROWS];
	uint64_t count, last;
	struct cfi_stats stats;
	int result;
};

static int see(void *arg, uint64_t start, struct unwind_rule rule)
{
	struct seen *s = arg;

	if (s->count && start <= s->last)
		fail_msg("%#lx after %#lx", start, s->last);
	s->last = start;
	if (s->count < ROWS)
		s->rows[s->count] = (struct row){start, rule};
	s->count++;
	return 0;
}

static struct seen look_at_program(const struct table *eh, const struct table *debug,
				   uint64_t entry)
{
	struct seen s = {};
	struct elf_file e;
	size_t len;
	struct tiny_elf *elf = eh_elf_new(eh ? eh->data : NULL, eh ? eh->len : 0,
					  debug ? debug->data : NULL, debug ? debug->len : 0, &len);

	elf->head.e_entry = entry;
	assert_int_equal(elf_file_init_mem(&e, elf, len), 0);
	s.result = cfi_each(&e, see, &s, &s.stats);
	assert_int_equal(s.stats.rows, s.count);
	elf_file_done(&e);
	free(elf);
	return s;
}

static struct seen look_at(const struct table *eh, const struct table *debug)
{
	return look_at_program(eh, debug, 0);
}

static struct seen look(struct table *t)
{
	struct seen s = look_at(t, NULL);

	free(t->data);
	*t = (struct table){};
	return s;
}

static void expect_row(const struct seen *s, unsigned i, uint64_t start, struct unwind_rule rule)
{
	assert_true(i < s->count);
	assert_int_equal(s->rows[i].start, start);
	assert_int_equal(s->rows[i].rule.cfa, rule.cfa);
	assert_int_equal(s->rows[i].rule.cfa_offset, rule.cfa_offset);
	assert_int_equal(s->rows[i].rule.fp, rule.fp);
	assert_int_equal(s->rows[i].rule.fp_offset, rule.fp_offset);
	assert_int_equal(s->rows[i].rule.kept_offset, rule.kept_offset);
}

static const struct unwind_rule rsp8 = {.cfa = UNWIND_SP, .cfa_offset = 8};
static const struct unwind_rule rsp16 = {.cfa = UNWIND_SP, .cfa_offset = 16};
static const struct unwind_rule other = {.cfa = UNWIND_UNSUPPORTED};
static const struct unwind_rule unknown = {.cfa = UNWIND_UNKNOWN};

/* ---- instructions --------------------------------------------------------------------------- */

#define RULE(...)  ((struct unwind_rule){__VA_ARGS__})
#define CODE(...)  .code = {__VA_ARGS__}, .len = sizeof((const uint8_t[]){__VA_ARGS__})
#define AT_CFA(o)  .fp = UNWIND_FP_AT_CFA, .fp_offset = (o)
#define RSP(o)     .cfa = UNWIND_SP, .cfa_offset = (o)
#define EXPR(n)    DW_CFA_def_cfa_expression, (n)
#define ULEB_BIG   0x80, 0x80, 0x80, 0x80, 0x08 /* 1 << 31 */
#define ULEB_32768 0x80, 0x80, 0x02
#define PLT_TAIL   DW_OP_ge, DW_OP_lit3, DW_OP_shl, DW_OP_plus

/* What holds from the start of a function on, after these instructions. */
static const struct {
	const char *what;
	uint8_t code[32];
	size_t len;
	struct unwind_rule rule;
	bool broken;
} instructions[] = {
	{"nothing", .rule = rsp8},
	{"nop", CODE(0, 0, 0), .rule = {RSP(8)}},
	{"def_cfa", CODE(DW_CFA_def_cfa, 6, 16), .rule = {UNWIND_FP, .cfa_offset = 16}},
	{"def_cfa r10", CODE(DW_CFA_def_cfa, 10, 0), .rule = {UNWIND_LEAF}},
	{"def_cfa rbx", CODE(DW_CFA_def_cfa, 3, 16), .rule = {UNWIND_KEPT, .cfa_offset = 16}},
	{"def_cfa r12", CODE(DW_CFA_def_cfa, 12, 16), .rule = {UNWIND_UNSUPPORTED}},
	{"def_cfa_sf", CODE(DW_CFA_def_cfa_sf, 6, 0x7e), .rule = {UNWIND_FP, .cfa_offset = 16}},
	{"def_cfa_register", CODE(DW_CFA_def_cfa_register, 6),
	 .rule = {UNWIND_FP, .cfa_offset = 8}},
	{"def_cfa_offset", CODE(DW_CFA_def_cfa_offset, 0x80, 0x01), .rule = {RSP(128)}},
	{"def_cfa_offset_sf", CODE(DW_CFA_def_cfa_offset_sf, 0x70), .rule = {RSP(128)}},
	{"offset too large", CODE(DW_CFA_def_cfa_offset, ULEB_BIG), .rule = {UNWIND_UNSUPPORTED}},
	{"offset", CODE(DW_CFA_offset | 6, 2), .rule = {RSP(8), AT_CFA(-16)}},
	{"offset of rbx", CODE(DW_CFA_offset | 3, 2), .rule = {RSP(8), .kept_offset = -16}},
	{"rbx in a register", CODE(DW_CFA_register, 3, 5),
	 .rule = {RSP(8), .kept_offset = UNWIND_KEPT_LOST}},
	{"offset of another", CODE(DW_CFA_offset | 12, 2), .rule = {RSP(8)}},
	{"offset_extended", CODE(DW_CFA_offset_extended, 6, 3), .rule = {RSP(8), AT_CFA(-24)}},
	{"offset_extended_sf", CODE(DW_CFA_offset_extended_sf, 6, 0x7f),
	 .rule = {RSP(8), AT_CFA(8)}},
	{"negative_offset", CODE(DW_CFA_GNU_negative_offset_extended, 6, 1),
	 .rule = {RSP(8), AT_CFA(8)}},
	{"rbp far away", CODE(DW_CFA_offset_extended, 6, ULEB_32768),
	 .rule = {RSP(8), .fp = UNWIND_FP_LOST}},
	{"val_offset", CODE(DW_CFA_val_offset, 6, 1), .rule = {RSP(8), .fp = UNWIND_FP_LOST}},
	{"val_offset_sf", CODE(DW_CFA_val_offset_sf, 6, 1), .rule = {RSP(8), .fp = UNWIND_FP_LOST}},
	{"rsp is the CFA", CODE(DW_CFA_val_offset, 7, 0), .rule = {RSP(8)}},
	{"rsp is not", CODE(DW_CFA_val_offset, 7, 1), .rule = {UNWIND_UNSUPPORTED}},
	{"rsp is saved", CODE(DW_CFA_offset | 7, 3), .rule = {UNWIND_UNSUPPORTED}},
	{"register", CODE(DW_CFA_register, 6, 9), .rule = {RSP(8), .fp = UNWIND_FP_LOST}},
	{"undefined", CODE(DW_CFA_undefined, 6), .rule = {RSP(8), .fp = UNWIND_FP_LOST}},
	{"same_value", CODE(DW_CFA_offset | 6, 2, DW_CFA_same_value, 6), .rule = {RSP(8)}},
	{"restore", CODE(DW_CFA_offset | 6, 2, DW_CFA_restore | 6), .rule = {RSP(8)}},
	{"restore_extended", CODE(DW_CFA_offset | 6, 2, DW_CFA_restore_extended, 6),
	 .rule = {RSP(8)}},
	{"restore of ra", CODE(DW_CFA_undefined, 16, DW_CFA_restore | 16), .rule = {RSP(8)}},
	{"no return address", CODE(DW_CFA_undefined, 16), .rule = {UNWIND_END}},
	{"it in a register", CODE(DW_CFA_register, 16, 5), .rule = {UNWIND_UNSUPPORTED}},
	{"it elsewhere", CODE(DW_CFA_offset | 16, 2), .rule = {UNWIND_UNSUPPORTED}},
	{"it the same", CODE(DW_CFA_same_value, 16), .rule = {UNWIND_UNSUPPORTED}},
	{"args_size", CODE(DW_CFA_GNU_args_size, 0x90, 1), .rule = {RSP(8)}},
	{"states",
	 CODE(DW_CFA_remember_state, DW_CFA_offset | 6, 2, DW_CFA_remember_state, DW_CFA_def_cfa, 6,
	      16, DW_CFA_restore_state),
	 .rule = {RSP(8), AT_CFA(-16)}},
	{"states undone", CODE(DW_CFA_remember_state, DW_CFA_def_cfa, 6, 16, DW_CFA_restore_state),
	 .rule = {RSP(8)}},
	{"drap",
	 CODE(EXPR(3), DW_OP_breg6, 0x78, DW_OP_deref, DW_CFA_expression, 6, 2, DW_OP_breg6, 0),
	 .rule = {UNWIND_FP_MEM, UNWIND_FP_AT_FP, .cfa_offset = -8}},
	{"rsp deref", CODE(EXPR(3), DW_OP_breg7, 0x10, DW_OP_deref),
	 .rule = {UNWIND_SP_MEM, .cfa_offset = 16}},
	{"rsp deref + 8", CODE(EXPR(5), DW_OP_breg7, 0x10, DW_OP_deref, DW_OP_plus_uconst, 8),
	 .rule = {UNWIND_SP_MEM8, .cfa_offset = 16}},
	{"rbp deref + 8", CODE(EXPR(5), DW_OP_breg6, 0x10, DW_OP_deref, DW_OP_plus_uconst, 8),
	 .rule = {UNWIND_FP_MEM8, .cfa_offset = 16}},
	{"rsp deref + 9", CODE(EXPR(5), DW_OP_breg7, 0x10, DW_OP_deref, DW_OP_plus_uconst, 9),
	 .rule = {UNWIND_UNSUPPORTED}},
	{"rbx deref", CODE(EXPR(3), DW_OP_breg3, 0x10, DW_OP_deref), .rule = {UNWIND_UNSUPPORTED}},
	{"rsp as an expression", CODE(EXPR(2), DW_OP_breg7, 0x10), .rule = {RSP(16)}},
	{"empty expression", CODE(EXPR(0)), .rule = {UNWIND_UNSUPPORTED}},
	{"plt",
	 CODE(EXPR(11), DW_OP_breg7, 8, DW_OP_breg16, 0, DW_OP_lit15, DW_OP_and, DW_OP_lit11,
	      PLT_TAIL),
	 .rule = {UNWIND_PLT, .cfa_offset = 11}},
	{"almost plt",
	 CODE(EXPR(11), DW_OP_breg7, 16, DW_OP_breg16, 0, DW_OP_lit15, DW_OP_and, DW_OP_lit11,
	      PLT_TAIL),
	 .rule = {UNWIND_UNSUPPORTED}},
	{"signal",
	 CODE(EXPR(4), DW_OP_breg7, 0xa0, 1, DW_OP_deref, DW_CFA_expression, 6, 3, DW_OP_breg7,
	      0xf8, 0, DW_CFA_expression, 16, 3, DW_OP_breg7, 0xa8, 1),
	 .rule = {UNWIND_SIGNAL}},
	{"almost a signal",
	 CODE(EXPR(4), DW_OP_breg7, 0xa0, 1, DW_OP_deref, DW_CFA_expression, 6, 3, DW_OP_breg7,
	      0xf8, 0, DW_CFA_expression, 16, 3, DW_OP_breg7, 0xb0, 1),
	 .rule = {UNWIND_UNSUPPORTED}},
	{"val_expression", CODE(DW_CFA_val_expression, 6, 2, DW_OP_breg6, 0),
	 .rule = {RSP(8), .fp = UNWIND_FP_LOST}},

	{"no such instruction", CODE(DW_CFA_high_user), .rule = {UNWIND_UNSUPPORTED},
	 .broken = true},
	{"restore_state alone", CODE(DW_CFA_restore_state), .rule = {UNWIND_UNSUPPORTED},
	 .broken = true},
	{"offset of an expression", CODE(EXPR(2), DW_OP_breg7, 0, DW_CFA_def_cfa_offset, 16),
	 .rule = {UNWIND_UNSUPPORTED}, .broken = true},
	{"expression past the end", CODE(EXPR(100), DW_OP_breg7, 0), .rule = {UNWIND_UNSUPPORTED},
	 .broken = true},
	{"no operand", CODE(DW_CFA_def_cfa, 7), .rule = {UNWIND_UNSUPPORTED}, .broken = true},
	{"a number without end",
	 CODE(DW_CFA_def_cfa_offset, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80,
	      0x80, 0x80, 0x01),
	 .rule = {UNWIND_UNSUPPORTED}, .broken = true},
	{"an offset without sense",
	 CODE(DW_CFA_offset_extended, 6, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x7f),
	 .rule = {UNWIND_UNSUPPORTED}, .broken = true},
	{"too many states",
	 CODE(DW_CFA_remember_state, DW_CFA_remember_state, DW_CFA_remember_state,
	      DW_CFA_remember_state, DW_CFA_remember_state, DW_CFA_remember_state,
	      DW_CFA_remember_state, DW_CFA_remember_state, DW_CFA_remember_state,
	      DW_CFA_remember_state, DW_CFA_remember_state, DW_CFA_remember_state,
	      DW_CFA_remember_state, DW_CFA_remember_state, DW_CFA_remember_state,
	      DW_CFA_remember_state, DW_CFA_remember_state),
	 .rule = {UNWIND_UNSUPPORTED}, .broken = true},
};

static void each_instruction_is_obeyed(void **state)
{
	(void)state;

	for (size_t i = 0; i < ARRAY_SIZE(instructions); i++) {
		struct table t = {};
		put_fde(&t, put_cie(&t, DW_EH_PE_absptr), START, SIZE, instructions[i].code,
			instructions[i].len);
		struct seen s = look(&t);
		if (s.count == 0 ||
		    memcmp(&s.rows[0].rule, &instructions[i].rule, sizeof(s.rows[0].rule)) != 0)
			print_error("%s\n", instructions[i].what);
		assert_int_equal(s.result, 0);
		assert_int_equal(s.count, 2);
		expect_row(&s, 0, START, instructions[i].rule);
		expect_row(&s, 1, START + SIZE, unknown);
		assert_int_equal(s.stats.broken, instructions[i].broken);
		assert_int_equal(s.stats.why != NULL, instructions[i].broken);
	}
}

static void each_way_to_move_on(void **state)
{
	(void)state;
	static const struct {
		uint8_t code[12];
		size_t len;
		uint64_t by;
	} moves[] = {
		{CODE(DW_CFA_advance_loc | 5), 5},
		{CODE(DW_CFA_advance_loc1, 0x90), 0x90},
		{CODE(DW_CFA_advance_loc2, 0xf0, 0), 0xf0},
		{CODE(DW_CFA_advance_loc4, 0x20, 0, 0, 0), 0x20},
		{CODE(DW_CFA_MIPS_advance_loc8, 0x20, 0, 0, 0, 0, 0, 0, 0), 0x20},
		{CODE(DW_CFA_set_loc, 0x40, 0x10, 1, 0, 0, 0, 0, 0), 0x40},
		{CODE(DW_CFA_advance_loc | 0), 0},
		{CODE(DW_CFA_advance_loc4, 0, 1, 0, 0), SIZE},
		{CODE(DW_CFA_MIPS_advance_loc8, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff),
		 SIZE},
	};
	for (size_t i = 0; i < ARRAY_SIZE(moves); i++) {
		struct table code = {}, t = {};
		put(&code, moves[i].code, moves[i].len);
		put(&code, BYTES(DW_CFA_def_cfa_offset, 16));
		put_fde(&t, put_cie(&t, DW_EH_PE_absptr), START, SIZE, code.data, code.len);
		free(code.data);
		struct seen s = look(&t);
		unsigned n = 0;
		if (moves[i].by)
			expect_row(&s, n++, START, rsp8);
		if (moves[i].by < SIZE)
			expect_row(&s, n++, START + moves[i].by, rsp16);
		expect_row(&s, n++, START + SIZE, unknown);
		assert_int_equal(s.count, n);
		assert_int_equal(s.stats.broken, 0);
	}
}

static void what_was_said_before_nonsense_stands(void **state)
{
	(void)state;
	struct table t = {};
	size_t cie = put_cie(&t, DW_EH_PE_absptr);

	/* Back to where it began: not with set_loc, either. */
	put_fde(&t, cie, START, SIZE,
		BYTES(DW_CFA_advance_loc | 5, DW_CFA_def_cfa_offset, 16, DW_CFA_set_loc, 0, 0x10, 1,
		      0, 0, 0, 0, 0, DW_CFA_def_cfa_offset, 24));
	put_fde(&t, cie, START + SIZE, SIZE, BYTES(DW_CFA_def_cfa_offset, 16));
	struct seen s = look(&t);
	expect_row(&s, 0, START, rsp8);
	expect_row(&s, 1, START + 5, other);
	expect_row(&s, 2, START + SIZE, rsp16);
	expect_row(&s, 3, START + 2 * SIZE, unknown);
	assert_int_equal(s.stats.broken, 1);
	assert_int_equal(s.stats.other, 1);
}

/* ---- records -------------------------------------------------------------------------------- */

static void pointers_come_in_many_encodings(void **state)
{
	(void)state;
	static const uint8_t good[] = {
		DW_EH_PE_absptr,
		DW_EH_PE_udata4,
		DW_EH_PE_udata8,
		DW_EH_PE_sdata4,
		DW_EH_PE_sdata8,
		DW_EH_PE_pcrel | DW_EH_PE_absptr,
		DW_EH_PE_pcrel | DW_EH_PE_sdata4,
		DW_EH_PE_pcrel | DW_EH_PE_udata8,
		DW_EH_PE_pcrel | DW_EH_PE_sdata8,
	};
	static const uint8_t bad[] = {DW_EH_PE_omit,
				      DW_EH_PE_textrel | 4,
				      DW_EH_PE_funcrel | 4,
				      DW_EH_PE_aligned,
				      DW_EH_PE_indirect | DW_EH_PE_pcrel | 4,
				      7};

	for (size_t i = 0; i < ARRAY_SIZE(good); i++) {
		struct table t = {};
		put_fde_as(&t, put_cie(&t, good[i]), good[i], START, SIZE, "", 0);
		struct seen s = look(&t);
		expect_row(&s, 0, START, rsp8);
		expect_row(&s, 1, START + SIZE, unknown);
		assert_int_equal(s.stats.broken, 0);
	}
	for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
		struct table t = {};
		put_fde_as(&t, put_cie(&t, bad[i]), DW_EH_PE_absptr, START, SIZE, "", 0);
		struct seen s = look(&t);
		assert_int_equal(s.result, 0);
		assert_int_equal(s.count, 0);
		assert_int_equal(s.stats.broken, 1);
	}
	struct table t = {};
	put_fde(&t, put_cie_of(&t, "zR", "\x01", 1, usual, sizeof(usual)), 0, 0, "", 0);
	t.len -= 17; /* ULEB128 in place of two words: 0x11000, 0x100 */
	put(&t, BYTES(0x80, 0xa0, 0x04, 0x80, 0x02, 0));
	end_record(&t, t.len - 14);
	struct seen s = look(&t);
	expect_row(&s, 0, START, rsp8);
	expect_row(&s, 1, START + SIZE, unknown);
}

static void augmentations(void **state)
{
	(void)state;
	static const struct {
		const char *letters;
		uint8_t data[16];
		size_t len;
		bool good;
	} all[] = {
		{"zR", {0}, 1, true},
		{"z", {0}, 0, true},
		{"zRS", {0}, 1, true},
		{"zPLR", {DW_EH_PE_udata4, 1, 2, 3, 4, 0x1b, 0}, 7, true},
		{"zPLR",
		 {DW_EH_PE_indirect | DW_EH_PE_pcrel | DW_EH_PE_sdata4, 1, 2, 3, 4, 0x1b, 0},
		 7,
		 true},
		{"zRQ", {0, 9, 9}, 3, true}, /* its data can be skipped */
		{"zPLR", {DW_EH_PE_udata8, 1, 2, 3}, 4, false},
		{"zR", {0}, 0, false},
		{"eh", {0}, 8, false},
		{"R", {0}, 1, false},
		{"zRRRRRRRRR", {0}, 10, false},
	};
	for (size_t i = 0; i < ARRAY_SIZE(all); i++) {
		struct table t = {};
		size_t cie = put_cie_of(&t, all[i].letters, all[i].data, all[i].len, usual,
					sizeof(usual));
		put_fde(&t, cie, START, SIZE, "", 0);
		struct seen s = look(&t);
		assert_int_equal(s.count, all[i].good ? 2 : 0);
		assert_int_equal(s.stats.broken, all[i].good ? 0 : 1);
		if (all[i].good)
			expect_row(&s, 0, START, rsp8);
	}
}

static void functions_that_contradict_each_other(void **state)
{
	(void)state;
	struct table t = {};
	size_t cie = put_cie(&t, DW_EH_PE_absptr);

	put_fde(&t, cie, START + 0x200, 0x100, BYTES(DW_CFA_def_cfa_offset, 24)); /* out of order */
	put_fde(&t, cie, START, 0x100, "", 0);
	put_fde(&t, cie, START, 0x80, BYTES(DW_CFA_def_cfa_offset, 32));        /* again */
	put_fde(&t, cie, START + 0x40, 0x20, BYTES(DW_CFA_def_cfa_offset, 16)); /* inside */
	put_fde(&t, cie, START + 0x50, 0, "", 0);                               /* empty */
	put_fde(&t, cie, EH_TEXT - 8, 0x100, "", 0);                 /* not in the text */
	put_fde(&t, cie, EH_TEXT + EH_TEXT_SIZE - 16, 0x100, "", 0); /* over its end */
	struct seen s = look(&t);
	expect_row(&s, 0, START, rsp8);
	expect_row(&s, 1, START + 0x40, rsp16);
	expect_row(&s, 2, START + 0x60, unknown);
	expect_row(&s, 3, START + 0x200, RULE(RSP(24)));
	expect_row(&s, 4, START + 0x300, unknown);
	expect_row(&s, 5, EH_TEXT + EH_TEXT_SIZE - 16, rsp8);
	expect_row(&s, 6, EH_TEXT + EH_TEXT_SIZE, unknown);
	assert_int_equal(s.count, 7);
	assert_int_equal(s.stats.functions, 4);
	assert_int_equal(s.stats.ignored, 3);
	assert_int_equal(s.stats.broken, 0);
}

static void equal_neighbours_are_one_row(void **state)
{
	(void)state;
	struct table t = {};
	size_t cie = put_cie(&t, DW_EH_PE_absptr);

	put_fde(&t, cie, START, SIZE, BYTES(DW_CFA_advance_loc | 1, DW_CFA_nop));
	put_fde(&t, cie, START + SIZE, SIZE, "", 0);
	struct seen s = look(&t);
	expect_row(&s, 0, START, rsp8);
	expect_row(&s, 1, START + 2 * SIZE, unknown);
	assert_int_equal(s.count, 2);
}

static size_t put_debug_cie(struct table *t)
{
	size_t at = put_cie_of(t, "", "", 0, usual, sizeof(usual));

	memset(t->data + at + 4, 0xff, 4);
	return at;
}

static void put_debug_fde(struct table *t, size_t cie, uint64_t start, uint64_t size,
			  const void *code, size_t code_len)
{
	size_t at = t->len;

	put_int(t, 0, 4);
	put_int(t, cie, 4);
	put_int(t, start, 8);
	put_int(t, size, 8);
	put(t, code, code_len);
	end_record(t, at);
}

static void debug_frame_fills_what_eh_frame_leaves_out(void **state)
{
	(void)state;
	struct table eh = {}, debug = {};

	put_fde(&eh, put_cie(&eh, DW_EH_PE_absptr), START, 0x100, "", 0);
	size_t cie = put_debug_cie(&debug);
	put_debug_fde(&debug, cie, START - 0x10, 0x20, BYTES(DW_CFA_def_cfa_offset, 24));
	put_debug_fde(&debug, cie, START, 0x100, BYTES(DW_CFA_def_cfa_offset, 32));
	put_debug_fde(&debug, cie, START + 0x80, 0x100, BYTES(DW_CFA_def_cfa_offset, 32));
	put_debug_fde(&debug, cie, START + 0x100, 0x100, BYTES(DW_CFA_def_cfa_offset, 16));
	struct seen s = look_at(&eh, &debug);
	expect_row(&s, 0, START - 0x10, RULE(RSP(24)));
	expect_row(&s, 1, START, rsp8);
	expect_row(&s, 2, START + 0x100, rsp16);
	expect_row(&s, 3, START + 0x200, unknown);
	assert_int_equal(s.count, 4);
	assert_int_equal(s.stats.ignored, 2);

	s = look_at(NULL, &debug);
	expect_row(&s, 0, START - 0x10, RULE(RSP(24)));
	expect_row(&s, 1, START, RULE(RSP(32)));
	assert_int_equal(s.stats.broken, 0);
	free(eh.data);
	free(debug.data);
}

static void no_table_is_said(void **state)
{
	(void)state;
	struct table t = {};

	assert_int_equal(look_at(NULL, NULL).result, -ENOENT);
	put_int(&t, 0, 4);
	struct seen s = look(&t);
	assert_int_equal(s.result, 0);
	assert_int_equal(s.count, 0);
}

/* ---- enemies -------------------------------------------------------------------------------- */

static void records_that_lie(void **state)
{
	(void)state;
	struct table t = {};
	size_t cie = put_cie(&t, DW_EH_PE_absptr);
	size_t only = put_fde(&t, cie, START, SIZE, "", 0);
	size_t good = t.len;

	/* Longer than the table, in both sizes of length, and cut in the middle of everything. */
	put(&t, BYTES(0xf0, 0xff, 0xff, 0x7f, 1, 2, 3, 4));
	struct seen s = look_at(&t, NULL);
	assert_int_equal(s.count, 2);
	assert_int_equal(s.stats.broken, 1);
	t.len = good;
	put(&t, BYTES(0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff));
	s = look_at(&t, NULL);
	assert_int_equal(s.count, 2);
	assert_int_equal(s.stats.broken, 1);
	for (t.len = good - 1; t.len > 0; t.len--) {
		s = look_at(&t, NULL);
		assert_int_equal(s.count, 0);
		assert_int_equal(s.stats.broken, t.len != only);
	}

	/* CIE pointers to anywhere. */
	t.len = good;
	size_t fde = put_fde(&t, cie, START + SIZE, SIZE, "", 0);
	for (uint32_t to = 0; to < 2 * good; to++) {
		memcpy(t.data + fde + 4, &to, 4);
		s = look_at(&t, NULL);
		assert_true(s.count >= 2 && s.result == 0);
	}
	free(t.data);
}

/*
 * Two CIEs that push each other out of the cache, each with a program of a million instructions,
 * used in turn: without a bound this takes a minute, and succeeds.
 */
static void work_is_bounded_by_size(void **state)
{
	(void)state;
	enum { NOPS = (1 << 20) - 15, FDES = 20000 };
	static uint8_t nops[NOPS];
	struct table t = {};

	size_t first = put_cie_of(&t, "z", "", 0, nops, NOPS);
	size_t second = put_cie_of(&t, "z", "", 0, nops, NOPS);
	assert_int_equal(second - first, 1 << 20);
	for (unsigned i = 0; i < FDES; i++)
		put_fde(&t, i & 1 ? first : second, START + i, 1, "", 0);
	struct seen s = look(&t);
	assert_int_equal(s.result, -E2BIG);
	assert_non_null(s.stats.why);
}

static void rows_are_capped(void **state)
{
	(void)state;
	struct table code = {}, t = {};

	for (unsigned i = 0; i < CFI_ROWS_MAX + 2; i++)
		put(&code, BYTES(DW_CFA_advance_loc | 1, DW_CFA_def_cfa_offset, i & 1));
	put_fde(&t, put_cie(&t, DW_EH_PE_absptr), START, CFI_ROWS_MAX * 2, code.data, code.len);
	free(code.data);
	struct seen s = look(&t);
	assert_int_equal(s.result, -EFBIG);
	assert_int_equal(s.count, CFI_ROWS_MAX);
	assert_non_null(s.stats.why);
}

static void functions_are_capped(void **state)
{
	(void)state;
	struct table t = {};
	size_t cie = put_cie_of(&t, "", "", 0, usual, sizeof(usual));
	put_int(&t, 0, 0);
	for (unsigned i = 0; i < CFI_FDES_MAX + 1; i++) {
		size_t at = t.len;
		put_int(&t, 20, 4);
		put_int(&t, at + 4 - cie, 4);
		put_int(&t, START + i, 8);
		put_int(&t, 1, 8);
	}
	struct seen s = look(&t);
	assert_int_equal(s.result, -EFBIG);
	assert_non_null(s.stats.why);
}

static void tables_are_capped(void **state)
{
	(void)state;
	struct table t = {.data = mem_alloc(CFI_TABLE_MAX + 1), .len = CFI_TABLE_MAX + 1};
	struct seen s = look(&t);

	assert_int_equal(s.result, -EFBIG);
	assert_non_null(s.stats.why);
}

static void where_a_program_starts_nothing_calls(void **state)
{
	(void)state;
	struct table t = {};
	size_t cie = put_cie(&t, DW_EH_PE_absptr);

	put_fde(&t, cie, EH_TEXT, 16, NULL, 0);
	put_fde(&t, cie, EH_TEXT + 16, 16,
		BYTES(DW_CFA_advance_loc | 4, DW_CFA_def_cfa_offset, 16));
	put_fde(&t, cie, EH_TEXT + 32, 16, NULL, 0);
	struct seen s = look_at_program(&t, NULL, EH_TEXT + 16);
	assert_int_equal(s.result, 0);
	assert_int_equal(s.count, 4);
	expect_row(&s, 0, EH_TEXT, rsp8);
	expect_row(&s, 1, EH_TEXT + 16, (struct unwind_rule){.cfa = UNWIND_END});
	expect_row(&s, 2, EH_TEXT + 32, rsp8);
	expect_row(&s, 3, EH_TEXT + 48, unknown);
	free(t.data);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(each_instruction_is_obeyed),
		cmocka_unit_test(each_way_to_move_on),
		cmocka_unit_test(where_a_program_starts_nothing_calls),
		cmocka_unit_test(what_was_said_before_nonsense_stands),
		cmocka_unit_test(pointers_come_in_many_encodings),
		cmocka_unit_test(augmentations),
		cmocka_unit_test(functions_that_contradict_each_other),
		cmocka_unit_test(equal_neighbours_are_one_row),
		cmocka_unit_test(debug_frame_fills_what_eh_frame_leaves_out),
		cmocka_unit_test(no_table_is_said),
		cmocka_unit_test(records_that_lie),
		cmocka_unit_test(work_is_bounded_by_size),
		cmocka_unit_test(rows_are_capped),
		cmocka_unit_test(functions_are_capped),
		cmocka_unit_test(tables_are_capped),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
