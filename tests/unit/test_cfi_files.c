/*
 * The rules of real files against elfutils, which reads and runs the same tables on its own:
 *
 *	test_cfi_files [FILE...]
 *
 * Without arguments: libc, libstdc++, python3, node, libLLVM, libclang and others that are there.
 * Each row is asked for at its first, a middle and its last address; gaps at every 16th one, too.
 * The table is compared with the rows at the same addresses, and both with elfutils at random ones.
 * In Go's code elfutils' word (.debug_frame) is taken for the CFA only: see unwind/gosp.h.
 */
#include "unit/unit.h"

#include <dwarf.h>
#include <elfutils/libdw.h>
#include <fcntl.h>
#include <glob.h>

#include "base/mem.h"
#include "process/elf_file.h"
#include "unwind/gorows.h"
#include "unwind/unwind_table.h"

enum { RANDOM = 20000, SHOWN_MAX = 10, ENTRY_MAX = 256 };

struct row {
	uint64_t start;
	struct unwind_rule rule;
};

struct checked {
	const char *path;
	struct row *rows;
	size_t count, cap;
	Dwarf_CFI *eh, *debug;
	bool go;
	uint64_t entry;
	struct rules rules;
	struct unwind_table *table;
	uint64_t asked, others, differ, left_out, padding;
};

static int collect(void *arg, uint64_t start, struct unwind_rule rule)
{
	struct checked *c = arg;

	assert_true(c->count == 0 || start > c->rows[c->count - 1].start);
	MEM_GROW(c->rows, c->count, c->cap);
	c->rows[c->count++] = (struct row){start, rule};
	return 0;
}

/* ---- elfutils' view, in our terms ----------------------------------------------------------- */

static bool is_breg(const Dwarf_Op *op, unsigned reg)
{
	return op->atom == DW_OP_breg0 + reg || (op->atom == DW_OP_bregx && op->number == reg);
}

static int64_t breg_offset(const Dwarf_Op *op)
{
	return (int64_t)(op->atom == DW_OP_bregx ? op->number2 : op->number);
}

static bool fits(int64_t v, unsigned bits)
{
	return v >= -(1LL << (bits - 1)) && v < 1LL << (bits - 1);
}

/* The CFA; false: none of ours. */
static bool oracle_cfa(Dwarf_Frame *frame, struct unwind_rule *rule)
{
	static const struct {
		unsigned reg, ops, cfa;
	} forms[] = {
		{7, 1, UNWIND_SP},      {6, 1, UNWIND_FP},     {10, 1, UNWIND_LEAF},
		{7, 2, UNWIND_SP_MEM},  {6, 2, UNWIND_FP_MEM}, {7, 3, UNWIND_SP_MEM8},
		{6, 3, UNWIND_FP_MEM8}, {3, 1, UNWIND_KEPT},
	};
	Dwarf_Op *ops;
	size_t count;
	int r = dwarf_frame_cfa(frame, &ops, &count);

	if (r != 0 || count == 0)
		return false;
	for (size_t i = 0; i < ARRAY_SIZE(forms); i++) {
		int64_t offset = breg_offset(&ops[0]);
		if (count != forms[i].ops || !is_breg(&ops[0], forms[i].reg) || !fits(offset, 32) ||
		    (count > 1 && ops[1].atom != DW_OP_deref) ||
		    (count > 2 && (ops[2].atom != DW_OP_plus_uconst || ops[2].number != 8)))
			continue;
		rule->cfa = (uint8_t)forms[i].cfa;
		rule->cfa_offset = (int32_t)offset;
		return true;
	}
	if (count == 9 && is_breg(&ops[0], 7) && breg_offset(&ops[0]) == 8 &&
	    is_breg(&ops[1], 16) && breg_offset(&ops[1]) == 0 && ops[2].atom == DW_OP_lit15 &&
	    ops[3].atom == DW_OP_and && ops[5].atom == DW_OP_ge && ops[6].atom == DW_OP_lit3 &&
	    ops[7].atom == DW_OP_shl && ops[8].atom == DW_OP_plus) {
		rule->cfa = UNWIND_PLT;
		rule->cfa_offset = ops[4].atom - DW_OP_lit0;
		return true;
	}
	return false;
}

enum saved { SAVED_SAME, SAVED_UNDEFINED, SAVED_AT_CFA, SAVED_AT_BREG, SAVED_IS_CFA, SAVED_ODD };

static enum saved oracle_register(Dwarf_Frame *frame, int reg, unsigned *ret_breg,
				  int64_t *ret_offset)
{
	Dwarf_Op mem[3], *ops;
	size_t count;

	assert_int_equal(dwarf_frame_register(frame, reg, mem, &ops, &count), 0);
	if (count == 0)
		return ops ? SAVED_UNDEFINED : SAVED_SAME;
	/* Expressions begin with the CFA on the stack. */
	if (ops[0].atom == DW_OP_call_frame_cfa) {
		*ret_offset = count > 1 ? (int64_t)ops[1].number : 0;
		if (count == 1)
			return SAVED_AT_CFA;
		if (count == 2 && ops[1].atom == DW_OP_plus_uconst)
			return SAVED_AT_CFA;
		if (count == 2 && ops[1].atom == DW_OP_stack_value)
			return SAVED_IS_CFA;
		if (count != 2)
			return SAVED_ODD;
		ops++;
		count--;
	}
	if (count == 1 && ops[0].atom >= DW_OP_breg0 && ops[0].atom <= DW_OP_breg31) {
		*ret_breg = ops[0].atom - DW_OP_breg0;
		*ret_offset = breg_offset(&ops[0]);
		return SAVED_AT_BREG;
	}
	return SAVED_ODD;
}

static struct unwind_rule oracle_frame(Dwarf_Frame *frame)
{
	const struct unwind_rule other = {.cfa = UNWIND_UNSUPPORTED};
	struct unwind_rule rule = {};
	unsigned ra_breg = 0, rbp_breg = 0, rsp_breg = 0, rbx_breg = 0;
	int64_t ra_at = 0, rbp_at = 0, rsp_at = 0, rbx_at = 0;
	bool signal;
	int column = dwarf_frame_info(frame, NULL, NULL, &signal);
	enum saved ra = oracle_register(frame, 16, &ra_breg, &ra_at);
	enum saved rbp = oracle_register(frame, 6, &rbp_breg, &rbp_at);
	enum saved rsp = oracle_register(frame, 7, &rsp_breg, &rsp_at);
	enum saved rbx = oracle_register(frame, 3, &rbx_breg, &rbx_at);
	bool known = oracle_cfa(frame, &rule);

	if (column != 16)
		return other;
	if (ra == SAVED_UNDEFINED)
		return (struct unwind_rule){.cfa = UNWIND_END};
	if (signal && ra == SAVED_AT_BREG && ra_breg == 7 && ra_at == 168)
		return (struct unwind_rule){.cfa = UNWIND_SIGNAL};
	if (!known || ra != SAVED_AT_CFA || ra_at != -8 ||
	    (rsp != SAVED_SAME && rsp != SAVED_IS_CFA))
		return other;
	if (rbp == SAVED_AT_CFA && fits(rbp_at, 16)) {
		rule.fp = UNWIND_FP_AT_CFA;
		rule.fp_offset = (int16_t)rbp_at;
	} else if (rbp == SAVED_AT_BREG && rbp_breg == 6 && fits(rbp_at, 16)) {
		rule.fp = UNWIND_FP_AT_FP;
		rule.fp_offset = (int16_t)rbp_at;
	} else if (rbp != SAVED_SAME) {
		rule.fp = UNWIND_FP_LOST;
	}
	if (rbx == SAVED_AT_CFA && fits(rbx_at, 16) && rbx_at < 0)
		rule.kept_offset = (int16_t)rbx_at;
	/* What a table leaves unsaid is the same; elfutils' defaults have rbx under rax's number.
	 */
	else if (rbx != SAVED_SAME && rbx != SAVED_UNDEFINED)
		rule.kept_offset = UNWIND_KEPT_LOST;
	return rule;
}

static struct unwind_rule oracle(const struct checked *c, uint64_t at)
{
	Dwarf_Frame *frame = NULL;

	if ((!c->eh || dwarf_cfi_addrframe(c->eh, at, &frame) != 0) &&
	    (!c->debug || dwarf_cfi_addrframe(c->debug, at, &frame) != 0))
		return (struct unwind_rule){.cfa = UNWIND_UNKNOWN};
	struct unwind_rule rule = oracle_frame(frame);
	free(frame);
	return rule;
}

/* ---- the comparison ------------------------------------------------------------------------- */

/*
 * Go's .debug_frame says nothing of rbp, nothing of the padding between functions, and of the
 * runtime's functions that change stacks what holds before they do.
 */
static bool is_known_difference(struct checked *c, struct unwind_rule ours,
				struct unwind_rule theirs)
{
	if (ours.cfa == UNWIND_SP && theirs.cfa == UNWIND_SP)
		return ours.cfa_offset == theirs.cfa_offset;
	if (theirs.cfa == UNWIND_UNKNOWN) {
		c->padding++;
		return true;
	}
	switch (ours.cfa) {
	case UNWIND_FRAME:
	case UNWIND_END:
	case UNWIND_UNSUPPORTED:
	case UNWIND_SIGNAL:
	case UNWIND_SP_MEM8:
	case UNWIND_GO_CGO:
	case UNWIND_GO_SYSTEM:
	case UNWIND_GO_GROW:
		c->left_out++;
		return true;
	default:
		return false;
	}
}

static void check(struct checked *c, uint64_t at, struct unwind_rule ours)
{
	struct unwind_rule paged = c->rules.all[unwind_table_find(c->table, at)];
	struct unwind_rule theirs = oracle(c, at);

	c->asked++;
	c->others += ours.cfa == UNWIND_UNSUPPORTED;
	/* Where the table says nothing, or what no rule can, flow.c may have found something. */
	bool by_flow = paged.must_follow_call && ours.cfa == UNWIND_UNSUPPORTED;
	if (ours.cfa != UNWIND_UNKNOWN && !by_flow)
		assert_memory_equal(&paged, &ours, sizeof(ours));
	if (memcmp(&ours, &theirs, sizeof(ours)) == 0)
		return;
	if (ours.cfa == UNWIND_END && at - c->entry < ENTRY_MAX)
		return; /* a program's first function: see cfi.h */
	if (c->go && is_known_difference(c, ours, theirs))
		return;
	if (c->differ++ < SHOWN_MAX)
		print_error("%s: %#lx: ours cfa %u %+d rbp %u %+d, elfutils' cfa %u %+d rbp %u "
			    "%+d\n",
			    c->path, at, ours.cfa, ours.cfa_offset, ours.fp, ours.fp_offset,
			    theirs.cfa, theirs.cfa_offset, theirs.fp, theirs.fp_offset);
}

static struct unwind_rule find(const struct checked *c, uint64_t at)
{
	size_t low = 0, high = c->count;

	while (low < high) {
		size_t mid = (low + high) / 2;
		if (c->rows[mid].start <= at)
			low = mid + 1;
		else
			high = mid;
	}
	return low ? c->rows[low - 1].rule : (struct unwind_rule){.cfa = UNWIND_UNKNOWN};
}

static void check_rows(struct checked *c)
{
	/* The last row, of nothing known, has no end. */
	for (size_t i = 0; i + 1 < c->count; i++) {
		const struct row *row = &c->rows[i];
		uint64_t last = row[1].start - 1;
		check(c, row->start, row->rule);
		check(c, row->start + (last - row->start) / 2, row->rule);
		check(c, last, row->rule);
		if (row->rule.cfa != UNWIND_UNKNOWN)
			continue;
		for (uint64_t at = (row->start + 15) & ~15ull, n = 0; at < last && n < 64;
		     at += 16, n++)
			check(c, at, row->rule);
	}
	check(c, c->rows[0].start - 1, (struct unwind_rule){});
	check(c, c->rows[c->count - 1].start, (struct unwind_rule){});

	uint64_t state = 88172645463325252ull, from = c->rows[0].start;
	uint64_t len = c->rows[c->count - 1].start - from;
	for (unsigned i = 0; i < RANDOM; i++) {
		state ^= state << 13;
		state ^= state >> 7;
		state ^= state << 17;
		check(c, from + state % len, find(c, from + state % len));
	}
}

static void check_pages(const struct unwind_table *table)
{
	uint32_t next = 0;

	for (uint32_t p = 0; p < table->page_count; p++) {
		const struct unwind_row *rows = table->rows + table->pages[p].first;
		assert_int_equal(table->pages[p].first, next);
		assert_true(table->pages[p].count > 0);
		assert_int_equal(rows[0].low, 0);
		for (uint32_t i = 1; i < table->pages[p].count; i++)
			assert_true(rows[i].low > rows[i - 1].low &&
				    rows[i].rule != rows[i - 1].rule);
		next += table->pages[p].count;
	}
	assert_int_equal(next, table->row_count);
}

static void check_file(const char *path)
{
	struct checked c = {.path = path};
	struct cfi_stats stats;
	struct elf_file e;
	CLEANUP(fd_closep) int fd = open(path, O_RDONLY | O_CLOEXEC);

	assert_true(fd >= 0);
	assert_int_equal(elf_file_init(&e, fd), 0);
	c.entry = e.entry;
	assert_int_equal(gorows_each(&e, collect, &c, &stats), 0);
	rules_init(&c.rules);
	assert_int_equal(unwind_table_build(&e, &c.rules, &c.table, NULL), 0);
	check_pages(c.table);

	elf_version(EV_CURRENT);
	Elf *elf = elf_begin(fd, ELF_C_READ_MMAP, NULL);
	Dwarf *dwarf = dwarf_begin_elf(elf, DWARF_C_READ, NULL);
	if (elf_file_section(&e, ".eh_frame") || e.section_count == 0)
		c.eh = dwarf_getcfi_elf(elf);
	if (elf_file_section(&e, ".debug_frame"))
		c.debug = dwarf_getcfi(dwarf);
	c.go = elf_file_is_go(&e);
	assert_true(c.eh || c.debug);
	check_rows(&c);
	printf("# %s: %zu rows of %u functions, %u rules; asked %lu times: %lu differ, %lu (%.4f "
	       "%%) "
	       "cannot be followed; %u broken, %u ignored\n",
	       path, c.count, stats.functions, c.rules.count, c.asked, c.differ, c.others,
	       100.0 * (double)c.others / (double)c.asked, stats.broken, stats.ignored);

	if (c.eh)
		dwarf_cfi_end(c.eh);
	dwarf_end(dwarf);
	elf_end(elf);
	rules_done(&c.rules);
	unwind_table_free(c.table);
	elf_file_done(&e);
	free(c.rows);
	assert_int_equal(c.differ, 0);
	assert_true(c.others * 50 < c.asked);
	assert_true(c.left_out * 50 < c.asked);
	assert_true(c.padding * 10 < c.asked);
}

static void rules_are_those_of_elfutils(void **state)
{
	glob_t g;

	if (glob(*state, 0, NULL, &g) != 0)
		skip();
	check_file(g.gl_pathv[0]);
	globfree(&g);
}

int main(int argc, char **argv)
{
	static const char *const usual[] = {
		"/usr/lib/x86_64-linux-gnu/libc.so.6",
		"/usr/lib/x86_64-linux-gnu/libstdc++.so.6",
		"/usr/lib/x86_64-linux-gnu/ld-linux-x86-64.so.2",
		"/usr/lib/x86_64-linux-gnu/libcrypto.so.*",
		"/usr/lib/x86_64-linux-gnu/libLLVM-*.so.1",
		"/usr/lib/x86_64-linux-gnu/libclang-*.so.??",
		"/usr/bin/python3.*[0-9]",
		"/usr/bin/node",
		"/usr/bin/perl",
		"/usr/lib/jvm/*/lib/server/libjvm.so",
		"/proc/self/exe",
	};
	size_t count = argc > 1 ? (size_t)argc - 1 : ARRAY_SIZE(usual);
	struct CMUnitTest *tests = mem_alloc_array(count, sizeof(*tests));
	for (size_t i = 0; i < count; i++) {
		char *path = mem_strdup(argc > 1 ? argv[i + 1] : usual[i]);
		tests[i] = (struct CMUnitTest){.name = path,
					       .test_func = rules_are_those_of_elfutils,
					       .initial_state = path};
	}
	return _cmocka_run_group_tests("cfi files", tests, count, NULL, NULL);
}
