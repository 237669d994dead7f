#include "unwind/goasm.h"

#include "base/mem.h"

enum how { NOT_SPECIAL, END, END_AFTER_SWITCH, SYSTEM, GROW, CGO, SIGNAL };

static enum how how_of(const char *name)
{
	static const struct {
		const char *name;
		enum how how;
	} known[] = {
		{"runtime.goexit", END},
		{"runtime.mstart", END},
		{"runtime.rt0_go", END},
		{"_rt0_amd64", END},
		{"_rt0_amd64_linux", END},
		{"runtime.gopreempt_m", END},
		{"runtime.preemptPark", END},
		{"runtime.mcall", END_AFTER_SWITCH},
		{"runtime.gogo", END_AFTER_SWITCH},
		{"gogo", END_AFTER_SWITCH},
		{"runtime.systemstack", SYSTEM},
		{"runtime.morestack", GROW},
		{"runtime.asmcgocall", CGO},
		{"runtime.sigreturn", SIGNAL},
		{"runtime.sigreturn__sigaction", SIGNAL},
	};

	for (size_t i = 0; i < ARRAY_SIZE(known); i++)
		if (strcmp(name, known[i].name) == 0)
			return known[i].how;
	return NOT_SPECIAL;
}

bool goasm_is_special(const char *name, bool writes_sp)
{
	return writes_sp || how_of(name) != NOT_SPECIAL;
}

/*
 * The caller's rbp is saved at the top of the frame. Up to Go 1.20 SUBQ $n, SP comes one
 * instruction before the save, and at that point the slot still holds something else. Such a wrong
 * rbp does no harm: the caller's frame has a slot of its own.
 */
struct unwind_rule goasm_rule(int64_t depth)
{
	if (depth < 0 || depth > INT32_MAX - 8)
		return (struct unwind_rule){.cfa = UNWIND_UNSUPPORTED};
	struct unwind_rule rule = {.cfa = UNWIND_SP, .cfa_offset = (int32_t)depth + 8};
	if (depth >= 8) {
		rule.fp = UNWIND_FP_AT_CFA;
		rule.fp_offset = -16;
	}
	return rule;
}

/* ---- instructions --------------------------------------------------------------------------- */

struct code {
	const uint8_t *at;
	size_t len;
};

static int32_t s32(const uint8_t *p)
{
	int32_t v;

	memcpy(&v, p, sizeof(v));
	return v;
}

static bool starts(struct code c, size_t at, const void *what, size_t len)
{
	return at <= c.len && c.len - at >= len && memcmp(c.at + at, what, len) == 0;
}

#define STARTS(c, at, bytes) starts(c, at, bytes, sizeof(bytes) - 1)

/* The first position from `at` on with these bytes, or len. */
static size_t find(struct code c, size_t at, const void *what, size_t len)
{
	while (at < c.len && !starts(c, at, what, len))
		at++;
	return at;
}

#define FIND(c, at, bytes) find(c, at, bytes, sizeof(bytes) - 1)

/* The length of an instruction at `at` that sets rsp to another register or to memory, or 0. */
static size_t sets_rsp(struct code c, size_t at)
{
	if (at + 7 > c.len)
		return 0;
	uint8_t rex = c.at[at], op = c.at[at + 1], modrm = c.at[at + 2];
	unsigned mod = modrm >> 6, reg = modrm >> 3 & 7, rm = modrm & 7;

	if ((rex == 0x48 || rex == 0x4c) && op == 0x89 && mod == 3 && rm == 4)
		return 3;
	if ((rex != 0x48 && rex != 0x49) || op != 0x8b || reg != 4)
		return 0;
	if (mod == 3)
		return 3;
	return 3 + (rm == 4) + (mod == 1 ? 1 : mod == 2 || rm == 5 ? 4 : 0);
}

/* The end of the first instruction from `at` on that switches stacks, or len. */
static size_t after_switch(struct code c, size_t at)
{
	for (; at < c.len; at++) {
		size_t len = sets_rsp(c, at);
		if (len)
			return at + len;
	}
	return c.len;
}

/* The length of an operation between a register and disp8(%rsp) or (%rsp); 0 if it is not one. */
static size_t on_stack(struct code c, size_t at, uint8_t op, unsigned reg, int *ret_disp)
{
	uint8_t small[] = {0x48, op, (uint8_t)(0x44 | reg << 3), 0x24};
	uint8_t none[] = {0x48, op, (uint8_t)(0x04 | reg << 3), 0x24};

	if (starts(c, at, small, sizeof(small)) && at + sizeof(small) < c.len) {
		*ret_disp = (int8_t)c.at[at + sizeof(small)];
		return sizeof(small) + 1;
	}
	*ret_disp = 0;
	return starts(c, at, none, sizeof(none)) ? sizeof(none) : 0;
}

enum { RSI = 6, RDI = 7, MOV_LOAD = 0x8b, SUB_LOAD = 0x2b };

/* ---- rows ----------------------------------------------------------------------------------- */

struct rows {
	const struct goasm_func *f;
	struct code code;
	cfa_row_fn *row;
	void *arg;
};

static const struct unwind_rule OTHER = {.cfa = UNWIND_UNSUPPORTED};

static int put(const struct rows *r, size_t at, struct unwind_rule rule)
{
	return at < r->f->end - r->f->start ? r->row(r->arg, r->f->start + at, rule) : 0;
}

static int put_steps(const struct rows *r)
{
	const struct goasm_func *f = r->f;
	int err = 0;

	for (size_t i = 0; i < f->step_count && !err; i++)
		err = put(r, f->steps[i].start - f->start, goasm_rule(f->steps[i].depth));
	return err ? err : f->step_count ? 0 : put(r, 0, OTHER);
}

static int put_end_after_switch(const struct rows *r)
{
	int err = put(r, 0, goasm_rule(0));

	return err ? err
		   : put(r, after_switch(r->code, 0), (struct unwind_rule){.cfa = UNWIND_END});
}

/*
 * What systemstack does after fn has returned: loads g from thread-local storage, g.m, m.curg, and
 * curg.sched.sp. `at` is the end of the call.
 */
static struct unwind_rule read_system(struct code c, size_t at)
{
	struct unwind_rule rule = {.cfa = UNWIND_GO_SYSTEM};
	int32_t curg;

	if (STARTS(c, at, "\x64\x48\x8b\x04\x25") && at + 9 <= c.len) { /* mov %fs:x,%rax */
		rule.cfa_offset = s32(c.at + at + 5);
		at += 9;
	} else if (STARTS(c, at, "\x48\xc7\xc1") && at + 7 <= c.len &&
		   STARTS(c, at + 7, "\x64\x48\x8b\x01")) { /* mov $x,%rcx; mov %fs:(%rcx),%rax */
		rule.cfa_offset = s32(c.at + at + 3);
		at += 11;
	} else {
		return OTHER;
	}
	if (!STARTS(c, at, "\x48\x8b\x58\x30")) /* mov UNWIND_GO_M(%rax),%rbx */
		return OTHER;
	at += 4;
	if (!STARTS(c, at, "\x48\x8b\x83") || at + 7 > c.len) /* mov curg(%rbx),%rax */
		return OTHER;
	curg = s32(c.at + at + 3);
	if (curg != (int16_t)curg || !STARTS(c, after_switch(c, at) - 4, "\x48\x8b\x60\x38"))
		return OTHER; /* mov UNWIND_GO_SP(%rax),%rsp */
	rule.fp_offset = (int16_t)curg;
	return rule;
}

static int put_system(struct goasm *a, const struct rows *r)
{
	size_t there = after_switch(r->code, 0);
	size_t call = FIND(r->code, there, "\xff\xd7"); /* call *%rdi */

	a->system = call < r->code.len ? read_system(r->code, call + 2) : OTHER;
	int err = put(r, 0, goasm_rule(0));
	if (!err)
		err = put(r, there, a->system);
	return err ? err : put(r, after_switch(r->code, call), goasm_rule(0));
}

static int put_grow(const struct goasm *a, const struct rows *r)
{
	struct unwind_rule rule = a->system;

	rule.cfa = rule.cfa == UNWIND_GO_SYSTEM ? UNWIND_GO_GROW : UNWIND_UNSUPPORTED;
	int err = put(r, 0, goasm_rule(0));
	return err ? err : put(r, after_switch(r->code, 0), rule);
}

/* mov g(%rsp),%rdi; mov UNWIND_GO_STACK_HI(%rdi),%rsi; sub depth(%rsp),%rsi */
static struct unwind_rule read_cgo(struct code c, size_t at, size_t end)
{
	for (; at < end; at++) {
		int g, depth;
		size_t len = on_stack(c, at, MOV_LOAD, RDI, &g);
		if (len && STARTS(c, at + len, "\x48\x8b\x77\x08") &&
		    on_stack(c, at + len + 4, SUB_LOAD, RSI, &depth))
			return (struct unwind_rule){
				.cfa = UNWIND_GO_CGO, .fp_offset = (int16_t)g, .cfa_offset = depth};
	}
	return OTHER;
}

/*
 * It has two calls: one after switching to g0's stack, and one for when it is on that already, with
 * the old rsp saved.
 */
static int put_cgo(const struct rows *r)
{
	static const uint8_t call[] = {0xff, 0xd0}; /* *%rax */
	struct code c = r->code;
	size_t there = after_switch(c, 0);
	size_t call1 = find(c, there, call, sizeof(call));
	size_t back1 = after_switch(c, call1);
	size_t align2 = FIND(c, back1, "\x48\x83\xec"); /* sub $n,%rsp */
	size_t call2 = find(c, align2, call, sizeof(call));
	size_t back2 = after_switch(c, call2);
	struct unwind_rule in_place = OTHER;
	int saved;

	if (on_stack(c, call2 + sizeof(call), MOV_LOAD, RSI, &saved))
		in_place = (struct unwind_rule){.cfa = UNWIND_SP_MEM8, .cfa_offset = saved};
	const struct {
		size_t at;
		struct unwind_rule rule;
	} rows[] = {
		{0, goasm_rule(0)},     {there, OTHER},      {call1, read_cgo(c, call1, back1)},
		{back1, goasm_rule(0)}, {align2 + 4, OTHER}, {call2, in_place},
		{back2, goasm_rule(0)},
	};
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		bool last = i + 1 == ARRAY_SIZE(rows);
		int err =
			last || rows[i].at < rows[i + 1].at ? put(r, rows[i].at, rows[i].rule) : 0;
		if (err)
			return err;
	}
	return 0;
}

/* The length of Go's code that saves rbp and points it to the saved one, or 0; push: Go 1.21's. */
static size_t sets_frame(struct code c, size_t at, bool *ret_push)
{
	size_t save = STARTS(c, at, "\x48\x89\x6c\x24")   ? 5
		      : STARTS(c, at, "\x48\x89\xac\x24") ? 8
							  : 0;
	size_t lea = STARTS(c, at + save, "\x48\x8d\x6c\x24")   ? 5
		     : STARTS(c, at + save, "\x48\x8d\xac\x24") ? 8
								: 0;

	*ret_push = save == 0 && STARTS(c, at, "\x48\x89\xe5");
	return *ret_push ? 3 : save && lea ? save + lea : 0;
}

/* From where on, before `end`, rbp is the caller's again: the add to rsp. */
static size_t leaves_frame(struct code c, size_t end)
{
	if (end >= 7 && STARTS(c, end - 7, "\x48\x81\xc4"))
		return end - 7;
	if (end >= 4 && STARTS(c, end - 4, "\x48\x83\xc4"))
		return end - 4;
	return end;
}

/* A function that writes rsp but keeps rbp: unwound by rbp from its prologue to its epilogue. */
static int put_writer(const struct rows *r)
{
	const struct unwind_rule by_fp = {.cfa = UNWIND_FRAME}; /* to any stack */
	const struct goasm_func *f = r->f;
	bool framed = false, push = false;
	size_t moved = after_switch(r->code, 0);
	int err = 0;

	for (size_t i = 0; i < f->step_count && !err; i++) {
		const struct goasm_step *s = &f->steps[i];
		size_t from = s->start - f->start;
		size_t to = (i + 1 < f->step_count ? s[1].start : f->end) - f->start;
		struct unwind_rule by_rsp = goasm_rule(s->depth);
		if (s->depth < 8) {
			err = put(r, from, from >= moved && !framed ? OTHER : by_rsp);
			if (!err && !framed && from < moved && moved < to)
				err = put(r, moved, OTHER);
			continue;
		}
		size_t set = framed ? 0 : sets_frame(r->code, from, &push);
		framed = framed || set;
		if (!framed) {
			err = put(r, from, OTHER);
			continue;
		}
		size_t leave = push ? to : leaves_frame(r->code, to);
		by_rsp.fp = UNWIND_FP_SAME;
		by_rsp.fp_offset = 0;
		if (set)
			err = put(r, from, by_rsp);
		if (!err && from + set < leave)
			err = put(r, from + set, by_fp);
		if (!err && leave < to)
			err = put(r, leave, by_rsp);
	}
	return err;
}

int goasm_rows(struct goasm *a, const struct goasm_func *f, cfa_row_fn *row, void *arg)
{
	struct rows r = {f, {f->code, f->code_len}, row, arg};
	enum how how = how_of(f->name);

	/* A wrapper with the same name, for another calling convention, is ordinary code. */
	if (how != END && how != SIGNAL && after_switch(r.code, 0) == r.code.len)
		return put_steps(&r);
	switch (how) {
	case END:
		return put(&r, 0, (struct unwind_rule){.cfa = UNWIND_END});
	case END_AFTER_SWITCH:
		return put_end_after_switch(&r);
	case SYSTEM:
		return put_system(a, &r);
	case GROW:
		return put_grow(a, &r);
	case CGO:
		return put_cgo(&r);
	case SIGNAL: /* it was not called: walks look it up one byte before its start */
		return row(arg, f->start - 1, (struct unwind_rule){.cfa = UNWIND_SIGNAL});
	case NOT_SPECIAL:
		break;
	}
	return put_writer(&r);
}
