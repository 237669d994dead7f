/*
 * Rows from Go's table of functions: every layout, the runtime's switches of stacks, and lies.
 *
 *	test_gorows FILE   says how many rows a file has, of which kinds, and a hash of them
 */
#include "unit/unit.h"
#include "unit/go_elf.h"

#include <fcntl.h>
#include <inttypes.h>

#include "base/mem.h"
#include "unwind/goasm.h"
#include "unwind/gorows.h"

enum { GO_1_2 = 0, GO_1_16, GO_1_18, GO_1_20, LAYOUTS };

/* ---- a table -------------------------------------------------------------------------------- */

struct function {
	const char *name;
	uint32_t size;
	const char *depths; /* pairs (change, length), ended by 0; NULL: none */
	size_t depths_len;
	unsigned flags;
};

#define DEPTHS(d) d, sizeof(d)

struct buffer {
	uint8_t bytes[4096];
	size_t len;
};

static size_t put(struct buffer *b, const void *data, size_t len)
{
	size_t at = b->len;

	assert_true(len <= sizeof(b->bytes) - at);
	if (len)
		memcpy(b->bytes + at, data, len);
	b->len += len;
	return at;
}

static void put_uint(struct buffer *b, uint64_t v, size_t size)
{
	put(b, &v, size);
}

static void put_at(struct buffer *b, size_t at, uint64_t v, size_t size)
{
	memcpy(b->bytes + at, &v, size);
}

/* The record of a function: where its name and depths are, and its flags. */
static void put_record(struct buffer *b, int layout, uint64_t pc, uint32_t name, uint32_t depths,
		       unsigned flags)
{
	bool small = layout >= GO_1_18;

	put_uint(b, small ? pc - GO_TEXT : pc, small ? 4 : 8);
	put_uint(b, name, 4);
	put_uint(b, 0, 8); /* arguments, deferred calls */
	put_uint(b, depths, 4);
	put_uint(b, 0, 8); /* files, lines */
	put_uint(b, 0, 4); /* how many other tables */
	if (layout >= GO_1_16)
		put_uint(b, 0, 4); /* unit */
	if (layout >= GO_1_20)
		put_uint(b, 0, 4); /* first line */
	put_uint(b, flags << 8, 4);
}

static void make_table(struct buffer *b, int layout, const struct function *f, size_t count)
{
	static const uint32_t magic[LAYOUTS] = {0xfffffffb, 0xfffffffa, 0xfffffff0, 0xfffffff1};
	static const size_t words[LAYOUTS] = {1, 7, 8, 8};
	bool small = layout >= GO_1_18;
	size_t half = small ? 4 : 8;
	uint32_t names[16], depths[16];

	b->len = 0;
	put_uint(b, magic[layout], 4);
	put(b, "\0\0\1\10", 4);
	for (size_t i = 0; i < words[layout]; i++)
		put_uint(b, i == 0 ? count : 0, 8);
	/* Old tables have their pairs first, and count everything from the start. */
	size_t pairs = b->len, base = 0;
	if (layout == GO_1_2)
		b->len += (2 * count + 1) * half;
	size_t names_at = b->len;
	for (size_t i = 0; i < count; i++)
		names[i] = (uint32_t)put(b, f[i].name, strlen(f[i].name) + 1);
	size_t values_at = b->len;
	put_uint(b, 0, 1);
	for (size_t i = 0; i < count; i++)
		depths[i] = f[i].depths ? (uint32_t)put(b, f[i].depths, f[i].depths_len) : 0;
	if (layout != GO_1_2) {
		pairs = base = b->len;
		b->len += (2 * count + 1) * half;
		size_t first = small ? 3 : 2;
		put_at(b, 8 + first * 8, names_at, 8);
		put_at(b, 8 + (first + 3) * 8, values_at, 8);
		put_at(b, 8 + (first + 4) * 8, pairs, 8);
		if (small)
			put_at(b, 8 + 2 * 8, GO_TEXT, 8);
	}
	uint64_t pc = GO_TEXT;
	for (size_t i = 0; i < count; i++) {
		put_at(b, pairs + 2 * i * half, small ? pc - GO_TEXT : pc, half);
		put_at(b, pairs + (2 * i + 1) * half, b->len - base, half);
		put_record(b, layout, pc, names[i] - (uint32_t)(base ? names_at : 0),
			   depths[i] ? depths[i] - (uint32_t)(base ? values_at : 0) : 0,
			   f[i].flags);
		pc += f[i].size;
	}
	put_at(b, pairs + 2 * count * half, small ? pc - GO_TEXT : pc, half);
	b->len += 64; /* no table is smaller than the header that is read */
}

/* ---- its rows ------------------------------------------------------------------------------- */

struct row {
	uint64_t start;
	struct unwind_rule rule;
};

struct rows {
	struct row all[64];
	size_t count;
	struct cfi_stats stats;
};

static int collect(void *arg, uint64_t start, struct unwind_rule rule)
{
	struct rows *r = arg;

	assert_true(r->count < ARRAY_SIZE(r->all));
	assert_true(r->count == 0 || start > r->all[r->count - 1].start);
	r->all[r->count++] = (struct row){start - GO_TEXT, rule};
	return 0;
}

static void read_rows(const struct buffer *table, const void *code, size_t code_len,
		      struct rows *ret)
{
	struct elf_file e;
	size_t len;
	struct tiny_elf *elf = go_elf_new(table->bytes, table->len, code, code_len, &len);

	*ret = (struct rows){};
	assert_int_equal(elf_file_init_mem(&e, elf, len), 0);
	assert_int_equal(gorows_each(&e, collect, ret, &ret->stats), 0);
	elf_file_done(&e);
	free(elf);
}

#define RSP(n)                                                                                     \
	{                                                                                          \
		.cfa = UNWIND_SP, .cfa_offset = (n)                                                \
	}
#define FRAMED(n)                                                                                  \
	{                                                                                          \
		.cfa = UNWIND_SP, .fp = UNWIND_FP_AT_CFA, .fp_offset = -16, .cfa_offset = (n)      \
	}
#define KIND(k)                                                                                    \
	{                                                                                          \
		.cfa = (k)                                                                         \
	}

static void expect(const struct rows *got, const struct row *want, size_t count)
{
	for (size_t i = 0; i < MIN(count, got->count); i++)
		if (memcmp(&got->all[i], &want[i], sizeof(*want)) != 0)
			fail_msg("row %zu: %#lx cfa %u %+d rbp %u %+d, not %#lx cfa %u %+d", i,
				 got->all[i].start, got->all[i].rule.cfa,
				 got->all[i].rule.cfa_offset, got->all[i].rule.fp,
				 got->all[i].rule.fp_offset, want[i].start, want[i].rule.cfa,
				 want[i].rule.cfa_offset);
	assert_int_equal(got->count, count);
}

#define EXPECT(rows, ...)                                                                          \
	do {                                                                                       \
		const struct row want_[] = {__VA_ARGS__};                                          \
		expect(rows, want_, ARRAY_SIZE(want_));                                            \
	} while (0)

/* Depth 0 for 4 bytes, then n, then 0 again: zigzag, from -1. */
static const char frame_of_32[] = "\x02\x04\x40\x1c\x3f\x10";

static void depths_of_every_layout(void **state)
{
	const struct function f[] = {
		{"main.main", 0x40, DEPTHS(frame_of_32), 0},
		{"main.leaf", 0x20, DEPTHS("\x02\x20"), 0},
		{"runtime.goexit", 0x20, DEPTHS("\x02\x20"), 1},
		{"of_c", 0x20, NULL, 0, 0},
	};
	struct buffer table = {};
	struct rows rows;

	(void)state;
	for (int layout = 0; layout < LAYOUTS; layout++) {
		make_table(&table, layout, f, ARRAY_SIZE(f));
		read_rows(&table, "", 0, &rows);
		EXPECT(&rows, {0, RSP(8)}, {4, FRAMED(40)}, {0x20, RSP(8)},
		       {0x60, KIND(UNWIND_END)}, {0x80, KIND(UNWIND_UNSUPPORTED)},
		       {0xa0, KIND(UNWIND_UNKNOWN)});
		assert_int_equal(rows.stats.functions, 4);
		assert_int_equal(rows.stats.broken, 0);
	}
}

static void read_one(const char *name, const void *code, size_t size, struct rows *ret)
{
	const struct function f = {name, (uint32_t)size, DEPTHS("\x02\x60"), 6};
	struct buffer table = {};

	make_table(&table, GO_1_20, &f, 1);
	read_rows(&table, code, size, ret);
}

static void c_is_left_by_the_depth_that_was_saved(void **state)
{
	/* As Go 1.19 has it, from the change of stacks on; Go 1.22 saves in other slots. */
	uint8_t code[] = "\x48\x8b\x66\x38"      /*  0 mov 0x38(%rsi),%rsp */
			 "\x48\x83\xec\x40"      /*  4 sub $0x40,%rsp */
			 "\xff\xd0"              /*  8 call *%rax */
			 "\x48\x8b\x7c\x24\x30"  /* 10 mov 0x30(%rsp),%rdi */
			 "\x48\x8b\x77\x08"      /* 15 mov 8(%rdi),%rsi */
			 "\x48\x2b\x74\x24\x28"  /* 19 sub 0x28(%rsp),%rsi */
			 "\x48\x89\xf4"          /* 24 mov %rsi,%rsp */
			 "\xc3"                  /* 27 ret */
			 "\x48\x83\xec\x40"      /* 28 sub $0x40,%rsp */
			 "\xff\xd0"              /* 32 call *%rax */
			 "\x48\x8b\x74\x24\x28"  /* 34 mov 0x28(%rsp),%rsi */
			 "\x48\x89\xf4"          /* 39 mov %rsi,%rsp */
			 "\xc3\x90\x90\x90\x90"; /* 42 ret */
	const struct unwind_rule cgo = {
		.cfa = UNWIND_GO_CGO, .fp_offset = 0x30, .cfa_offset = 0x28};
	const struct unwind_rule in_place = {.cfa = UNWIND_SP_MEM8, .cfa_offset = 0x28};
	struct rows rows;

	(void)state;
	read_one("runtime.asmcgocall", code, sizeof(code), &rows);
	EXPECT(&rows, {0, RSP(8)}, {4, KIND(UNWIND_UNSUPPORTED)}, {8, cgo}, {27, RSP(8)},
	       {32, in_place}, {42, RSP(8)}, {sizeof(code), KIND(UNWIND_UNKNOWN)});

	code[17] = 0x78; /* hi of another structure: not what is known */
	read_one("runtime.asmcgocall", code, sizeof(code), &rows);
	EXPECT(&rows, {0, RSP(8)}, {4, KIND(UNWIND_UNSUPPORTED)}, {27, RSP(8)}, {32, in_place},
	       {42, RSP(8)}, {sizeof(code), KIND(UNWIND_UNKNOWN)});

	/* A wrapper, which changes no stacks. */
	memset(code, 0x90, sizeof(code));
	read_one("runtime.asmcgocall", code, sizeof(code), &rows);
	EXPECT(&rows, {0, RSP(8)}, {sizeof(code), KIND(UNWIND_UNKNOWN)});
}

/* systemstack from its change of stacks on, with g at %fs:-8 and curg at 0xc0 of m. */
static const uint8_t systemstack[] = "\x48\x89\xdc"                         /*  0 mov %rbx,%rsp */
				     "\xff\xd7"                             /*  3 call *%rdi */
				     "\x64\x48\x8b\x04\x25\xf8\xff\xff\xff" /*  5 mov %fs:-8,%rax */
				     "\x48\x8b\x58\x30"                     /* 14 */
				     "\x48\x8b\x83\xc0\x00\x00\x00"         /* 18 */
				     "\x48\x8b\x60\x38"                     /* 25 */
				     "\xc3\x90\x90\x90\x90\x90\x90";        /* 29 */

static void the_goroutine_is_found_by_its_thread(void **state)
{
	static const uint8_t pie[] = "\x48\x89\xdc\xff\xd7"
				     "\x48\xc7\xc1\xf8\xff\xff\xff\x64\x48\x8b\x01"
				     "\x48\x8b\x58\x30\x48\x8b\x83\xc0\x00\x00\x00"
				     "\x48\x8b\x60\x38\xc3\x90\x90\x90\x90\x90\x90";
	const struct unwind_rule rule = {
		.cfa = UNWIND_GO_SYSTEM, .fp_offset = 0xc0, .cfa_offset = -8};
	struct rows rows;
	uint8_t changed[sizeof(systemstack)];

	(void)state;
	read_one("runtime.systemstack", systemstack, sizeof(systemstack), &rows);
	EXPECT(&rows, {0, RSP(8)}, {3, rule}, {29, RSP(8)},
	       {sizeof(systemstack), KIND(UNWIND_UNKNOWN)});
	read_one("runtime.systemstack", pie, sizeof(pie), &rows);
	EXPECT(&rows, {0, RSP(8)}, {3, rule}, {31, RSP(8)}, {sizeof(pie), KIND(UNWIND_UNKNOWN)});

	memcpy(changed, systemstack, sizeof(changed));
	changed[17] = 0x28;
	read_one("runtime.systemstack", changed, sizeof(changed), &rows);
	EXPECT(&rows, {0, RSP(8)}, {3, KIND(UNWIND_UNSUPPORTED)}, {29, RSP(8)},
	       {sizeof(changed), KIND(UNWIND_UNKNOWN)});
}

static void a_stack_that_grows_is_left_as_systemstack_says(void **state)
{
	static const uint8_t grow[] = "\x90\x48\x8b\x63\x38\xe8\x90\x90\x90\x90\x90\x90";
	const struct function f[] = {
		{"runtime.systemstack", sizeof(systemstack), DEPTHS("\x02\x25"), 6},
		{"runtime.morestack", sizeof(grow), DEPTHS("\x02\x0d"), 6},
	};
	const struct unwind_rule rule = {
		.cfa = UNWIND_GO_GROW, .fp_offset = 0xc0, .cfa_offset = -8};
	uint8_t code[sizeof(systemstack) + sizeof(grow)];
	struct buffer table = {};
	struct rows rows;

	(void)state;
	memcpy(code, systemstack, sizeof(systemstack));
	memcpy(code + sizeof(systemstack), grow, sizeof(grow));
	make_table(&table, GO_1_18, f, ARRAY_SIZE(f));
	read_rows(&table, code, sizeof(code), &rows);
	assert_int_equal(rows.count, 5);
	assert_int_equal(rows.all[3].start, sizeof(systemstack) + 5);
	assert_memory_equal(&rows.all[3].rule, &rule, sizeof(rule));

	read_one("runtime.morestack", grow, sizeof(grow), &rows);
	assert_int_equal(rows.all[1].rule.cfa, UNWIND_UNSUPPORTED);
}

static void a_function_with_a_frame_keeps_rbp_while_it_moves(void **state)
{
	static const uint8_t old[] = "\x48\x83\xec\x18"              /*  0 sub $0x18,%rsp */
				     "\x48\x89\x6c\x24\x10"          /*  4 mov %rbp,0x10(%rsp) */
				     "\x48\x8d\x6c\x24\x10"          /*  9 lea 0x10(%rsp),%rbp */
				     "\x4c\x89\xe4"                  /* 14 mov %r12,%rsp */
				     "\x48\x8b\x6c\x24\x10"          /* 17 mov 0x10(%rsp),%rbp */
				     "\x48\x83\xc4\x18"              /* 22 add $0x18,%rsp */
				     "\xc3\x90\x90\x90\x90\x90\x90"; /* 26 ret */
	static const uint8_t new[] = "\x55"                          /*  0 push %rbp */
				     "\x48\x89\xe5"                  /*  1 mov %rsp,%rbp */
				     "\x48\x83\xec\x10"              /*  4 sub $0x10,%rsp */
				     "\x4c\x89\xe4"                  /*  8 mov %r12,%rsp */
				     "\x48\x83\xc4\x10"              /* 11 add $0x10,%rsp */
				     "\x5d"                          /* 15 pop %rbp */
				     "\xc3\x90\x90\x90\x90\x90\x90\x90"; /* 16 ret */
	const struct function f[] = {
		{"runtime.nanotime1", sizeof(old), DEPTHS("\x02\x04\x30\x16\x2f\x08"), 6},
		{"runtime.walltime", sizeof(new),
		 DEPTHS("\x02\x01\x10\x07\x20\x07\x1f\x01\x0f\x09"), 6},
	};
	uint8_t code[sizeof(old) + sizeof(new)];
	struct buffer table = {};
	struct rows rows;
	const size_t at = sizeof(old);

	(void)state;
	memcpy(code, old, sizeof(old));
	memcpy(code + at, new, sizeof(new));
	make_table(&table, GO_1_20, f, ARRAY_SIZE(f));
	read_rows(&table, code, sizeof(code), &rows);
	EXPECT(&rows, {0, RSP(8)}, {4, RSP(32)}, {14, KIND(UNWIND_FRAME)}, {22, RSP(32)},
	       {26, RSP(8)}, {at + 1, RSP(16)}, {at + 4, KIND(UNWIND_FRAME)}, {at + 16, RSP(8)},
	       {sizeof(code), KIND(UNWIND_UNKNOWN)});
}

static void a_signal_returns_to_where_nothing_called(void **state)
{
	const struct function f[] = {
		{"main.main", 0x40, DEPTHS(frame_of_32), 0},
		{"runtime.sigreturn", 0x20, DEPTHS("\x02\x20"), 4},
	};
	struct buffer table = {};
	struct rows rows;

	(void)state;
	make_table(&table, GO_1_18, f, ARRAY_SIZE(f));
	read_rows(&table, "", 0, &rows);
	EXPECT(&rows, {0, RSP(8)}, {4, FRAMED(40)}, {0x20, RSP(8)}, {0x3f, KIND(UNWIND_SIGNAL)},
	       {0x60, KIND(UNWIND_UNKNOWN)});
}

static void lies_are_counted_and_nothing_is_guessed(void **state)
{
	const struct function f[] = {
		{"stands.still", 0x20, DEPTHS("\x02\x04\x10\x00\x10\x04"), 0},
		{"sound", 0x20, DEPTHS("\x02\x20"), 0},
		{"negative", 0x20, DEPTHS("\x01\x20"), 0},
		{"beyond", 0x20, DEPTHS("\x02\x7f\x10\x7f"), 0},
		{"endless", 0x20, DEPTHS("\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff"), 0},
	};
	struct buffer table = {};
	struct rows rows;

	(void)state;
	make_table(&table, GO_1_18, f, ARRAY_SIZE(f));
	read_rows(&table, "", 0, &rows);
	EXPECT(&rows, {0, RSP(8)}, {4, KIND(UNWIND_UNSUPPORTED)}, {0x20, RSP(8)},
	       {0x40, KIND(UNWIND_UNSUPPORTED)}, {0x60, RSP(8)}, {0x80, KIND(UNWIND_UNSUPPORTED)},
	       {0xa0, KIND(UNWIND_UNKNOWN)});
	assert_int_equal(rows.stats.broken, 2);
	assert_non_null(rows.stats.why);
}

/* ---- a file --------------------------------------------------------------------------------- */

struct summary {
	uint64_t hash, kinds[UNWIND_CFA_LAST + 1], last;
};

static int summarize(void *arg, uint64_t start, struct unwind_rule rule)
{
	struct summary *s = arg;
	uint64_t word;

	memcpy(&word, &rule, sizeof(word));
	s->hash = (s->hash ^ start ^ word * 0x9e3779b97f4a7c15ull) * 0x100000001b3ull;
	s->kinds[rule.cfa]++;
	return 0;
}

static int describe(const char *path)
{
	struct elf_file e;
	struct cfi_stats stats;
	struct summary s = {};
	CLEANUP(fd_closep) int fd = open(path, O_RDONLY | O_CLOEXEC);

	if (fd < 0 || elf_file_init(&e, fd) < 0 || gorows_each(&e, summarize, &s, &stats) < 0)
		return 1;
	printf("%u functions, %u broken, hash %016" PRIx64 ", kinds", stats.functions, stats.broken,
	       s.hash);
	for (size_t i = 0; i < ARRAY_SIZE(s.kinds); i++)
		printf(" %" PRIu64, s.kinds[i]);
	printf("\n");
	elf_file_done(&e);
	return 0;
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(depths_of_every_layout),
		cmocka_unit_test(c_is_left_by_the_depth_that_was_saved),
		cmocka_unit_test(the_goroutine_is_found_by_its_thread),
		cmocka_unit_test(a_stack_that_grows_is_left_as_systemstack_says),
		cmocka_unit_test(a_function_with_a_frame_keeps_rbp_while_it_moves),
		cmocka_unit_test(a_signal_returns_to_where_nothing_called),
		cmocka_unit_test(lies_are_counted_and_nothing_is_guessed),
	};

	if (argc == 2)
		return describe(argv[1]);
	return cmocka_run_group_tests_name("gorows", tests, NULL, NULL);
}
