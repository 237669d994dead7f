/*
 * offcpu_wire: what passes between bpf/offcpu.bpf.c and user space beside the events themselves.
 *
 * A thread that leaves its CPU begins a period off it, until it is back: blocked first, then, once
 * it was woken, runnable, which is to wait for a CPU. One that was made to leave is runnable from
 * the beginning. (tid, when it began) tells a period from all others.
 *
 * An event is written when a period begins: that is when its stacks can be walked. How long it was
 * is known when it has ended, and how much of it was blocked (the kernel counts what it was
 * runnable, but only after the tracepoint) when the thread leaves a CPU once more. So each event
 * also has the durations of the thread's previous period, and user space puts the two together.
 *
 * What is on its way is in the map `threads`, by tid of the initial pid namespace. If the ring has
 * no room for an event, its period will have no stack: it is counted when it has ended
 * (WIRE_LOST_VALUE), and the durations that the event should have reported go with the thread's
 * next one. User space reads the last ones from the map.
 *
 * The value of an event is se.sum_exec_runtime: how long the thread has run by then, ever.
 */
#pragma once

#include "bpf/wire.h"

#define OFFCPU_THREADS_MAX 32768
#define OFFCPU_ARGS        6

enum offcpu_state {
	OFFCPU_NONE, /* no period begins: the thread has ended, or this is a wake-up */
	OFFCPU_SLEEPING,
	OFFCPU_UNINTERRUPTIBLE,
	OFFCPU_RUNNABLE,
	OFFCPU_STATES,
};

enum offcpu_flag {
	OFFCPU_FOUND = 1,      /* the thread was off its CPU before it was known: see
				  struct offcpu_found */
	OFFCPU_AFTER_LOSS = 2, /* events of the thread were lost just before this one */
};

struct offcpu_period { /* one that has ended */
	__u64 began;   /* 0: there is none */
	__u64 ns;
	__u64 runnable_ns; /* of that */
};

/* The details of an event. */
struct offcpu_details {
	struct offcpu_period previous; /* the thread's last period that has ended */
	__u64 args[OFFCPU_ARGS];       /* of the system call */
	__s32 syscall;                 /* -1: none, or one of a 32-bit program */
	__u32 holder; /* tid, in its own pid namespace, of who has the lock; 0: not known */
	__u64 woken_period_began; /* of a wake-up: the start of the period that it ended; else 0 */
	__u32 wakee;   /* … and the thread that it woke: tid as that thread's events have it */
	__u8 state;    /* enum offcpu_state */
	__u8 is_first; /* `previous` is from the thread's creation until it first ran: no stack */
	__u8 flags;    /* enum offcpu_flag */
	__u8 pad;
};

#define OFFCPU_DETAILS 12
_Static_assert(sizeof(struct offcpu_details) == OFFCPU_DETAILS * sizeof(__u64), "in words");

/* A thread, in the map `threads`: one cache line. */
struct offcpu_thread {
	struct offcpu_period previous; /* not reported yet, as the ring was full; began 0: none */
	__u64 left;                    /* when its last period began; 0: it has ended */
	__u64 back;                    /* … and ended; 0: not yet */
	__u64 delay;                   /* sched_info.run_delay when it left */
	__u64 ran;                     /* … and se.sum_exec_runtime */
	__u32 tid;                     /* as its events have it */
	__u8 state;                    /* of that period: enum offcpu_state */
	__u8 lost;                     /* that period has no stack */
	__u16 switches; /* how often it had left a CPU by then: the last bits of it */
};

_Static_assert(sizeof(struct offcpu_thread) == 64, "one line of the cache");

/*
 * What the iterators write. The program offcpu_found: one of these for each thread that is already
 * off its CPU when a recording begins. The program offcpu_roster: one for every thread, without the
 * frames; there `previous` is from the thread's creation until it first ran, if it did; is_first:
 * it has not left a CPU yet; the state is OFFCPU_NONE if it is on one.
 */
struct offcpu_found {
	struct wire_event event; /* the user's stack is left to user space, but for 32-bit code */
	struct offcpu_details details; /* … and the holder: its memory is not at hand here */
	__u64 frames[WIRE_FRAMES + 1];
};

#define OFFCPU_ROSTER_BYTES (sizeof(struct wire_event) + sizeof(struct offcpu_details))
_Static_assert(sizeof(struct offcpu_found) ==
		       OFFCPU_ROSTER_BYTES + (WIRE_FRAMES + 1) * sizeof(__u64),
	       "all but the frames");
