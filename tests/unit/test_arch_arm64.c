/* What arch/arm64.h says of instructions and registers, wherever this is built. */
#include "unit/unit.h"

#include <stdbool.h>
#include <signal.h>
#include <ucontext.h>

#ifndef __aarch64__
#undef __x86_64__
#define __TARGET_ARCH_arm64
#endif
#include "arch/arch.h"

static uint64_t before(uint32_t last)
{
	return (uint64_t)last << 32 | 0xd503201f; /* nop */
}

static void calls_are_known_by_their_instruction(void **state)
{
	static const struct {
		uint32_t code;
		bool is_call;
		int64_t called; /* from 0x10000, which it returns to; 0: not known */
	} t[] = {
		{0x94000000, true, 0x10000 - 4},             /* bl . */
		{0x94000002, true, 0x10000 + 4},             /* bl .+8 */
		{0x97ffffff, true, 0x10000 - 8},             /* bl .-4 */
		{0x95ffffff, true, 0x10000 - 8 + 0x8000000}, /* bl, as far up as there is */
		{0x96000000, true, 0x10000 - 4 - 0x8000000}, /* and as far down */
		{0xd63f0000, true, 0},                       /* blr x0 */
		{0xd63f03c0, true, 0},                       /* blr x30 */
		{0xd63f081f, true, 0},                       /* blraaz x0 */
		{0xd73f0820, true, 0},                       /* blraa x1, x0 */
		{0x14000002, false, 0},                      /* b */
		{0xd61f0000, false, 0},                      /* br x0 */
		{0xd65f03c0, false, 0},                      /* ret */
		{0xd4000001, false, 0},                      /* svc #0 */
		{0xd503201f, false, 0},                      /* nop */
		{0, false, 0},
	};

	(void)state;
	for (size_t i = 0; i < sizeof(t) / sizeof(*t); i++) {
		assert_int_equal(arch_is_call(before(t[i].code)), t[i].is_call);
		assert_int_equal(arch_called(0x10000, before(t[i].code)), (uint64_t)t[i].called);
	}
}

/* Its walk is not there yet: nothing may be taken for a proof that is none. */
static void nothing_is_proven_of_frames(void **state)
{
	const __u64 code[ARCH_CODE_WORDS] = {before(0xd65f03c0), before(0xa9bf7bfd)};

	(void)state;
	assert_int_equal(ARCH_HAS_WALK, 0);
	assert_int_equal(arch_shape(code[0] >> 24), ARCH_SHAPE_UNKNOWN);
	assert_int_equal(arch_epilogue(code[0] >> 24), 0);
	assert_int_equal(arch_frame(code), ARCH_IN_FRAME);
}

static void a_signal_frame_is_as_the_kernel_makes_it(void **state)
{
	(void)state;
#ifdef __aarch64__
	assert_int_equal(ARCH_SIGNAL_REGISTER(0),
			 sizeof(siginfo_t) + offsetof(ucontext_t, uc_mcontext.regs));
	assert_int_equal(ARCH_SIGNAL_PC, sizeof(siginfo_t) + offsetof(ucontext_t, uc_mcontext.pc));
#endif
	assert_int_equal(ARCH_SIGNAL_PC - ARCH_SIGNAL_SP, 8);
	assert_int_equal(ARCH_SIGNAL_SP - ARCH_SIGNAL_FP, 16);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(calls_are_known_by_their_instruction),
		cmocka_unit_test(nothing_is_proven_of_frames),
		cmocka_unit_test(a_signal_frame_is_as_the_kernel_makes_it),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
