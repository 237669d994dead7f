/*
 * arch: everything that depends on the processor, in one header per architecture. No other file in
 * src/ names registers, machines or instructions, except those that decode machine code, each of
 * one architecture (tools/lint has the list, and checks), and syscall/names.c, which knows the
 * calls of all. Included by BPF programs and by user space.
 *
 * Registers are named by their role in a stack walk:
 *
 *	pc, sp, fp  program counter, stack pointer, frame pointer
 *	kept        one more callee-saved register that some unwind rules use (x86-64: rbx)
 *	leaf        a register that is valid only until the next call, so only in the leaf (x86-64:
 *	            r10, which holds sp from before a realignment; arm64: the link register)
 *
 * A new architecture is src/arch/NAME.h with all of the following, two lines at the end of this
 * file, and its two values of enum syscall_abi in syscall/names.h and in the table of names.c.
 *
 *	ARCH_NAME, ARCH_ELF_MACHINE
 *	ARCH_MIN_KERNEL_MINOR  the oldest Linux that can load the programs is 5.this
 *	ARCH_HAS_WALK      1: user stacks are walked by unwind tables (bpf/walk.bpf.h).
 *	                   0: not yet: the kernel walks them by frame pointers, without any
 *	                   proof that these are right, and doctor says so
 *	ARCH_USER_BITS     of an address in user space: larger values are no addresses
 *	ARCH_FUTEX         the number of that system call
 *	ARCH_DWARF_SP, ARCH_DWARF_FP, ARCH_DWARF_KEPT, ARCH_DWARF_LEAF, ARCH_DWARF_RA
 *	                   DWARF numbers of the registers; RA: the return address
 *	ARCH_RETURN_AT     where a call puts the return address, relative to the CFA
 *	ARCH_SIGNAL_PC, ARCH_SIGNAL_SP, ARCH_SIGNAL_FP, ARCH_SIGNAL_KEPT, ARCH_SIGNAL_LEAF,
 *	ARCH_SIGNAL_MASK   where the kernel saves registers and the mask of blocked signals,
 *	                   relative to sp in the signal frame
 *	ARCH_CODE_WORDS    words of code that arch_frame() gets, from 8 bytes before pc on
 *	arch_shape(), arch_epilogue(), arch_frame(), arch_is_call(), arch_called()
 *	                   what instructions tell: declared below
 *
 * In user space:
 *
 *	ARCH_SYSCALL_ABI   whose numbers system calls have: one of enum syscall_abi
 *	                   (syscall/names.h); ARCH_COMPAT_ABI: a 32-bit program's
 *	ARCH_CLONE_CHILD_ARG, ARCH_CLONE_TLS_ARG  which arguments of clone() they are, from 0
 *	ARCH_EPOLL_BYTES   size of struct epoll_event
 *	ARCH_CLOCKSOURCE   the kernel's name of the counter that the scheduler's clock is made of
 *	ARCH_SET_RESULT(ucontext, v)  sets the result of a trapped system call
 *	ARCH_JUMP(table, slot)        assembly: jumps to the address in table[slot]
 *
 * In BPF programs:
 *
 *	struct arch_regs   the user's registers, as the kernel saves them on entry at the end
 *	                   of its stack, where they take ARCH_REGS_BYTES
 *	ARCH_KERNEL_STACK  size of that stack in bytes
 *	ARCH_PC(regs), ARCH_SP(regs), ARCH_FP(regs), ARCH_KEPT(regs), ARCH_LEAF(regs)
 *	                   read such registers, and those of a perf event
 *	ARCH_MODE(regs)    the mode of the CPU: ARCH_MODE_IS_USER(), ARCH_MODE_IS_64_BIT()
 *	ARCH_MODE_AT       its offset in struct arch_regs
 *	ARCH_IS_INTERRUPTED(regs)  whether they are really those of interrupted code
 *	ARCH_SYSCALL(regs) the number of the system call; ARCH_EXECVE, ARCH_EXECVEAT
 *	struct pt_regs___call  the members of the kernel's registers that a system call is in:
 *	                   ARCH_CALL its number, or -1, ARCH_CALL_ARG0 to 5, ARCH_CALL_MODE,
 *	                   ARCH_CALL_PC, ARCH_CALL_SP; ARCH_CALL_KEPT0 to 5: what functions
 *	                   keep for their callers
 *	arch_syscall_args(regs, is_32_bit, ret)  its six arguments, at its entry
 *	arch_is_after_syscall(regs)   whether the user's pc is just after the instruction of
 *	                   a system call in progress, like a return address. Not after a
 *	                   fault or an interrupt, nor once the kernel has set pc to the start
 *	                   of a signal handler or a new program: then it is the next
 *	                   instruction, and the byte before it may be in another function
 *	ARCH_COMPAT_WORD   member of task_struct that tells of a thread in a system call
 *	                   whether that is a 32-bit one, which has other numbers than the
 *	                   machine's own: ARCH_IS_COMPAT(word)
 *	ARCH_TLS(task)     address of a thread's thread-local storage
 *
 * Shared memory that one side writes and the other reads (rings, tables) is handed over by a store
 * with release and a load with acquire. User space uses the compiler's __atomic functions. BPF has
 * such instructions only from Linux 6.15 on, but 5.10 must load the programs, so each architecture
 * defines an equivalent:
 *
 *	ARCH_LOAD_ACQUIRE(p)      later reads are not done before it
 *	ARCH_STORE_RELEASE(p, v)  earlier reads and writes are not done after it
 *	ARCH_READ_BARRIER()       later reads are not done before earlier ones
 *	ARCH_WRITE_BARRIER()      later writes are not done before earlier ones
 */
#pragma once

#ifndef __bpf__
#include <linux/types.h>
#endif

#define ARCH_INLINE static inline __attribute__((always_inline))

/* Where the return address of a function without unwind rows is, judging by its next instruction.
 */
enum arch_shape {
	ARCH_SHAPE_FRAME, /* nothing special: above what fp points to, if it is anywhere */
	ARCH_SHAPE_BARE,  /* at sp: before the frame is set up, or at the return */
	ARCH_SHAPE_SAVED, /* above the fp that was just pushed */
	ARCH_SHAPE_UNKNOWN,
};

/* `code` is 8 bytes of code, from one byte before the next instruction on. */
ARCH_INLINE enum arch_shape arch_shape(__u64 code);

/*
 * 0 if the code is not an epilogue that ends in a return; otherwise 1 + the bytes that it adds to
 * sp, or'ed with ARCH_POPS_FP if it then pops fp. Also for code that is returned to: trampolines of
 * Python (-X perf) have nothing but an epilogue after their call. `code` as above.
 */
#define ARCH_POPS_FP 0x100
ARCH_INLINE __u32 arch_epilogue(__u64 code);

/*
 * Whether a function that keeps frame pointers has its frame: not yet (it will still push fp: V8
 * and the JVM check something first), now, or no more (between pop and return). Judging by the code
 * around its next instruction.
 */
enum arch_frame { ARCH_IN_FRAME, ARCH_AFTER_FRAME, ARCH_BEFORE_FRAME };
ARCH_INLINE enum arch_frame arch_frame(const __u64 *code);

/* Whether the 8 bytes before an address end in a call instruction. */
ARCH_INLINE _Bool arch_is_call(__u64 before);

/* The target of the direct call that returns to addr; 0 if it is no direct call. `before` as above.
 */
ARCH_INLINE __u64 arch_called(__u64 addr, __u64 before);

#if defined(__x86_64__) || defined(__TARGET_ARCH_x86)
#include "arch/x86_64.h"
#elif defined(__aarch64__) || defined(__TARGET_ARCH_arm64)
#include "arch/arm64.h"
#else
#error "smolder does not know this architecture: see src/arch/arch.h for what it takes"
#endif
