/*
 * arch: what is known of the processor, in one header for each. Nothing else in src/ names its
 * registers, its system calls or its instructions, but for the files that read machine code, each
 * of one architecture (tools/lint has their list, and checks). The BPF programs and user space
 * both include this.
 *
 * Registers go by what they are to a walk:
 *
 *	pc, sp, fp  program counter, stack pointer, frame pointer
 *	kept        one more that calls leave as it is, and some rules go by (x86-64: rbx)
 *	leaf        one that is of use up to the next call, so in a leaf only (x86-64: r10,
 *	            the stack before it was realigned; arm64: the link register)
 *
 * A new architecture is src/arch/NAME.h with what follows, and two lines at the end of this file.
 *
 *	ARCH_NAME, ARCH_ELF_MACHINE
 *	ARCH_KERNEL        the oldest Linux that loads the programs: 5.ARCH_KERNEL
 *	ARCH_HAS_WALK      1: user stacks are walked by unwind tables (bpf/walk.bpf.h).
 *	                   0: not yet. They are the kernel's own walk, by frame pointers
 *	                   that nothing proves, and doctor says so
 *	ARCH_USER_BITS     of an address in user space: what has more is none
 *	ARCH_DWARF_…       the registers by their DWARF numbers; RA: the return address
 *	ARCH_RETURN_AT     where a call leaves the return address, from the CFA
 *	ARCH_SIGNAL_…      where the kernel saves them for a signal, from sp in that frame
 *	ARCH_AROUND        words of code that arch_bare() sees, from 8 bytes before pc on
 *	arch_shape(), …    what instructions tell: declared below
 *
 * In user space:
 *
 *	ARCH_SET_RESULT(ucontext, v)  what a trapped system call returns
 *	ARCH_JUMP(table, slot)        assembly: goes on at the address in table[slot]
 *
 * In BPF programs:
 *
 *	struct arch_regs   the user's registers, as the kernel saves them at the end of
 *	                   its stack when it is entered; there they take ARCH_REGS_BYTES
 *	ARCH_KERNEL_STACK  bytes of that stack
 *	ARCH_PC(regs), …   of such registers, and of those of a perf event
 *	ARCH_MODE(regs)    what runs: ARCH_MODE_IS_USER(), ARCH_MODE_IS_64_BIT()
 *	ARCH_MODE_AT       where that is in a struct arch_regs
 *	ARCH_IS_INTERRUPTED(regs)  they are of something interrupted, and not made up
 *	ARCH_SYSCALL(regs) its number; ARCH_EXECVE, ARCH_EXECVEAT
 *	arch_is_after_syscall(regs)   whether the user's pc stands after a system call
 *	                   that is under way, as a return address does. Not after a fault
 *	                   or an interrupt, nor once the kernel has set it to where a signal
 *	                   handler or a new program begins: then it is the next instruction
 *	                   to run, and the byte before it may be another function's
 *	ARCH_TLS(task)     where a thread keeps what is its own
 *
 * Shared memory: what one side writes and the other reads (rings, tables) is handed over by a store
 * with release and a load with acquire. User space has the compiler's __atomic functions. BPF has
 * such instructions only from 6.15 on, and 5.10 must load the programs, so each architecture says
 * what does the same:
 *
 *	ARCH_LOAD_ACQUIRE(p)      nothing that follows is read before it
 *	ARCH_STORE_RELEASE(p, v)  nothing that came before is written, or read, after it
 *	ARCH_READ_BARRIER()       nothing that follows is read before what came before
 */
#pragma once

#ifndef __bpf__
#include <linux/types.h>
#endif

#define ARCH_INLINE static inline __attribute__((always_inline))

/* Where a function without rows has its return address, seen by the instruction that it is at. */
enum arch_shape {
	ARCH_SHAPE_FRAME, /* nothing special: above what fp points to, if anywhere */
	ARCH_SHAPE_BARE,  /* at sp: before the frame is made, or at the return */
	ARCH_SHAPE_SAVED, /* above the fp that was just pushed */
	ARCH_SHAPES,      /* it cannot be told */
};

/* `code` is the instruction's 8 bytes, from one byte before it on. */
ARCH_INLINE enum arch_shape arch_shape(__u64 code);

/*
 * What an epilogue that code is at tells, straight up to its return: by how much it raises sp
 * first, plus 1, and if it then pops fp; 0: it is at none. Also of code that is returned to:
 * Python's trampolines (-X perf) have nothing but that behind their call. `code` as above.
 */
#define ARCH_POPS_FP 0x100
ARCH_INLINE __u32 arch_epilogue(__u64 code);

/*
 * Whether a function that keeps frame pointers seems to be before it has made its frame (it still
 * has to push fp: V8 and the JVM test something first): ARCH_BEFORE; or to have given it up
 * (between pop and return): ARCH_AFTER. `code` is what is around the instruction that it is at.
 */
enum arch_bare { ARCH_INSIDE, ARCH_AFTER, ARCH_BEFORE };
ARCH_INLINE enum arch_bare arch_bare(const __u64 *code);

/* Whether the 8 bytes before an address end in a call. */
ARCH_INLINE _Bool arch_is_call(__u64 before);

/* What a direct call called that returns to addr; 0 if it was another. `before` as above. */
ARCH_INLINE __u64 arch_called(__u64 addr, __u64 before);

#if defined(__x86_64__) || defined(__TARGET_ARCH_x86)
#include "arch/x86_64.h"
#elif defined(__aarch64__) || defined(__TARGET_ARCH_arm64)
#include "arch/arm64.h"
#else
#error "smolder does not know this architecture: see src/arch/arch.h for what it takes"
#endif
