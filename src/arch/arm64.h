/*
 * arm64: see arch.h. Missing for ARCH_HAS_WALK: a call leaves its return address in the link
 * register (`leaf`) and not on the stack, so unwind rules must be able to say where it was saved;
 * code without tables, JIT code and Go's runtime (which has g in a register) need decoders of their
 * own; and return addresses may be signed (DW_CFA_AARCH64_negate_ra_state).
 */
#pragma once

#define ARCH_NAME             "arm64"
#define ARCH_ELF_MACHINE      183 /* EM_AARCH64 */
#define ARCH_MIN_KERNEL_MINOR 18  /* see ARCH_LOAD_ACQUIRE */
#define ARCH_HAS_WALK         0
#define ARCH_USER_BITS        52
#define ARCH_FUTEX            98

enum {
	ARCH_DWARF_KEPT = 19, /* x19 */
	ARCH_DWARF_FP = 29,   /* x29 */
	ARCH_DWARF_LEAF = 30, /* x30, the link register */
	ARCH_DWARF_RA = 30,
	ARCH_DWARF_SP = 31,
};

/* Calls do not put it on the stack; rules that say so are not accepted. */
#define ARCH_RETURN_AT 0

/* Offsets in struct rt_sigframe: siginfo (128 bytes), then struct ucontext: x0 to x30, sp, pc. */
#define ARCH_SIGNAL_REGISTER(n) (128 + 184 + 8 * (n))
enum {
	ARCH_SIGNAL_KEPT = ARCH_SIGNAL_REGISTER(19),
	ARCH_SIGNAL_FP = ARCH_SIGNAL_REGISTER(29),
	ARCH_SIGNAL_LEAF = ARCH_SIGNAL_REGISTER(30),
	ARCH_SIGNAL_SP = ARCH_SIGNAL_REGISTER(31),
	ARCH_SIGNAL_PC = ARCH_SIGNAL_REGISTER(32),
	ARCH_SIGNAL_MASK = 128 + 40, /* of blocked signals */
};

/* ---- instructions --------------------------------------------------------------------------- */

/* Without a frame, or before it is set up, the return address may be in the link register. */
ARCH_INLINE enum arch_shape arch_shape(__u64 code)
{
	(void)code;
	return ARCH_SHAPE_UNKNOWN;
}

/* No epilogue ends in a return to an address on the stack. */
ARCH_INLINE __u32 arch_epilogue(__u64 code)
{
	(void)code;
	return 0;
}

#define ARCH_CODE_WORDS 4

/* Not called as long as arch_shape() is always unknown. */
ARCH_INLINE enum arch_frame arch_frame(const __u64 *code)
{
	(void)code;
	return ARCH_IN_FRAME;
}

/* bl; blr, also with pointer authentication. */
ARCH_INLINE _Bool arch_is_call(__u64 before)
{
	__u32 last = before >> 32;

	return (last & 0xfc000000) == 0x94000000 || (last & 0xfffffc1f) == 0xd63f0000 ||
	       (last & 0xfefff800) == 0xd63f0800;
}

ARCH_INLINE __u64 arch_called(__u64 addr, __u64 before)
{
	__u32 last = before >> 32;

	if ((last & 0xfc000000) != 0x94000000)
		return 0;
	return addr - 4 + (__u64)(__s64)((__s32)(last << 6) >> 4);
}

#ifndef __bpf__

/* ---- user space ----------------------------------------------------------------------------- */

#define ARCH_SYSCALL_ABI     SYSCALL_ARM64
#define ARCH_COMPAT_ABI      SYSCALL_ARM
#define ARCH_CLONE_CHILD_ARG 4
#define ARCH_CLONE_TLS_ARG   3
#define ARCH_EPOLL_BYTES     16
#define ARCH_CLOCKSOURCE     "arch_sys_counter"

#define ARCH_SET_RESULT(context, v) ((context)->uc_mcontext.regs[0] = (__u64)(v))
#define ARCH_JUMP(table, slot)                                                                     \
	"adrp x16, " #table "\nadd x16, x16, :lo12:" #table "\nldr x16, [x16, 8*" #slot "]\nbr "   \
	"x16\n"

#else

/* ---- BPF programs --------------------------------------------------------------------------- */

struct arch_regs { /* the start of the kernel's struct pt_regs, the same in all versions */
	__u64 regs[31], sp, pc, pstate;
	__u64 orig_x0;
	__s32 syscallno;
	__u32 pad;
};

struct pt_regs___kernel { /* the rest differs between versions */
	__u64 orig_x0;
} __attribute__((preserve_access_index));

#define ARCH_REGS_BYTES bpf_core_type_size(struct pt_regs___kernel)

#define ARCH_PC(r)   ((r)->pc)
#define ARCH_SP(r)   ((r)->sp)
#define ARCH_FP(r)   ((r)->regs[29])
#define ARCH_KEPT(r) ((r)->regs[19])
#define ARCH_LEAF(r) ((r)->regs[30])

#define ARCH_MODE(r)              ((r)->pstate)
#define ARCH_MODE_AT              offsetof(struct arch_regs, pstate)
#define ARCH_MODE_IS_USER(mode)   (((mode)&0xf) == 0)
#define ARCH_MODE_IS_64_BIT(mode) (!((mode)&0x10))
#define ARCH_IS_INTERRUPTED(r)    ((r)->pc != 0)

#define ARCH_SYSCALL(r) ((r)->syscallno)
#define ARCH_EXECVE     221
#define ARCH_EXECVEAT   281

ARCH_INLINE void arch_syscall_args(const struct arch_regs *r, _Bool is_32_bit, __u64 *ret)
{
	for (int i = 0; i < 6; i++)
		ret[i] = is_32_bit ? (__u32)r->regs[i] : r->regs[i];
}

ARCH_INLINE _Bool arch_is_after_syscall(const struct arch_regs *r)
{
	__u32 code = 0;

	if (r->syscallno < 0)
		return 0;
	bpf_probe_read_user(&code, sizeof(code), (void *)(r->pc - sizeof(code)));
	return code == 0xd4000001; /* svc #0 */
}

struct pt_regs___call { /* the part of the saved registers that a system call is in */
	__u64 regs[31], sp, pc, pstate, orig_x0;
	__s32 syscallno;
} __attribute__((preserve_access_index));

#define ARCH_CALL      syscallno
#define ARCH_CALL_ARG0 orig_x0
#define ARCH_CALL_ARG1 regs[1]
#define ARCH_CALL_ARG2 regs[2]
#define ARCH_CALL_ARG3 regs[3]
#define ARCH_CALL_ARG4 regs[4]
#define ARCH_CALL_ARG5 regs[5]
#define ARCH_CALL_MODE pstate
#define ARCH_CALL_PC   pc
#define ARCH_CALL_SP   sp

#define ARCH_CALL_KEPT0 regs[29]
#define ARCH_CALL_KEPT1 regs[19]
#define ARCH_CALL_KEPT2 regs[20]
#define ARCH_CALL_KEPT3 regs[21]
#define ARCH_CALL_KEPT4 regs[22]
#define ARCH_CALL_KEPT5 regs[23]

struct thread_info {
	unsigned long flags;
} __attribute__((preserve_access_index));

#define ARCH_COMPAT_WORD     thread_info.flags
#define ARCH_IS_COMPAT(word) ((word)&1 << 22) /* TIF_32BIT */

#define ARCH_KERNEL_STACK 16384

struct thread_struct {
	struct {
		unsigned long tp_value;
	} uw;
} __attribute__((preserve_access_index));

#define ARCH_TLS(task) BPF_CORE_READ(task, thread.uw.tp_value)

/*
 * The CPU may reorder loads and stores. An atomic operation that returns the old value is a full
 * barrier: BPF guarantees that. arm64's JIT has such operations from Linux 5.18 on, so this is the
 * oldest kernel that can load the programs. (If the result is not used, the compiler chooses a form
 * without result, which is no barrier: hence the empty asm.)
 */
#define ARCH_USED(v)   asm volatile("" : : "r"(v))
#define ARCH_LOAD_ACQUIRE(p)                                                                       \
	({                                                                                         \
		__typeof__(*(p) + 0) arch_loaded = __sync_fetch_and_add(p, 0);                     \
		ARCH_USED(arch_loaded);                                                            \
		arch_loaded;                                                                       \
	})
#define ARCH_STORE_RELEASE(p, v) ARCH_USED(__sync_lock_test_and_set(p, v))
#define ARCH_READ_BARRIER()                                                                        \
	({                                                                                         \
		__u64 arch_word = 0;                                                               \
		ARCH_LOAD_ACQUIRE(&arch_word);                                                     \
	})
#define ARCH_WRITE_BARRIER() ARCH_READ_BARRIER() /* a full one */

#endif
