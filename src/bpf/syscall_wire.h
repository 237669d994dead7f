/*
 * syscall_wire: what passes between bpf/syscall_count.bpf.c and user space.
 *
 * A call is a number from 0 on: that of the machine's own system calls, or of those of 32-bit
 * programs plus SYSCALL_COMPAT. What is counted of one is a slot, which only one CPU writes. There
 * are two generations of slots: the programs write one of them while user space reads the other
 * one.
 */
#pragma once

#ifndef __bpf__
#include <linux/types.h>
#endif

#define SYSCALL_COMPAT  512
#define SYSCALL_CALLS   1024
#define SYSCALL_UNKNOWN 511 /* numbers that are none of a system call are counted as this one */
#define SYSCALL_BUCKETS 40  /* of latency: from 2^i ns on; the last one has no end */
#define SYSCALL_COMM    16

/* Whose a slot is. */
enum syscall_by {
	SYSCALL_BY_NOBODY, /* owners are not told apart */
	SYSCALL_BY_PROCESS,
	SYSCALL_BY_THREAD,
	SYSCALL_BY_CGROUP,
};

/* What is special about a call: a bit set, by call. */
enum syscall_kind {
	SYSCALL_WANTED = 1,    /* it is counted */
	SYSCALL_FORKS = 2,     /* it returns twice: 0 in the child, which did not call it */
	SYSCALL_ENDS = 4,      /* it does not return */
	SYSCALL_NO_RESULT = 8, /* what it "returns" is a register of the code that it returns to */
};

struct syscall_slot {
	__u64 calls;                    /* that returned, and those of SYSCALL_ENDS */
	__u64 errors;                   /* of calls */
	__u64 timed;                    /* of calls: those whose beginning was seen, too */
	__u64 unfinished;               /* the thread ended in it; not in calls */
	__u64 total_ns, min_ns, max_ns; /* of timed */
	__u32 buckets[SYSCALL_BUCKETS]; /* of timed */
};

struct syscall_slot_key {
	__u64 id; /* pid, tid or the kernfs id of a control group */
	__u32 cpu;
	__u16 call;
	__u16 generation;
};

struct syscall_owned_slot {
	struct syscall_slot slot;
	char comm[SYSCALL_COMM]; /* of the process or thread */
};

struct syscall_error_key { /* value: __u64, how many calls failed so */
	__u64 id;
	__u16 call;
	__u16 error;
	__u16 cpu;
	__u16 generation;
};

struct syscall_thread { /* by its tid in the initial namespace */
	__u64 start_ns; /* of the call that it is in; 0: none */
	__u64 id;       /* whose slot that is */
	__u32 call;
	__u32 pad;
};

/* Where in the map `slots` that of a call is. */
static inline __u32 syscall_slot_at(__u32 cpu, __u32 generation, __u32 call)
{
	return (cpu * 2 + generation) * SYSCALL_CALLS + call;
}

/* What is counted, of what struct wire_filter lets pass: set once, before the programs load. */
struct syscall_choice {
	__u32 by;         /* enum syscall_by */
	__u32 target;     /* the pid or tid that is filtered by, if there is only one: saves a
			     lookup */
	__u32 self;       /* our own pid: never counted */
	__u32 program;    /* that becomes a target when it is run; 0: none */
	__u32 cpus;       /* that `slots` has room for */
	__u32 only_error; /* 0: any */
	__u8 only_failed;
	__u8 timed;
	__u8 pad[2];
	/* Numbers of rt_sigreturn, which has lost its number when it ends: a call that ends with a
	 * negative number is counted as this one. */
	__u32 sigreturn, compat_sigreturn;
};

_Static_assert(sizeof(struct syscall_slot) == 216, "no padding");
_Static_assert(sizeof(struct syscall_slot_key) == 16, "no padding in a key");
_Static_assert(sizeof(struct syscall_error_key) == 16, "no padding in a key");
