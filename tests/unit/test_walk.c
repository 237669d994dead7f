/* The parts of the unwinder that need no kernel: places in arrays, and walks of made-up stacks. */
#include "unit/unit.h"

#include <stdio.h>

#include "unwind/extents.h"
#include "unwind/walk.h"

static void runs_never_overlap(void **state)
{
	(void)state;
	enum { TOTAL = 4096, BOUND = 256, HELD = 64 };
	uint8_t used[TOTAL] = {};
	struct extent held[HELD] = {};
	struct extents e;
	unsigned seed = 7, failures = 0;

	extents_init(&e, 0, TOTAL);
	for (int i = 0; i < 100000; i++) {
		struct extent *h = &held[rand_r(&seed) % HELD];
		if (h->count) {
			memset(used + h->start, 0, h->count);
			extents_give(&e, h->start, h->count);
			h->count = 0;
			continue;
		}
		uint32_t count = 1 + (uint32_t)rand_r(&seed) % 200, start;
		if (extents_take(&e, count, BOUND, &start) != 0) {
			failures++;
			continue;
		}
		assert_true(start + count <= TOTAL);
		assert_int_equal(start / BOUND, (start + count - 1) / BOUND);
		for (uint32_t k = start; k < start + count; k++) {
			assert_int_equal(used[k], 0);
			used[k] = 1;
		}
		*h = (struct extent){start, count};
	}
	assert_true(failures > 0); /* it was full at times */
	for (size_t i = 0; i < HELD; i++)
		extents_give(&e, held[i].start, held[i].count);
	assert_int_equal(e.taken, 0);
	assert_int_equal(e.count, 1); /* all joined again */
	uint32_t start;
	assert_int_equal(extents_take(&e, TOTAL, 0, &start), 0);
	assert_int_equal(extents_take(&e, 1, 0, &start), -ENOSPC);
	extents_done(&e);
}

/* A world of functions of 16 bytes each from CODE on, and a stack from STACK on. */
enum { CODE = 0x1000, STACK = 0x7000, WORDS = 64 };

struct world {
	struct unwind_rule rules[8];
	uint64_t stack[WORDS];
	bool pending;      /* the last function's table is not there yet */
	uint64_t epilogue; /* where there is add $8,%rsp; ret */
	uint64_t code; /* there, if it is not an epilogue: the byte before it, and what follows */
	unsigned jit;  /* a function in memory where no table can be; 0: none */
};

static int rule_at(void *ctx, uint64_t addr, const struct unwind_rule **ret)
{
	struct world *w = ctx;
	uint64_t function = (addr - CODE) / 16;

	if (addr < CODE || function >= 8)
		return -ENOENT;
	if (w->pending && function == 7)
		return -EAGAIN;
	*ret = w->jit && function == w->jit ? NULL : &w->rules[function];
	return 0;
}

/* In this world every return address follows a call, and nothing else does. */
static bool code_at(void *ctx, uint64_t addr, uint64_t *ret)
{
	uint64_t at = addr + sizeof(*ret) - CODE;

	const struct world *w = ctx;
	if (w->epilogue && addr == w->epilogue - 1) {
		*ret = w->code ? w->code : 0x00c308c4834800;
		return true;
	}
	*ret = at < 8 * 16 && at % 16 == 5 ? 0xe8ull << 24 : 0x9090909090909090;
	return addr + sizeof(*ret) >= CODE && addr < CODE + 8 * 16;
}

static int walk(struct world *w, uint64_t pc, uint64_t bp, bool exact, uint64_t *frames,
		size_t *count)
{
	struct walk_input in = {
		.pc = pc,
		.sp = STACK,
		.fp = bp,
		.leaf = STACK + 8 * 10,
		.exact = exact,
		.stack = (const uint8_t *)w->stack,
		.stack_start = STACK,
		.stack_len = sizeof(w->stack),
	};
	return walk_stack(&in, rule_at, code_at, w, frames, 16, count);
}

#define RA(f) (CODE + 16 * (f) + 5)

static void rules_are_followed(void **state)
{
	(void)state;
	struct world w = {
		.rules =
			{
				{.cfa = UNWIND_SP, .cfa_offset = 24},
				{.cfa = UNWIND_FP,
				 .cfa_offset = 16,
				 .fp = UNWIND_FP_AT_CFA,
				 .fp_offset = -16},
				{.cfa = UNWIND_FP_MEM, .cfa_offset = -8, .fp = UNWIND_FP_AT_FP},
				{.cfa = UNWIND_PLT, .cfa_offset = 11},
				{.cfa = UNWIND_END},
				{.cfa = UNWIND_UNKNOWN},
				{.cfa = UNWIND_UNSUPPORTED},
				{.cfa = UNWIND_LEAF, .cfa_offset = 0},
			},
	};
	uint64_t frames[16];
	size_t count;

	/* 0 (rsp + 24) <- 1 (rbp) <- 2 (realigned: CFA in memory) <- 4, the outermost */
	w.stack[2] = RA(1);
	w.stack[8] = STACK + 8 * 20; /* at rbp: 1's saved rbp, then its return address */
	w.stack[9] = RA(2);
	w.stack[19] = STACK + 8 * 30; /* at 2's rbp - 8: its CFA */
	w.stack[20] = 0;
	w.stack[29] = RA(4);
	assert_int_equal(walk(&w, CODE, STACK + 8 * 8, true, frames, &count), WIRE_WALK_COMPLETE);
	assert_int_equal(count, 4);
	assert_int_equal(frames[0], CODE);
	assert_int_equal(frames[1], RA(1) - 1); /* a return address: inside its call */
	assert_int_equal(frames[3], RA(4) - 1);

	/* A lazy binding stub before and after its push. */
	memset(w.stack, 0, sizeof(w.stack));
	w.stack[0] = w.stack[1] = RA(4);
	assert_int_equal(walk(&w, CODE + 16 * 3 + 4, 0, true, frames, &count), WIRE_WALK_COMPLETE);
	w.stack[0] = 0;
	assert_int_equal(walk(&w, CODE + 16 * 3 + 11, 0, true, frames, &count), WIRE_WALK_COMPLETE);
	assert_int_equal(frames[1], RA(4) - 1);

	/* r10 is known at a leaf only. */
	w.stack[9] = RA(4);
	assert_int_equal(walk(&w, CODE + 16 * 7, 0, true, frames, &count), WIRE_WALK_COMPLETE);
	assert_int_equal(walk(&w, RA(7), 0, false, frames, &count), WIRE_WALK_NO_ROW);

	/* Frame pointers where there is no row; 0 may be any value … */
	memset(w.stack, 0, sizeof(w.stack));
	w.stack[11] = RA(5);
	assert_int_equal(walk(&w, CODE + 16 * 5, STACK + 80, true, frames, &count),
			 WIRE_WALK_NO_ROW);
	assert_int_equal(count, 2);
	w.jit = 5; /* … also where no table can be */
	assert_int_equal(walk(&w, CODE + 16 * 5, STACK + 80, true, frames, &count),
			 WIRE_WALK_NO_ROW);
	assert_int_equal(count, 2);
	w.jit = 0;

	assert_int_equal(walk(&w, CODE + 16 * 6, 0, true, frames, &count), WIRE_WALK_NO_ROW);
	assert_int_equal(walk(&w, 0x99999, 0, true, frames, &count), WIRE_WALK_NO_MAPPING);
	assert_int_equal(count, 0);
}

/* Code that no table describes: a step by rbp must be proven. */
static void a_step_without_a_row_is_proven(void **state)
{
	(void)state;
	struct world w = {.rules = {{.cfa = UNWIND_END}, {.cfa = UNWIND_END}}, .jit = 5};
	uint64_t frames[16];
	size_t count;
	uint64_t in_jit = CODE + 16 * 5 + 8, bp = STACK + 8 * 10;

	w.stack[10] = 0;
	w.stack[11] = RA(1);
	assert_int_equal(walk(&w, in_jit, bp, true, frames, &count), WIRE_WALK_COMPLETE);
	assert_int_equal(count, 2);
	w.stack[4] = RA(2); /* below it somebody else returns: frames would be left out */
	assert_int_equal(walk(&w, in_jit, bp, true, frames, &count), WIRE_WALK_NO_ROW);
	assert_int_equal(count, 1);
	w.stack[4] = RA(2) + 1; /* no call before it: a value */
	assert_int_equal(walk(&w, in_jit, bp, true, frames, &count), WIRE_WALK_COMPLETE);
	w.stack[11] = RA(1) + 1; /* nor before what is returned to */
	assert_int_equal(walk(&w, in_jit, bp, true, frames, &count), WIRE_WALK_NO_ROW);
	assert_int_equal(count, 1);
	w.stack[11] = RA(1);
	assert_int_equal(walk(&w, in_jit, bp + 1, true, frames, &count), WIRE_WALK_NO_ROW);
	assert_int_equal(walk(&w, in_jit, STACK - 8, true, frames, &count), WIRE_WALK_NO_ROW);
	assert_int_equal(walk(&w, in_jit, STACK + (1 << 20), true, frames, &count),
			 WIRE_WALK_NO_ROW);
	assert_int_equal(walk(&w, in_jit, 0, true, frames, &count), WIRE_WALK_NO_ROW);

	/* Code that is on its way out says where its caller is. */
	w.epilogue = RA(5);
	w.stack[1] = RA(1);
	assert_int_equal(walk(&w, RA(5), 0x1234, false, frames, &count), WIRE_WALK_COMPLETE);
	assert_int_equal(count, 2);
	assert_int_equal(frames[1], RA(1) - 1);
	w.stack[1] = RA(1) + 1;
	assert_int_equal(walk(&w, RA(5), 0x1234, false, frames, &count), WIRE_WALK_NO_ROW);
	w.epilogue = 0;

	/* A rule found by reading code is checked in the same way. */
	w.rules[4] =
		(struct unwind_rule){.cfa = UNWIND_SP, .cfa_offset = 16, .must_follow_call = 1};
	w.stack[1] = RA(1);
	assert_int_equal(walk(&w, CODE + 16 * 4, 0, true, frames, &count), WIRE_WALK_COMPLETE);
	w.stack[1] = RA(1) - 1;
	assert_int_equal(walk(&w, CODE + 16 * 4, 0, true, frames, &count), WIRE_WALK_NO_ROW);
}

/* Of a runtime that keeps frame pointers, a frame may be made by what its function calls first. */
static void a_frame_that_a_callee_makes_is_not_there_yet(void **state)
{
	(void)state;
	struct world w = {
		.rules = {[1] = {.cfa = UNWIND_END},
			  [4] = {.cfa = UNWIND_SP, .cfa_offset = 8, .must_follow_call = 1},
			  [5] = {.cfa = UNWIND_UNKNOWN, .keeps_fp = 1}}};
	uint64_t frames[16], bp = STACK + 8 * 10;
	size_t count;

	w.stack[0] = RA(5);
	w.stack[11] = RA(1);
	assert_int_equal(walk(&w, CODE + 16 * 4, bp, true, frames, &count), WIRE_WALK_COMPLETE);
	assert_int_equal(count, 3);
	w.stack[1] = RA(2); /* then bp is still that of a caller */
	assert_int_equal(walk(&w, CODE + 16 * 4, bp, true, frames, &count), WIRE_WALK_NO_ROW);
	assert_int_equal(count, 2);
	w.rules[4].cfa_offset = 16; /* a callee with a frame of its own is not the first */
	w.stack[2] = RA(2);
	w.stack[1] = RA(5);
	assert_int_equal(walk(&w, CODE + 16 * 4, bp, true, frames, &count), WIRE_WALK_COMPLETE);
	assert_int_equal(count, 3);
}

/* HotSpot's leaves, whose frame pointer is their caller's until the fourth instruction is done. */
static void a_frame_that_is_being_made_is_not_believed(void **state)
{
	(void)state;
	static const uint64_t making[] = {
		0x10246c894800, /* mov %rbp,0x10(%rsp) */
		0x48ec8b4810,   /* mov %rsp,%rbp */
		0x10c58348ec,   /* add $0x10,%rbp */
	};
	struct world w = {
		.rules = {[1] = {.cfa = UNWIND_END}, [5] = {.cfa = UNWIND_UNKNOWN, .keeps_fp = 1}},
		.epilogue = CODE + 16 * 5};
	uint64_t frames[16], bp = STACK + 8 * 10;
	size_t count;

	w.stack[3] = RA(2); /* who called it, below the frame that bp belongs to */
	w.stack[11] = RA(1);
	for (size_t i = 0; i < sizeof(making) / sizeof(*making); i++) {
		w.code = making[i];
		assert_int_equal(walk(&w, w.epilogue, bp, true, frames, &count), WIRE_WALK_NO_ROW);
		assert_int_equal(count, 1);
	}
	w.code = 0x9090909090909090; /* elsewhere it is */
	assert_int_equal(walk(&w, w.epilogue, bp, true, frames, &count), WIRE_WALK_COMPLETE);
}

static uint64_t before(const char *bytes, size_t len)
{
	uint8_t all[8] = {0x90, 0x90, 0x90, 0x90, 0x90, 0x90, 0x90, 0x90};
	uint64_t word;

	memcpy(all + 8 - len, bytes, len);
	memcpy(&word, all, sizeof(word));
	return word;
}

#define BEFORE(bytes) before(bytes, sizeof(bytes) - 1)

static void calls_are_known_by_their_bytes(void **state)
{
	(void)state;
	const uint64_t calls[] = {
		BEFORE("\xe8\x12\x34\x56\x78"),         /* call x */
		BEFORE("\xff\xd0"),                     /* call *%rax */
		BEFORE("\x41\xff\xd3"),                 /* call *%r11 */
		BEFORE("\xff\x10"),                     /* call *(%rax) */
		BEFORE("\xff\x50\x18"),                 /* call *0x18(%rax) */
		BEFORE("\xff\x54\x24\x08"),             /* call *8(%rsp) */
		BEFORE("\x41\xff\x14\xdc"),             /* call *(%r12,%rbx,8) */
		BEFORE("\xff\x15\x01\x02\x03\x04"),     /* call *x(%rip) */
		BEFORE("\xff\x90\x01\x02\x03\x04"),     /* call *x(%rax) */
		BEFORE("\xff\x94\x24\x01\x02\x03\x04"), /* call *x(%rsp) */
		BEFORE("\xff\x14\xc5\x01\x02\x03\x04"), /* call *x(,%rax,8) */
	};
	const uint64_t others[] = {
		BEFORE("\xe9\x12\x34\x56\x78"), /* jmp */
		BEFORE("\xff\xe0"),             /* jmp *%rax */
		BEFORE("\xff\x25\x01\x02\x03\x04"),
		BEFORE("\x90"),
		BEFORE("\xc3"),
		BEFORE("\xff\x14"), /* an index is missing */
		BEFORE("\xff\x15"),
		BEFORE("\xff\x54\x24"),
	};

	for (size_t i = 0; i < sizeof(calls) / sizeof(*calls); i++)
		assert_true(arch_is_call(calls[i]));
	for (size_t i = 0; i < sizeof(others) / sizeof(*others); i++)
		assert_false(arch_is_call(others[i]));
}

static void rbx_is_found_where_a_callee_saved_it(void **state)
{
	(void)state;
	struct world w = {
		.rules =
			{
				{.cfa = UNWIND_SP,
				 .cfa_offset = 24,
				 .kept_offset = -16}, /* saves it */
				{.cfa = UNWIND_KEPT, .cfa_offset = 24},
				{.cfa = UNWIND_END},
				{.cfa = UNWIND_SP,
				 .cfa_offset = 8,
				 .kept_offset = UNWIND_KEPT_LOST},
			},
	};
	uint64_t frames[16];
	size_t count;

	w.stack[1] = STACK + 8 * 20; /* the rbx of 1, whose CFA is 24 above it */
	w.stack[2] = RA(1);
	w.stack[22] = RA(2);
	assert_int_equal(walk(&w, CODE, 0, true, frames, &count), WIRE_WALK_COMPLETE);
	assert_int_equal(count, 3);
	w.stack[0] = RA(1); /* 3 has used it for something else */
	assert_int_equal(walk(&w, CODE + 16 * 3, 0, true, frames, &count), WIRE_WALK_FAULT);
	assert_int_equal(count, 2);
}

static void a_table_that_is_not_there_is_waited_for(void **state)
{
	(void)state;
	struct world w = {.rules[0] = {.cfa = UNWIND_SP, .cfa_offset = 8}, .pending = true};
	uint64_t frames[16];
	size_t count;

	w.stack[0] = RA(7);
	assert_int_equal(walk(&w, CODE, 0, true, frames, &count), -EAGAIN);
	w.pending = false;
	w.rules[7].cfa = UNWIND_END;
	assert_int_equal(walk(&w, CODE, 0, true, frames, &count), WIRE_WALK_COMPLETE);
}

static void a_signal_frame_gives_all_registers_back(void **state)
{
	(void)state;
	struct world w = {.rules = {{.cfa = UNWIND_SIGNAL},
				    {.cfa = UNWIND_LEAF, .cfa_offset = 8},
				    {.cfa = UNWIND_END}}};
	uint64_t frames[16];
	size_t count;

	w.stack[5 + 2] = STACK + 8 * 40;  /* r10 */
	w.stack[5 + 15] = STACK + 8 * 30; /* rsp */
	w.stack[5 + 16] = CODE + 16; /* rip: the first byte of function 1, not a return address */
	w.stack[40] = RA(2);
	assert_int_equal(walk(&w, CODE, 0, true, frames, &count), WIRE_WALK_COMPLETE);
	assert_int_equal(count, 3);
	assert_int_equal(frames[1], CODE + 16);
}

static void walks_are_bounded(void **state)
{
	(void)state;
	struct world w = {.rules[0] = {.cfa = UNWIND_SP, .cfa_offset = 8},
			  .rules[1] = {.cfa = UNWIND_UNKNOWN},
			  .rules[2] = {.cfa = UNWIND_SP, .cfa_offset = -8}};
	uint64_t frames[16];
	size_t count;

	for (int i = 0; i < WORDS; i++)
		w.stack[i] = RA(0);
	assert_int_equal(walk(&w, CODE, 0, true, frames, &count), WIRE_WALK_CUT);
	assert_int_equal(count, 16);
	w.stack[0] = STACK; /* a frame pointer that points to itself */
	w.stack[1] = RA(1);
	assert_int_equal(walk(&w, CODE + 16, STACK, true, frames, &count), WIRE_WALK_NO_ROW);
	assert_int_equal(count, 2);
	assert_int_equal(walk(&w, CODE + 32, 0, true, frames, &count), WIRE_WALK_NO_ROW);

	/* rsp and rbp that point anywhere */
	unsigned seed = 3;
	for (int i = 0; i < 100000; i++) {
		for (int k = 0; k < 8; k++)
			w.rules[k] = (struct unwind_rule){
				.cfa = (uint8_t)(rand_r(&seed) % (UNWIND_UNSUPPORTED + 1)),
				.fp = (uint8_t)(rand_r(&seed) % (UNWIND_FP_LOST + 1)),
				.cfa_offset =
					rand_r(&seed) % 2 ? rand_r(&seed) : rand_r(&seed) % 128,
				.fp_offset = (int16_t)rand_r(&seed),
			};
		for (int k = 0; k < WORDS; k++)
			w.stack[k] = rand_r(&seed) % 2 ? (uint64_t)RA(rand_r(&seed) % 8)
						       : (uint64_t)(STACK + rand_r(&seed) % 600);
		int r = walk(&w, CODE + (uint64_t)rand_r(&seed) % 128,
			     rand_r(&seed) % 2 ? (uint64_t)(STACK + rand_r(&seed) % 600)
					       : ~0ull - 7,
			     rand_r(&seed) % 2, frames, &count);
		assert_in_range(r, WIRE_WALK_COMPLETE, WIRE_WALK_FAULT);
		assert_true(count <= 16);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(runs_never_overlap),
		cmocka_unit_test(rules_are_followed),
		cmocka_unit_test(a_step_without_a_row_is_proven),
		cmocka_unit_test(a_frame_that_a_callee_makes_is_not_there_yet),
		cmocka_unit_test(a_frame_that_is_being_made_is_not_believed),
		cmocka_unit_test(calls_are_known_by_their_bytes),
		cmocka_unit_test(rbx_is_found_where_a_callee_saved_it),
		cmocka_unit_test(a_table_that_is_not_there_is_waited_for),
		cmocka_unit_test(a_signal_frame_gives_all_registers_back),
		cmocka_unit_test(walks_are_bounded),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
