/*
 * arm64: see arch.h. What is missing for ARCH_HAS_WALK: a call leaves its return address in the
 * link register (`leaf`), not on the stack, so rules need a place for where it was saved; code that
 * was made at run time and Go's runtime (its g is in a register) need readers of their own; and
 * pointers may be signed (DW_CFA_AARCH64_negate_ra_state).
 */
#pragma once

#define ARCH_NAME        "arm64"
#define ARCH_ELF_MACHINE 183 /* EM_AARCH64 */
#define ARCH_KERNEL      18  /* see ARCH_LOAD_ACQUIRE */
#define ARCH_HAS_WALK    0
#define ARCH_USER_BITS   52

enum {
	ARCH_DWARF_KEPT = 19, /* x19 */
	ARCH_DWARF_FP = 29,   /* x29 */
	ARCH_DWARF_LEAF = 30, /* x30, the link register */
	ARCH_DWARF_RA = 30,
	ARCH_DWARF_SP = 31,
};

#define ARCH_RETURN_AT 0 /* no call leaves it on the stack: no rule that says so is taken */

/* struct rt_sigframe: siginfo (128 bytes), then struct ucontext: x0 to x30, sp and pc. */
#define ARCH_SIGNAL_REGISTER(n) (128 + 184 + 8 * (n))
enum {
	ARCH_SIGNAL_KEPT = ARCH_SIGNAL_REGISTER(19),
	ARCH_SIGNAL_FP = ARCH_SIGNAL_REGISTER(29),
	ARCH_SIGNAL_LEAF = ARCH_SIGNAL_REGISTER(30),
	ARCH_SIGNAL_SP = ARCH_SIGNAL_REGISTER(31),
	ARCH_SIGNAL_PC = ARCH_SIGNAL_REGISTER(32),
};

/* ---- instructions --------------------------------------------------------------------------- */

/* Where no frame was made, or not yet, the return address may be in the link register. */
ARCH_INLINE enum arch_shape arch_shape(__u64 code)
{
	(void)code;
	return ARCH_SHAPES;
}

/* None that leads to an address on the stack. */
ARCH_INLINE __u32 arch_epilogue(__u64 code)
{
	(void)code;
	return 0;
}

#define ARCH_AROUND 4

/* Only arch_shape() could lead here. */
ARCH_INLINE enum arch_bare arch_bare(const __u64 *code)
{
	(void)code;
	return ARCH_INSIDE;
}

/* bl; blr, and its forms with pointer authentication. */
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

#define ARCH_SET_RESULT(context, v) ((context)->uc_mcontext.regs[0] = (__u64)(v))
#define ARCH_JUMP(table, slot)                                                                     \
	"adrp x16, " #table "\nadd x16, x16, :lo12:" #table "\nldr x16, [x16, 8*" #slot "]\nbr "   \
	"x16\n"

#else

/* ---- BPF programs --------------------------------------------------------------------------- */

struct arch_regs { /* the beginning of the kernel's struct pt_regs: the same in all of them */
	__u64 regs[31], sp, pc, pstate;
	__u64 orig_x0;
	__s32 syscallno;
	__u32 pad;
};

struct pt_regs___kernel { /* more of it comes behind, and not always the same */
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

ARCH_INLINE _Bool arch_is_after_syscall(const struct arch_regs *r)
{
	__u32 code = 0;

	if (r->syscallno < 0)
		return 0;
	bpf_probe_read_user(&code, sizeof(code), (void *)(r->pc - sizeof(code)));
	return code == 0xd4000001; /* svc #0 */
}

#define ARCH_KERNEL_STACK 16384

struct thread_struct {
	struct {
		unsigned long tp_value;
	} uw;
} __attribute__((preserve_access_index));

#define ARCH_TLS(task) BPF_CORE_READ(task, thread.uw.tp_value)

/*
 * Loads and stores are seen in any order. An atomic operation that returns what was there is a full
 * barrier: BPF promises that, and JITs make it so. arm64's has them from 5.18 on, so that is the
 * oldest kernel that loads this. (Where the result is not used, the compiler takes a form that
 * returns none and orders nothing: hence the empty asm.)
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

#endif
