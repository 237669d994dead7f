/*
 * Code that no table describes: instructions one by one, and what functions do to rsp and rbp.
 */
#include "unit/unit.h"
#include "unit/tiny_elf.h"

#include "base/mem.h"
#include "unwind/flow.h"
#include "unwind/x86.h"

/* ---- instructions --------------------------------------------------------------------------- */

#define CODE(bytes) (const uint8_t *)(bytes), sizeof(bytes) - 1

static void instructions_have_their_length(void **state)
{
	(void)state;
	static const struct {
		const uint8_t *code;
		size_t len;
		enum x86_kind kind;
		int32_t value;
	} known[] = {
		{CODE("\x55"), X86_PUSH, 0},
		{CODE("\x41\x5f"), X86_POP, 0},
		{CODE("\x68\x01\x02\x03\x04"), X86_PUSH, 0},
		{CODE("\xff\x75\x10"), X86_PUSH, 0},
		{CODE("\x48\x89\xe5"), X86_RBP_FROM_RSP, 0},
		{CODE("\x48\x8b\xe5"), X86_RSP_FROM_RBP, 0},
		{CODE("\x48\x8d\x65\xd8"), X86_RSP_FROM_RBP, -40},
		{CODE("\x48\x83\xec\x18"), X86_ADD_RSP, -24},
		{CODE("\x48\x81\xc4\x00\x01\x00\x00"), X86_ADD_RSP, 256},
		{CODE("\x48\x8d\x64\x24\x08"), X86_ADD_RSP, 8},
		{CODE("\x48\x83\xe4\xf0"), X86_SET_RSP, 0},
		{CODE("\x48\x29\xc4"), X86_SET_RSP, 0},
		{CODE("\x31\xed"), X86_CLEAR_RBP, 0},
		{CODE("\x48\x8b\x6f\x08"), X86_SET_RBP, 0},
		{CODE("\x48\x89\x6c\x24\x10"), X86_STORE_RBP, 0},
		{CODE("\x48\x39\xe5"), X86_OTHER, 0}, /* cmp %rsp,%rbp */
		{CODE("\x48\x83\xfc\x10"), X86_OTHER, 0},
		{CODE("\xc9"), X86_LEAVE, 0},
		{CODE("\xc2\x08\x00"), X86_END, 0},
		{CODE("\xf3\xc3"), X86_END, 0},
		{CODE("\x0f\x0b"), X86_END, 0},
		{CODE("\xe8\x10\x00\x00\x00"), X86_CALL, 16},
		{CODE("\xff\x15\x01\x02\x03\x04"), X86_CALL, 0},
		{CODE("\xeb\xfe"), X86_JUMP, -2},
		{CODE("\x3e\xff\xe0"), X86_JUMP, 0},
		{CODE("\x0f\x84\x00\x01\x00\x00"), X86_BRANCH, 256},
		{CODE("\x75\x05"), X86_BRANCH, 5},
		{CODE("\x48\x8d\x3d\x10\x00\x00\x00"), X86_LEA_RIP, 16},
		{CODE("\x66\x90"), X86_OTHER, 0},
		{CODE("\x66\x2e\x0f\x1f\x84\x00\x00\x00\x00\x00"), X86_OTHER, 0},
		{CODE("\x48\xb8\x01\x02\x03\x04\x05\x06\x07\x08"), X86_OTHER, 0},
		{CODE("\xf6\x42\x2f\x60"), X86_OTHER, 0}, /* test has a number behind it, */
		{CODE("\xf7\xd8"), X86_OTHER, 0},         /* neg has none */
		{CODE("\xc5\xf8\x77"), X86_OTHER, 0},     /* vzeroupper */
		{CODE("\xc4\xe3\x7d\x39\xc1\x01"), X86_OTHER, 0},
		{CODE("\x62\xf1\x7c\x48\x10\x06"), X86_OTHER, 0},
		{CODE("\x66\x0f\x3a\x0f\xc1\x08"), X86_OTHER, 0},
	};

	for (size_t i = 0; i < ARRAY_SIZE(known); i++) {
		struct x86 x = x86_decode(known[i].code, known[i].len);
		assert_int_equal(x.len, known[i].len);
		assert_int_equal(x.kind, known[i].kind);
		assert_int_equal(x.value, known[i].value);
		for (size_t cut = 0; cut < known[i].len; cut++)
			assert_true(x86_decode(known[i].code, cut).kind == X86_BAD ||
				    x86_decode(known[i].code, cut).len <= cut);
	}
	assert_int_equal(x86_decode(CODE("\x06")).kind, X86_BAD);
}

/* ---- functions ------------------------------------------------------------------------------ */

enum { TEXT = 0x10000, ROWS_MAX = 64 };

struct rows {
	size_t count;
	struct {
		uint64_t at;
		struct unwind_rule rule;
	} all[ROWS_MAX];
};

static int keep(void *arg, uint64_t start, struct unwind_rule rule)
{
	struct rows *r = arg;

	assert_true(r->count < ROWS_MAX);
	r->all[r->count].at = start - TEXT;
	r->all[r->count++].rule = rule;
	return 0;
}

/* The rows of code whose functions begin at the given places; `entry` may be one of them. */
static int read_code(const uint8_t *code, size_t len, const uint64_t *starts, size_t count,
		     uint64_t entry, struct rows *ret)
{
	Elf64_Sym symbols[8] = {};
	struct cfi_stats stats;
	struct elf_file e;
	size_t size;

	for (size_t i = 0; i < count; i++)
		symbols[i] = (Elf64_Sym){.st_info = ELF64_ST_INFO(STB_GLOBAL, STT_FUNC),
					 .st_shndx = 1,
					 .st_value = TEXT + starts[i]};
	const struct tiny_text text = {TEXT, len, code, len};
	const struct tiny_section section = {".symtab", 0, symbols, count * sizeof(*symbols)};
	CLEANUP(freep) struct tiny_elf *elf = tiny_elf_new(ET_DYN, &text, &section, 1, &size);
	elf->sections[2].sh_type = SHT_SYMTAB;
	elf->sections[2].sh_entsize = sizeof(*symbols);
	elf->head.e_entry = entry;
	*ret = (struct rows){};
	assert_int_equal(elf_file_init_mem(&e, elf, size), 0);
	int r = flow_each(&e, keep, ret, &stats);
	elf_file_done(&e);
	return r;
}

static struct unwind_rule rule_at(const struct rows *r, uint64_t at)
{
	struct unwind_rule rule = {};

	for (size_t i = 0; i < r->count && r->all[i].at <= at; i++)
		rule = r->all[i].rule;
	return rule;
}

static void expect(const struct rows *r, uint64_t at, struct unwind_rule want)
{
	struct unwind_rule got = rule_at(r, at);

	want.must_follow_call = want.cfa == UNWIND_SP || want.cfa == UNWIND_FP;
	if (memcmp(&got, &want, sizeof(got)) != 0)
		fail_msg("at %#lx: cfa %u %+d, rbp %u %+d", (unsigned long)at, got.cfa,
			 got.cfa_offset, got.fp, got.fp_offset);
}

#define RSP(offset)                                                                                \
	(struct unwind_rule)                                                                       \
	{                                                                                          \
		.cfa = UNWIND_SP, .cfa_offset = (offset)                                           \
	}
#define RSP_SAVED(offset)                                                                          \
	(struct unwind_rule)                                                                       \
	{                                                                                          \
		.cfa = UNWIND_SP, .cfa_offset = (offset), .fp = UNWIND_FP_AT_CFA, .fp_offset = -16 \
	}
#define KIND(kind)                                                                                 \
	(struct unwind_rule)                                                                       \
	{                                                                                          \
		.cfa = (kind)                                                                      \
	}
static const struct unwind_rule BY_RBP = {
	.cfa = UNWIND_FP, .cfa_offset = 16, .fp = UNWIND_FP_AT_CFA, .fp_offset = -16};

static void pushes_and_branches_are_followed(void **state)
{
	(void)state;
	static const uint8_t code[] = {
		0x55,                         /* 0: push %rbp */
		0x48, 0x83, 0xec, 0x20,       /* 1: sub $32,%rsp */
		0x85, 0xff,                   /* 5: test %edi,%edi */
		0x74, 0x06,                   /* 7: je 15 */
		0x48, 0x83, 0xc4, 0x20,       /* 9: add $32,%rsp */
		0x5d,                         /* 13: pop %rbp */
		0xc3,                         /* 14: ret */
		0xe8, 0x0c, 0x00, 0x00, 0x00, /* 15: call 32, which no symbol names */
		0xeb, 0xf3,                   /* 20: jmp 9 */
		0x90, 0x90, 0x90, 0x90, 0x90, 0x90,
		0x90, 0x90, 0x90, 0x90, 0x55, /* 32: push %rbp */
		0x48, 0x89, 0xe5,             /* 33: mov %rsp,%rbp */
		0x48, 0x29, 0xfc,             /* 36: sub %rdi,%rsp */
		0xff, 0xd0,                   /* 39: call *%rax */
		0xc9,                         /* 41: leave */
		0xc3,                         /* 42: ret */
		0x90, 0x90, 0x90, 0x90, 0x90,
	};
	struct rows rows;

	assert_int_equal(read_code(code, sizeof(code), (uint64_t[]){0}, 1, 0, &rows), 0);
	expect(&rows, 0, RSP(8));
	expect(&rows, 1, RSP_SAVED(16));
	expect(&rows, 5, RSP_SAVED(48));
	expect(&rows, 13, RSP_SAVED(16));
	expect(&rows, 14, RSP(8));
	expect(&rows, 15, RSP_SAVED(48)); /* by the branch, not by what stands before it */
	expect(&rows, 20, RSP_SAVED(48));
	expect(&rows, 24, KIND(UNWIND_UNKNOWN));
	expect(&rows, 33, RSP_SAVED(16));
	expect(&rows, 36, BY_RBP);
	expect(&rows, 41, BY_RBP);
	expect(&rows, 42, RSP(8));
	expect(&rows, 45, KIND(UNWIND_UNKNOWN));
}

static void what_cannot_be_told_is_not(void **state)
{
	(void)state;
	static const uint8_t code[] = {
		0x74, 0x01,                         /* 0: je 3 */
		0x50,                               /* 2: push %rax */
		0x90,                               /* 3: two ways lead here that disagree */
		0xc3,                               /* 4: ret */
		0x90, 0x90, 0x90, 0x48, 0x89, 0xfc, /* 8: mov %rdi,%rsp */
		0x90,                               /* 11: another stack */
		0xc3,                               /* 12 */
		0x90, 0x90, 0x90, 0x31, 0xed, /* 16: xor %ebp,%ebp: it can never give it back */
		0x5f,                         /* 18: pop %rdi */
		0xff, 0xd1,                   /* 19: call *%rcx */
		0xf4,                         /* 21: hlt */
		0x90, 0x90, 0x06,             /* 24: no instruction */
		0x90, 0x90, 0x90, 0x90, 0x90, 0x90, 0x90,
	};
	struct rows rows;

	assert_int_equal(read_code(code, sizeof(code), (uint64_t[]){0, 8, 16, 24}, 4, 0, &rows), 0);
	expect(&rows, 0, RSP(8));
	expect(&rows, 3, KIND(UNWIND_UNSUPPORTED));
	expect(&rows, 8, RSP(8));
	expect(&rows, 11, KIND(UNWIND_UNSUPPORTED));
	expect(&rows, 16, RSP(8));
	expect(&rows, 18, KIND(UNWIND_END));
	expect(&rows, 21, KIND(UNWIND_END));
	expect(&rows, 24, KIND(UNWIND_UNKNOWN));
}

static void the_entry_has_no_caller_nor_what_it_falls_into(void **state)
{
	(void)state;
	static const uint8_t code[] = {
		0x48, 0x89, 0xe7,                   /* 0: mov %rsp,%rdi */
		0xe8, 0x08, 0x00, 0x00, 0x00,       /* 3: call 16 */
		0x41, 0xff, 0xe4,                   /* 8: jmp *%r12, a function of its own */
		0x90, 0x90, 0x90, 0x90, 0x90, 0xc3, /* 16 */
		0x90, 0x48, 0xc7, 0xc0, 0x0f, 0x00, 0x00, 0x00, 0x0f, 0x05, /* 18: rt_sigreturn */
		0x90, 0x90, 0x90,
	};
	struct rows rows;

	assert_int_equal(read_code(code, sizeof(code), (uint64_t[]){8}, 1, TEXT, &rows), 0);
	expect(&rows, 0, KIND(UNWIND_END));
	expect(&rows, 8, KIND(UNWIND_END));
	expect(&rows, 16, RSP(8));
	expect(&rows, 17, KIND(UNWIND_SIGNAL)); /* asked for a byte before its start */
	assert_int_equal(read_code(code, sizeof(code), NULL, 0, 0, &rows), -ENOENT);
}

static void padding_tells_where_functions_without_names_begin(void **state)
{
	(void)state;
	enum { BYTES = 64 << 10 };
	static const uint8_t function[] = {
		0x55,             /* push %rbp */
		0x48, 0x89, 0xe5, /* mov %rsp,%rbp */
		0xff, 0xd0,       /* call *%rax */
		0x5d, 0xc3,       /* pop %rbp; ret */
	};
	CLEANUP(freep) uint8_t *code = mem_alloc(BYTES);
	struct rows rows;

	memset(code, 0xcc, BYTES);
	memcpy(code + 64, function, sizeof(function));
	memcpy(code + 640, function, sizeof(function));
	memset(code + 704, 0x90, 256); /* nothing but int3 is padding */
	code[704] = 0xc3;
	memcpy(code + 832, function, sizeof(function));
	assert_int_equal(read_code(code, BYTES, NULL, 0, 0, &rows), 0);
	for (uint64_t at = 64; at <= 640; at += 576) {
		expect(&rows, at, RSP(8));
		expect(&rows, at + 1, RSP_SAVED(16));
		expect(&rows, at + 4, BY_RBP);
		expect(&rows, at + 7, RSP(8));
		expect(&rows, at + 8, KIND(UNWIND_UNKNOWN));
	}
	expect(&rows, 836, KIND(UNWIND_UNKNOWN));
	assert_int_equal(read_code(code, BYTES / 2, NULL, 0, 0, &rows), -ENOENT);
	/* Where there are names, they are asked. */
	assert_int_equal(read_code(code, BYTES, (uint64_t[]){640}, 1, 0, &rows), 0);
	expect(&rows, 68, KIND(UNWIND_UNKNOWN));
	expect(&rows, 644, BY_RBP);
}

/* A table whose second row has the caller, its stack and its frame in registers: glibc's __longjmp.
 */
static void a_leaf_that_goes_elsewhere_keeps_its_caller_until_it_leaves(void **state)
{
	(void)state;
	static const uint8_t code[160] = {
		0x4c, 0x8b, 0x47, 0x30,                               /* 0: mov 48(%rdi),%r8 */
		0x48, 0x8b, 0x57, 0x38,                               /* 4: mov 56(%rdi),%rdx */
		0x64, 0x4c, 0x33, 0x04, 0x25, 0x30, 0x00, 0x00, 0x00, /* 8: xor %fs:48,%r8 */
		0x48, 0x8b, 0x1f,                                     /* 17: mov (%rdi),%rbx */
		0x4c, 0x89, 0xc4,                                     /* 20: mov %r8,%rsp */
		0x4c, 0x89, 0xcd,                                     /* 23: mov %r9,%rbp */
		0xff, 0xe2,                                           /* 26: jmp *%rdx */
		0x5f,                                                 /* 28: pop %rdi */
		0x90, 0xc3,                                           /* 29: on another stack */
	};
	static const uint8_t eh[] = {
		/* CIE: rsp + 8, the return address at -8 */
		20,
		0,
		0,
		0,
		0,
		0,
		0,
		0,
		1,
		0,
		1,
		0x78,
		16,
		0x0c,
		7,
		8,
		0x90,
		1,
		0,
		0,
		0,
		0,
		0,
		0,
		/* FDE of 0 to 28: at 17 CFA rdi, rsp in r8, rbp in r9, rip in rdx */
		36,
		0,
		0,
		0,
		28,
		0,
		0,
		0,
		0x00,
		0x00,
		TEXT >> 16,
		0,
		0,
		0,
		0,
		0,
		28,
		0,
		0,
		0,
		0,
		0,
		0,
		0,
		0x40 | 17,
		0x0c,
		5,
		0,
		9,
		7,
		8,
		9,
		6,
		9,
		9,
		16,
		1,
		0,
		0,
		0,
		/* FDE of 28 to 31: at 29 rip in rdi, as vfork() has it */
		28,
		0,
		0,
		0,
		68,
		0,
		0,
		0,
		28,
		0x00,
		TEXT >> 16,
		0,
		0,
		0,
		0,
		0,
		3,
		0,
		0,
		0,
		0,
		0,
		0,
		0,
		0x40 | 1,
		0x0e,
		0,
		9,
		16,
		5,
		0,
		0,
	};
	const struct tiny_text text = {TEXT, sizeof(code), code, sizeof(code)};
	const struct tiny_section section = {".eh_frame", 0x20000000, eh, sizeof(eh)};
	size_t size;
	CLEANUP(freep) struct tiny_elf *elf = tiny_elf_new(ET_DYN, &text, &section, 1, &size);
	struct unwind_rule still = RSP(8);
	struct rows rows = {};
	struct cfi_stats stats;
	struct elf_file e;

	assert_int_equal(elf_file_init_mem(&e, elf, size), 0);
	assert_int_equal(flow_each(&e, keep, &rows, &stats), 0);
	elf_file_done(&e);
	assert_int_equal(stats.broken, 0);
	assert_int_equal(rule_at(&rows, 0).cfa, UNWIND_SP);
	assert_false(rule_at(&rows, 16).must_follow_call);
	still.kept_offset = UNWIND_KEPT_LOST;
	expect(&rows, 17, still);
	expect(&rows, 20, still);
	expect(&rows, 23, KIND(UNWIND_UNSUPPORTED));
	expect(&rows, 26, KIND(UNWIND_UNSUPPORTED));
	assert_int_equal(rule_at(&rows, 28).cfa, UNWIND_SP);
	expect(&rows, 29, KIND(UNWIND_UNSUPPORTED));
	expect(&rows, 31, KIND(UNWIND_UNKNOWN));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(instructions_have_their_length),
		cmocka_unit_test(pushes_and_branches_are_followed),
		cmocka_unit_test(what_cannot_be_told_is_not),
		cmocka_unit_test(the_entry_has_no_caller_nor_what_it_falls_into),
		cmocka_unit_test(a_leaf_that_goes_elsewhere_keeps_its_caller_until_it_leaves),
		cmocka_unit_test(padding_tells_where_functions_without_names_begin),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
