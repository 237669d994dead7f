/* x86-64: see arch.h. */
#pragma once

#define ARCH_NAME             "x86-64"
#define ARCH_ELF_MACHINE      62 /* EM_X86_64 */
#define ARCH_MIN_KERNEL_MINOR 10
#define ARCH_HAS_WALK         1
#define ARCH_USER_BITS        47
#define ARCH_FUTEX            202

enum {
	ARCH_DWARF_KEPT = 3,  /* rbx */
	ARCH_DWARF_FP = 6,    /* rbp */
	ARCH_DWARF_SP = 7,    /* rsp */
	ARCH_DWARF_LEAF = 10, /* r10 */
	ARCH_DWARF_RA = 16,   /* rip */
};

#define ARCH_RETURN_AT (-8)

/* Offsets in struct ucontext, whose registers are in the order of REG_R8, … */
enum {
	ARCH_SIGNAL_LEAF = 40 + 2 * 8,
	ARCH_SIGNAL_FP = 40 + 10 * 8,
	ARCH_SIGNAL_KEPT = 40 + 11 * 8,
	ARCH_SIGNAL_SP = 40 + 15 * 8,
	ARCH_SIGNAL_PC = 40 + 16 * 8,
	ARCH_SIGNAL_MASK = 296, /* of blocked signals */
};

/* ---- instructions --------------------------------------------------------------------------- */

ARCH_INLINE enum arch_shape arch_shape(__u64 code)
{
	__u64 here = code >> 8;
	__u32 three = here & 0xffffff, four = here & 0xffffffff;

	if ((here & 0xff) == 0xc3 || (here & 0xff) == 0xc2 || (here & 0xffff) == 0xc3f3 ||
	    (here & 0xffff) == 0x25ff || four == 0xfa1e0ff3)
		return ARCH_SHAPE_BARE; /* ret, ret n, repz ret, jmp *x(%rip), endbr64 */
	if (four == 0xe5894855 || four == 0xec8b4855) /* push %rbp; mov %rsp,%rbp */
		return ARCH_SHAPE_BARE;
	/* V8 drops its arguments while the return address is in a register: lea
	 * (%rsp,%rcx,8),%rsp; push %r10; ret. */
	if (three == 0x248d48 || three == 0x648d48 || three == 0xc35241 ||
	    (here & 0xfff8) == 0xc350)
		return ARCH_SHAPE_UNKNOWN;
	if ((code & 0xff) == 0x55 && (three == 0xe58948 || three == 0xec8b48))
		return ARCH_SHAPE_SAVED;
	/* HotSpot's leaves make room first: sub $n,%rsp; mov %rbp,m(%rsp); mov %rsp,%rbp;
	 * add $m,%rbp. Until then %rbp is the caller's. */
	if (four == 0x246c8948 || three == 0xe58948 || three == 0xec8b48 || three == 0xc58348)
		return ARCH_SHAPE_UNKNOWN;
	return ARCH_SHAPE_FRAME;
}

ARCH_INLINE __u32 arch_epilogue(__u64 code)
{
	__u64 here = code >> 8;
	__u32 raise = 0;

	if ((here & 0xffffff) == 0xc48348) { /* add $n,%rsp */
		raise = here >> 24 & 0xff;
		here >>= 32;
		if (raise & 0x87)
			return 0;
	}
	if ((here & 0xff) == 0xc3)
		return raise + 1;
	return (here & 0xffff) == 0xc35d ? (raise + 1) | ARCH_POPS_FP : 0;
}

#define ARCH_CODE_WORDS 4 /* 8 bytes before the instruction, and 24 from it on */

ARCH_INLINE __u32 arch_four(const __u64 *code, int at)
{
	return code[at / 8] >> (at % 8 * 8) |
	       (at % 8 > 4 ? code[at / 8 + 1] << (64 - at % 8 * 8) : 0);
}

/* Not 0 if one of the bytes of the word has this value. */
ARCH_INLINE __u64 arch_has_byte(__u64 word, __u8 byte)
{
	word ^= byte * 0x0101010101010101ull;
	return (word - 0x0101010101010101ull) & ~word & 0x8080808080808080ull;
}

ARCH_INLINE enum arch_frame arch_frame(const __u64 *code)
{
	/* Without a branch per byte: the verifier would try all combinations. */
	__u64 popped = arch_has_byte(code[0], 0x5d) | arch_has_byte(code[0], 0xc9);
	__u64 returns = 0;

	for (int i = 1; i < ARCH_CODE_WORDS; i++)
		returns |= arch_has_byte(code[i], 0xc3) | arch_has_byte(code[i], 0xc2);
	for (int i = 8; i < 8 * ARCH_CODE_WORDS - 4; i++) {
		__u32 four = arch_four(code, i);
		if (four == 0xe5894855 || four == 0xec8b4855)
			return ARCH_BEFORE_FRAME;
	}
	return popped && returns ? ARCH_AFTER_FRAME : ARCH_IN_FRAME;
}

/* `call rel32`, or `call *` of any form. */
ARCH_INLINE _Bool arch_is_call(__u64 before)
{
	__u8 b7 = before >> 8, b6 = before >> 16, b5 = before >> 24, b4 = before >> 32,
	     b3 = before >> 40, b2 = before >> 48, b1 = before >> 56;

	if (b5 == 0xe8)
		return 1;
	/* ff /2: the upper two and lower three bits of the second byte tell what follows. */
	if (b2 == 0xff && (b1 & 0x38) == 0x10)
		return (b1 & 0xc0) == 0xc0 || ((b1 & 0xc0) == 0 && (b1 & 7) != 4 && (b1 & 7) != 5);
	if (b3 == 0xff && (b2 & 0x38) == 0x10)
		return ((b2 & 0xc0) == 0x40 && (b2 & 7) != 4) || (b2 == 0x14 && (b1 & 7) != 5);
	if (b4 == 0xff && b3 == 0x54)
		return 1;
	if (b6 == 0xff && (b5 & 0x38) == 0x10)
		return ((b5 & 0xc0) == 0x80 && (b5 & 7) != 4) || b5 == 0x15;
	return b7 == 0xff && (b6 == 0x94 || (b6 == 0x14 && (b5 & 7) == 5));
}

ARCH_INLINE __u64 arch_called(__u64 addr, __u64 before)
{
	return (before >> 24 & 0xff) == 0xe8 ? addr + (__u64)(__s64)(__s32)(before >> 32) : 0;
}

#ifndef __bpf__

/* ---- user space ----------------------------------------------------------------------------- */

#define ARCH_SYSCALL_ABI     SYSCALL_X86_64
#define ARCH_COMPAT_ABI      SYSCALL_I386
#define ARCH_CLONE_CHILD_ARG 3
#define ARCH_CLONE_TLS_ARG   4
#define ARCH_EPOLL_BYTES     12 /* packed, on this architecture alone */
#define ARCH_CLOCKSOURCE     "tsc"

#define ARCH_SET_RESULT(context, v) ((context)->uc_mcontext.gregs[REG_RAX] = (v))
#define ARCH_JUMP(table, slot)      "jmp *" #table "+8*" #slot "(%rip)\n"

#else

/* ---- BPF programs --------------------------------------------------------------------------- */

#define arch_regs       pt_regs
#define ARCH_REGS_BYTES sizeof(struct pt_regs)

#define ARCH_PC(regs)   ((regs)->rip)
#define ARCH_SP(regs)   ((regs)->rsp)
#define ARCH_FP(regs)   ((regs)->rbp)
#define ARCH_KEPT(regs) ((regs)->rbx)
#define ARCH_LEAF(regs) ((regs)->r10)

#define ARCH_MODE(regs)           ((regs)->cs)
#define ARCH_MODE_AT              offsetof(struct pt_regs, cs)
#define ARCH_MODE_IS_USER(mode)   ((mode)&3)
#define ARCH_MODE_IS_64_BIT(mode) ((mode) == 0x33)
#define ARCH_IS_INTERRUPTED(regs) ((regs)->eflags & 2) /* this bit is always 1 */

#define ARCH_SYSCALL(regs) ((regs)->orig_rax)
#define ARCH_EXECVE        59
#define ARCH_EXECVEAT      322

/* The six arguments of the system call, at its entry; is_32_bit: in the 32-bit convention. */
ARCH_INLINE void arch_syscall_args(const struct pt_regs *regs, _Bool is_32_bit, __u64 *ret)
{
	ret[0] = is_32_bit ? (__u32)regs->rbx : regs->rdi;
	ret[1] = is_32_bit ? (__u32)regs->rcx : regs->rsi;
	ret[2] = is_32_bit ? (__u32)regs->rdx : regs->rdx;
	ret[3] = is_32_bit ? (__u32)regs->rsi : regs->r10;
	ret[4] = is_32_bit ? (__u32)regs->rdi : regs->r8;
	ret[5] = is_32_bit ? (__u32)regs->rbp : regs->r9;
}

ARCH_INLINE _Bool arch_is_after_syscall(const struct pt_regs *regs)
{
	__u16 code = 0;

	if ((long)regs->orig_rax < 0)
		return 0;
	if (regs->rcx == regs->rip) /* the instruction sets rcx so, except with FRED */
		return 1;
	bpf_probe_read_user(&code, sizeof(code), (void *)(regs->rip - sizeof(code)));
	return code == 0x050f; /* syscall */
}

struct pt_regs___call { /* the part of the saved registers that a system call is in */
	unsigned long r15, r14, r13, r12, bp, bx;
	unsigned long r10, r9, r8, di, si, dx, orig_ax, ip, cs, sp;
} __attribute__((preserve_access_index));

#define ARCH_CALL      orig_ax
#define ARCH_CALL_ARG0 di
#define ARCH_CALL_ARG1 si
#define ARCH_CALL_ARG2 dx
#define ARCH_CALL_ARG3 r10
#define ARCH_CALL_ARG4 r8
#define ARCH_CALL_ARG5 r9
#define ARCH_CALL_MODE cs
#define ARCH_CALL_PC   ip
#define ARCH_CALL_SP   sp

#define ARCH_CALL_KEPT0 bx
#define ARCH_CALL_KEPT1 bp
#define ARCH_CALL_KEPT2 r12
#define ARCH_CALL_KEPT3 r13
#define ARCH_CALL_KEPT4 r14
#define ARCH_CALL_KEPT5 r15

struct thread_info {
	__u32 status;
} __attribute__((preserve_access_index));

#define ARCH_COMPAT_WORD     thread_info.status
#define ARCH_IS_COMPAT(word) ((word)&2) /* TS_COMPAT: by int 0x80, or of 32-bit code */

#define ARCH_KERNEL_STACK 16384

struct thread_struct {
	unsigned long fsbase;
} __attribute__((preserve_access_index));

#define ARCH_TLS(task) BPF_CORE_READ(task, thread.fsbase)

/* The CPU reorders nothing that matters here (only a load before an earlier store): so only the
 * compiler has to be stopped. */
#define ARCH_LOAD_ACQUIRE(p)                                                                       \
	({                                                                                         \
		__typeof__(*(p) + 0) arch_loaded = *(const volatile __typeof__(*(p)) *)(p);        \
		barrier();                                                                         \
		arch_loaded;                                                                       \
	})
#define ARCH_STORE_RELEASE(p, v)                                                                   \
	({                                                                                         \
		barrier();                                                                         \
		*(volatile __typeof__(*(p)) *)(p) = (v);                                           \
	})
#define ARCH_READ_BARRIER()  barrier()
#define ARCH_WRITE_BARRIER() barrier()

#endif
