#include "unwind/flow.h"

#include <errno.h>

#include "base/mem.h"
#include "base/sort.h"
#include "unwind/gorows.h"
#include "unwind/x86.h"
#include "unwind/x86_frame.h"

#define PADDED_ALIGN    64ull
#define PADDED_GAP_MIN  (64u << 10) /* minimum size of code without symbols to be searched */
#define GAP_MIN         16          /* shorter gaps are padding between functions */
#define SYSCALL_GAP_MAX 16
#define LEAF_MAX        128 /* bytes of a function without a frame; glibc's __longjmp has 80 */
#define STEP_BYTES      16  /* reading or clearing this many counts as one step */
#define SYMBOLS_MAX     (1u << 20)
#define CHUNK           256

struct function {
	uint64_t start;
	uint64_t size;  /* 0: unknown */
	bool outermost; /* has no caller: the program's entry, and code that it runs into */
};

struct code_byte { /* of a function */
	struct x86_frame state;
	uint8_t len; /* of the instruction that starts here; 0: none was found */
};

struct todo {
	uint32_t at;
	struct x86_frame state;
};

struct flow {
	const struct elf_file *e;
	cfa_row_fn *row;
	void *arg;
	struct cfi_stats *stats;

	struct function *symbols; /* sorted; read when first needed */
	uint32_t symbol_count, symbol_cap, sorted_symbols;
	bool has_symbols;

	uint64_t gap; /* start of the code that no table describes … */
	bool in_gap;
	struct unwind_rule last, held; /* the last row that was given, and the next one */
	uint64_t held_at;
	bool any, holds;
	uint64_t leaf_end; /* where the rule in front of one of UNWIND_UNSUPPORTED ends; 0: none
			      does */

	uint8_t *code; /* … and its bytes */
	uint64_t from, to;
	struct function *functions; /* in it */
	uint32_t count, cap, sorted;
	uint64_t steps;

	struct code_byte *bytes; /* of the current function */
	size_t bytes_cap;
	struct todo *todo;
	uint32_t todo_count, todo_cap;
	struct x86_frame indirect; /* at a jump through a table; depth 0: there is none */
	bool indirect_bad;
};

/* A row is held back until the next one, which replaces it if it has the same address. */
static int flush(struct flow *f)
{
	if (!f->holds || memcmp(&f->held, &f->last, sizeof(f->held)) == 0)
		return 0;
	f->any = true;
	f->last = f->held;
	return f->row(f->arg, f->held_at, f->held);
}

static int put_row(struct flow *f, uint64_t start, struct unwind_rule rule)
{
	if (f->holds && start < f->held_at) /* segments are not in order */
		return 0;
	int err = start > f->held_at ? flush(f) : 0;

	f->holds = true;
	f->held_at = start;
	f->held = rule;
	return err;
}

/* ---- functions ------------------------------------------------------------------------------ */

static void add_function(struct function **list, uint32_t *count, uint32_t *cap, uint64_t start,
			 uint64_t size)
{
	if (*count >= FLOW_FUNCTIONS_MAX)
		return;
	struct function *all = *list;
	MEM_GROW(all, *count, *cap);
	all[(*count)++] = (struct function){.start = start, .size = size};
	*list = all;
}

/* Reads up to CHUNK entries of a section (may be NULL) from number `at` on: how many, 0 at the end.
 */
static size_t read_chunk(const struct flow *f, const Elf64_Shdr *h, uint64_t at, size_t size,
			 void *ret)
{
	uint64_t count = h ? MIN(h->sh_size / size, (uint64_t)SYMBOLS_MAX) : 0;
	size_t n = at < count ? (size_t)MIN(count - at, (uint64_t)CHUNK) : 0;

	return elf_file_read(f->e, ret, n * size, h ? h->sh_offset + at * size : 0) == 0 ? n : 0;
}

static bool is_function(const Elf64_Sym *s)
{
	unsigned type = ELF64_ST_TYPE(s->st_info), bind = ELF64_ST_BIND(s->st_info);

	/* Functions in assembly often have no type. */
	return s->st_shndx != SHN_UNDEF && s->st_shndx < SHN_LORESERVE &&
	       (type == STT_FUNC || type == STT_GNU_IFUNC ||
		(type == STT_NOTYPE && bind == STB_GLOBAL));
}

static void read_symbols(struct flow *f, uint32_t type)
{
	const Elf64_Shdr *h = elf_file_section_of_type(f->e, type);
	Elf64_Sym chunk[CHUNK];
	size_t n;

	for (uint64_t at = 0; (n = read_chunk(f, h, at, sizeof(*chunk), chunk)); at += n)
		for (size_t i = 0; i < n; i++)
			if (is_function(&chunk[i]))
				add_function(&f->symbols, &f->symbol_count, &f->symbol_cap,
					     chunk[i].st_value, chunk[i].st_size);
}

/* Sorts, and merges functions with the same start. */
static void sort_functions(struct function *list, uint32_t *count)
{
	uint32_t kept = 0;

	sort_by_u64(list, *count, sizeof(*list));
	for (uint32_t i = 0; i < *count; i++) {
		struct function *before = kept ? &list[kept - 1] : NULL;
		if (before && before->start == list[i].start) {
			before->size = MAX(before->size, list[i].size);
			before->outermost |= list[i].outermost;
		} else {
			list[kept++] = list[i];
		}
	}
	*count = kept;
}

/* The last function that begins at or before an address, or NULL. */
static const struct function *find_function(const struct function *list, uint32_t count,
					    uint64_t addr)
{
	uint32_t lo = 0, hi = count;

	while (lo < hi) {
		uint32_t mid = lo + (hi - lo) / 2;
		if (list[mid].start <= addr)
			lo = mid + 1;
		else
			hi = mid;
	}
	return lo ? &list[lo - 1] : NULL;
}

/* Adds a function without a symbol: the target of a call, a jump or a pointer. */
static void discover(struct flow *f, uint64_t target)
{
	if (target >= f->to && elf_file_is_text(f->e, target)) { /* for a later gap */
		add_function(&f->symbols, &f->symbol_count, &f->symbol_cap, target, 0);
		return;
	}
	if (target < f->from || target >= f->to)
		return;
	const struct function *fn = find_function(f->functions, f->sorted, target);
	if (fn && (fn->start == target || target - fn->start < fn->size))
		return;
	add_function(&f->functions, &f->count, &f->cap, target, 0);
}

/* The targets of pointers in the program: some are functions. */
static void read_pointers(struct flow *f)
{
	const Elf64_Shdr *h = elf_file_section(f->e, ".rela.dyn");
	Elf64_Rela chunk[CHUNK];
	size_t n;

	for (uint64_t at = 0; (n = read_chunk(f, h, at, sizeof(*chunk), chunk)); at += n)
		for (size_t i = 0; i < n; i++)
			if (ELF64_R_TYPE(chunk[i].r_info) == R_X86_64_RELATIVE)
				discover(f, (uint64_t)chunk[i].r_addend);
}

static void find_symbols(struct flow *f)
{
	if (f->has_symbols || f->e->is_32_bit) /* x32: its tables have another layout */
		return;
	f->has_symbols = true;
	read_symbols(f, SHT_SYMTAB);
	read_symbols(f, SHT_DYNSYM);
	uint32_t count = f->symbol_count;
	if (f->e->entry) {
		add_function(&f->symbols, &f->symbol_count, &f->symbol_cap, f->e->entry, 0);
		if (f->symbol_count > count)
			f->symbols[count].outermost = true;
	}
}

static uint64_t end_of(const struct flow *f, const struct function *fn, const struct function *next)
{
	uint64_t end = next ? next->start : f->to;

	if (fn->size && fn->size < end - fn->start)
		end = fn->start + fn->size;
	return MIN(end, fn->start + FLOW_FUNCTION_MAX);
}

/* ---- instructions --------------------------------------------------------------------------- */

static void want(struct flow *f, uint64_t at, const struct x86_frame *s)
{
	MEM_GROW(f->todo, f->todo_count, f->todo_cap);
	f->todo[f->todo_count++] = (struct todo){(uint32_t)at, *s};
}

static void mark_outermost(struct flow *f, uint64_t start)
{
	for (uint32_t i = 0; i < f->sorted; i++)
		f->functions[i].outermost |= f->functions[i].start == start;
}

/* Follows the code from one instruction until nothing new is found. */
static void follow(struct flow *f, uint64_t start, uint32_t size, struct todo t)
{
	struct x86_frame s = t.state;
	uint64_t at = t.at;
	const uint8_t *code = f->code + (start - f->from);

	while (at < size && f->steps < FLOW_STEPS_MAX) {
		struct code_byte *p = &f->bytes[at];
		if (p->len) {
			s = x86_frame_join(&p->state, &s);
			if (x86_frame_same(&p->state, &s))
				return;
		}
		struct x86 x = x86_decode(code + at, size - at);
		if (x.kind == X86_BAD)
			return;
		f->steps++;
		p->state = s;
		p->len = x.len;
		x86_frame_apply(&s, &x);
		uint64_t next = at + x.len, target = next + (uint64_t)(int64_t)x.value;
		if (x.kind == X86_END)
			return;
		if (x.kind == X86_CALL && x.direct) {
			if (x.value == 0) /* call to the next instruction, to read rip */
				x86_frame_push(&s, X86_NO_REG);
			else
				discover(f, start + target);
		}
		if (x.kind == X86_LEA_RIP && target >= size)
			discover(f, start + target);
		if (x.kind == X86_JUMP && !x.direct) {
			if (f->indirect.depth && !x86_frame_same(&f->indirect, &s))
				f->indirect_bad = true;
			f->indirect = s;
			return;
		}
		if ((x.kind == X86_JUMP || x.kind == X86_BRANCH) && target < size)
			want(f, target, &s);
		else if (x.kind == X86_JUMP && s.depth == 8)
			discover(f, start + target);
		if (x.kind == X86_JUMP)
			return;
		at = next;
	}
	if (at == size && s.end)
		mark_outermost(f, start + size);
}

static void follow_all(struct flow *f, uint64_t start, uint32_t size)
{
	while (f->todo_count)
		follow(f, start, size, f->todo[--f->todo_count]);
}

/* Follows a function from its start; the result is in f->bytes. */
static void follow_function(struct flow *f, const struct function *fn, uint32_t size)
{
	const struct x86_frame entry = {.depth = fn->outermost ? 0 : 8, .end = fn->outermost};
	uint64_t start = fn->start;

	if (f->bytes_cap < size) {
		f->bytes = mem_resize_array(f->bytes, size, sizeof(*f->bytes));
		f->bytes_cap = size;
	}
	memset(f->bytes, 0, size * sizeof(*f->bytes));
	f->steps += size / STEP_BYTES;
	f->indirect = (struct x86_frame){};
	f->indirect_bad = false;
	want(f, 0, &entry);
	follow_all(f, start, size);
	/* The targets of a jump table have the same state as the jump. */
	if (!f->indirect.depth || f->indirect_bad || f->indirect.depth == 8)
		return;
	for (uint32_t at = 0; at < size;) {
		if (!f->bytes[at].len) {
			want(f, at, &f->indirect);
			follow_all(f, start, size);
		}
		at += MAX(f->bytes[at].len, 1);
	}
}

/* ---- rows ----------------------------------------------------------------------------------- */

static int put_function(struct flow *f, uint64_t start, uint32_t size)
{
	static const struct unwind_rule unknown = {.cfa = UNWIND_UNKNOWN};

	for (uint32_t at = 0; at < size;) {
		const struct code_byte *p = &f->bytes[at];
		struct unwind_rule rule = p->len ? x86_frame_rule(&p->state) : unknown;
		f->stats->other += rule.cfa == UNWIND_UNSUPPORTED;
		int err = put_row(f, start + at, rule);
		if (err)
			return err;
		at += MAX(p->len, 1);
	}
	return 0;
}

/* Where a signal handler returns to: mov $15,%rax; syscall. Walks look up one byte before it. */
static bool is_sigreturn(const struct flow *f, uint64_t at)
{
	static const uint8_t code[] = {0x48, 0xc7, 0xc0, 0x0f, 0, 0, 0, 0x0f, 0x05};

	return f->to - at >= sizeof(code) &&
	       memcmp(f->code + (at - f->from), code, sizeof(code)) == 0;
}

static void take_symbol(struct flow *f, const struct function *fn)
{
	uint32_t count = f->count;

	add_function(&f->functions, &f->count, &f->cap, fn->start, fn->size);
	if (f->count > count)
		f->functions[count].outermost = fn->outermost;
}

/* Code without symbols whose functions start at multiples of 64, after int3: V8's builtins. */
static void find_padded(struct flow *f)
{
	for (uint64_t at = (f->from + PADDED_ALIGN) & ~(PADDED_ALIGN - 1); at < f->to;
	     at += PADDED_ALIGN) {
		const uint8_t *code = f->code + (at - f->from);
		if (at - f->from >= 2 && code[-1] == 0xcc && code[-2] == 0xcc && code[0] != 0xcc)
			discover(f, at);
	}
}

static bool is_unnamed(const struct flow *f, uint64_t from, uint64_t to)
{
	const struct function *fn = find_function(f->symbols, f->symbol_count, to - 1);

	return !fn || fn->start < from;
}

/*
 * Finds the functions of a gap: those with symbols, then those that they call; without any symbol,
 * those found by padding.
 */
static void find_functions(struct flow *f)
{
	f->count = f->sorted = 0;
	if (is_unnamed(f, f->from, f->to))
		find_padded(f);
	const struct function *fn = find_function(f->symbols, f->symbol_count, f->from);
	fn = !fn ? f->symbols : fn->start < f->from ? fn + 1 : fn;
	for (; fn < f->symbols + f->symbol_count && fn->start < f->to; fn++)
		take_symbol(f, fn);
	sort_functions(f->functions, &f->count);
	f->sorted = f->count;
	read_pointers(f);
	for (uint64_t at = f->from; at < f->to; at++)
		if (is_sigreturn(f, at))
			discover(f, at);
	f->sorted = 0;
	for (int round = 0; round < 8; round++) {
		sort_functions(f->functions, &f->count);
		if (f->count == f->sorted)
			return;
		f->sorted = f->count;
		for (uint32_t i = 0; i < f->sorted; i++) {
			struct function at = f->functions[i];
			bool last = i + 1 == f->sorted;
			uint64_t end = end_of(f, &at, last ? NULL : &f->functions[i + 1]);
			follow_function(f, &at, (uint32_t)(end - at.start));
		}
	}
	sort_functions(f->functions, &f->count);
}

static int put_functions(struct flow *f)
{
	static const struct unwind_rule unknown = {.cfa = UNWIND_UNKNOWN};
	static const struct unwind_rule signal = {.cfa = UNWIND_SIGNAL};

	f->sorted = f->count;
	for (uint32_t i = 0; i < f->sorted; i++) {
		struct function at = f->functions[i];
		bool last = i + 1 == f->sorted;
		uint64_t next = last ? f->to : f->functions[i + 1].start;
		uint64_t end = end_of(f, &at, last ? NULL : &f->functions[i + 1]);
		bool to_signal = !last && is_sigreturn(f, next);
		next -= to_signal;
		end = MIN(end, next);
		int err = 0;
		if (end > at.start && !is_sigreturn(f, at.start)) {
			follow_function(f, &at, (uint32_t)(end - at.start));
			err = put_function(f, at.start, (uint32_t)(end - at.start));
		}
		if (!err && end < next)
			err = put_row(f, end, unknown);
		if (!err && to_signal)
			err = put_row(f, next, signal);
		if (err)
			return err;
	}
	f->stats->functions += f->sorted;
	return 0;
}

/* Gives the rows of a gap in one segment: code that no table describes. */
static int put_gap(struct flow *f, uint64_t from, uint64_t to)
{
	uint64_t offset;
	int err = 0;

	if (to - from < GAP_MIN || to - from > FLOW_GAP_MAX || f->steps >= FLOW_STEPS_MAX)
		return err;
	find_symbols(f);
	if (f->symbol_count != f->sorted_symbols) { /* counts as that many steps */
		f->steps += f->symbol_count;
		sort_functions(f->symbols, &f->symbol_count);
		f->sorted_symbols = f->symbol_count;
	}
	if ((is_unnamed(f, from, to) && to - from < PADDED_GAP_MIN) ||
	    !elf_file_offset(f->e, from, &offset))
		return 0;
	f->steps += (to - from) / STEP_BYTES;
	f->from = from;
	f->to = to;
	f->code = mem_resize_array(NULL, to - from, 1);
	if (elf_file_read(f->e, f->code, to - from, offset) == 0) {
		find_functions(f);
		err = put_functions(f);
	}
	free(f->code);
	f->code = NULL;
	return err;
}

/*
 * What holds where a table ends. That of glibc's clone() ends at its system call, since it would be
 * wrong in the child, and goes on where the child does. For the parent, whose time it takes to make
 * one, it stays true until then; the child has no return address there, which is checked.
 */
static struct unwind_rule rule_of_gap(const struct flow *f, uint64_t to)
{
	static const uint8_t syscall[] = {0x0f, 0x05};
	struct unwind_rule rule = {.cfa = UNWIND_UNKNOWN};
	uint8_t code[sizeof(syscall)];
	uint64_t offset;

	if (!f->holds || f->held.cfa != UNWIND_SP || f->held.cfa_offset != 8 ||
	    f->held.fp != UNWIND_FP_SAME || to - f->gap > SYSCALL_GAP_MAX ||
	    f->e->machine != EM_X86_64 || !elf_file_offset(f->e, f->gap, &offset) ||
	    elf_file_read(f->e, code, sizeof(code), offset) != 0 ||
	    memcmp(code, syscall, sizeof(code)) != 0)
		return rule;
	rule = f->held;
	rule.must_follow_call = 1;
	return rule;
}

/* Ends the gap at `to`: gives rows for its parts in executable segments. */
static int close_gap(struct flow *f, uint64_t to)
{
	struct unwind_rule rule = rule_of_gap(f, to);
	int err = put_row(f, f->gap, rule);

	if (rule.cfa != UNWIND_UNKNOWN)
		return err;
	for (uint32_t i = 0; i < f->e->segment_count && !err; i++) {
		const Elf64_Phdr *p = &f->e->segments[i];
		if (p->p_type != PT_LOAD || !(p->p_flags & PF_X) ||
		    p->p_filesz > UINT64_MAX - p->p_vaddr)
			continue;
		uint64_t a = MAX(f->gap, p->p_vaddr), b = MIN(to, p->p_vaddr + p->p_filesz);
		if (a >= b)
			continue;
		err = put_gap(f, a, b);
		if (!err)
			err = put_row(f, b, (struct unwind_rule){.cfa = UNWIND_UNKNOWN});
	}
	return err;
}

/*
 * How far the rule in front of one of UNWIND_UNSUPPORTED holds, at `from`, all the same. The table
 * of glibc's __longjmp says, from the middle on, that its caller is the one that it goes to, which
 * is in registers by then. Yet who called it is still found at sp, until rsp is set: and that is
 * the truer answer, since what it goes to never called it.
 */
static uint64_t end_of_leaf(const struct flow *f, uint64_t from)
{
	uint8_t code[LEAF_MAX];
	struct x86 x = {.kind = X86_OTHER};
	uint64_t offset, at = 0, len = sizeof(code);
	bool reached = false;

	if (!f->holds || f->held.cfa != UNWIND_SP || f->held.cfa_offset != 8 ||
	    f->held.fp != UNWIND_FP_SAME || f->e->machine != EM_X86_64 ||
	    from - f->held_at >= len || !elf_file_offset(f->e, f->held_at, &offset) ||
	    elf_file_read(f->e, code, len, offset) != 0)
		return from;
	while (at < len && (x.kind == X86_OTHER || x.kind == X86_LEA_RIP)) {
		reached |= f->held_at + at == from;
		x = x86_decode(code + at, len - at);
		at += x.kind == X86_BAD ? 0 : x.len;
	}
	return reached ? f->held_at + at : from;
}

/* A row of UNWIND_UNSUPPORTED: the one before it may go on. */
static int put_other(struct flow *f, uint64_t start, struct unwind_rule other)
{
	struct unwind_rule rule = f->held;
	uint64_t end = f->steps < FLOW_STEPS_MAX ? end_of_leaf(f, start) : start;

	f->steps += LEAF_MAX / STEP_BYTES;
	if (end == start)
		return put_row(f, start, other);
	f->leaf_end = end;
	rule.kept_offset = UNWIND_KEPT_LOST;
	rule.must_follow_call = 1;
	return put_row(f, start, rule);
}

/* Before a row at `start`. */
static int end_leaf(struct flow *f, uint64_t start)
{
	uint64_t end = f->leaf_end;

	f->leaf_end = 0;
	return end && end < start ? put_row(f, end, (struct unwind_rule){.cfa = UNWIND_UNSUPPORTED})
				  : 0;
}

static int take_row(void *arg, uint64_t start, struct unwind_rule rule)
{
	struct flow *f = arg;
	int err = end_leaf(f, start);

	if (err)
		return err;
	if (rule.cfa == UNWIND_UNKNOWN) {
		if (!f->in_gap)
			f->gap = start;
		f->in_gap = true;
		return 0;
	}
	if (f->in_gap)
		err = close_gap(f, start);
	f->in_gap = false;
	if (err)
		return err;
	return rule.cfa == UNWIND_UNSUPPORTED ? put_other(f, start, rule) : put_row(f, start, rule);
}

int flow_each(const struct elf_file *e, cfa_row_fn *row, void *arg, struct cfi_stats *stats)
{
	struct flow f = {.e = e, .row = row, .arg = arg, .stats = stats, .in_gap = true};
	int err = gorows_each(e, take_row, &f, stats);

	if ((err == 0 || (err == -ENOENT && e->machine == EM_X86_64)) && f.in_gap) {
		int r = close_gap(&f, UINT64_MAX);
		if (r == 0)
			r = flush(&f);
		err = r ? r : f.any ? 0 : err;
	} else if (err == 0) {
		err = flush(&f);
	}
	free(f.symbols);
	free(f.functions);
	free(f.bytes);
	free(f.todo);
	return err;
}
