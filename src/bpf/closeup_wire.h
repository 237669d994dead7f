/*
 * closeup_wire: what passes between bpf/closeup_calls.bpf.c and user space.
 *
 * Calls are added up by thread, call, how long they may wait, and what came of them.
 */
#pragma once

#ifndef __bpf__
#include <linux/types.h>
#endif

#define CLOSEUP_COMM    16
#define CLOSEUP_SUMS    2048
#define CLOSEUP_THREADS 1024
#define CLOSEUP_PATH    96
#define CLOSEUP_LOCKS   256
#define CLOSEUP_HOLDS   4096

/* How a call says how long it may wait. */
enum closeup_form {
	CLOSEUP_NO_TIMEOUT,
	CLOSEUP_MS,       /* an int of milliseconds; negative: for ever */
	CLOSEUP_TIMESPEC, /* a pointer to one; NULL: for ever */
	CLOSEUP_TIMEVAL,
};

/* How it shows that there was nothing. */
enum closeup_nothing {
	CLOSEUP_NEVER, /* it always does something, or fails */
	CLOSEUP_ZERO,  /* it returns 0: epoll_wait */
	CLOSEUP_AGAIN, /* it fails with EAGAIN: read */
	CLOSEUP_WAITS, /* it does nothing but wait: nanosleep, sched_yield */
	CLOSEUP_FUTEX, /* a futex that is waited for: EAGAIN, or ETIMEDOUT */
};

enum closeup_file { CLOSEUP_NO_FILE, CLOSEUP_OPENS, CLOSEUP_LISTS };

struct closeup_plan { /* of a call */
	__u8 form;    /* enum closeup_form */
	__u8 arg;     /* which argument that is: 0, 2, 3 or 4 */
	__u8 nothing; /* enum closeup_nothing */
	__u8 file;    /* enum closeup_file */
	__u8 path;    /* 1 + the argument that is a path; 0: none is */
	__u8 pad[3];
};

/* How long a call may wait, as its caller says. */
enum closeup_timeout {
	CLOSEUP_UNKNOWN, /* it has none, or it cannot be read */
	CLOSEUP_NONE,    /* 0: it returns at once */
	CLOSEUP_TINY,    /* less than 100 us: hardly worth going to sleep for */
	CLOSEUP_SOME,
	CLOSEUP_FOREVER,
};

enum closeup_result { CLOSEUP_DONE, CLOSEUP_EMPTY, CLOSEUP_FAILED };

struct closeup_key {
	__u32 tid;
	__u32 lock;   /* a lock that was waited for: of its address, the lower half; else 0 */
	__u16 call;   /* as in bpf/syscall_wire.h */
	__u16 error;  /* of CLOSEUP_FAILED */
	__u8 timeout; /* enum closeup_timeout */
	__u8 result;  /* enum closeup_result */
	__u16 pad;
};

_Static_assert(sizeof(struct closeup_key) == 16, "no bytes between");

struct closeup_sum {
	__u64 count, ns;
};

/* A thread had a lock all that time, while others waited for it. */
struct closeup_hold {
	__u64 from, until; /* CLOCK_MONOTONIC */
	__u32 tid;
	__u32 lock; /* as in a key */
};

struct closeup_target { /* written by user space, before it is attached */
	__u32 pid;      /* 0: by name */
	__u32 self;     /* never */
	char comm[CLOSEUP_COMM];
};

struct closeup_counts {
	__u64 calls;               /* of the target; those at the same moment may count as one */
	__u64 proc_lists;          /* of /proc itself */
	__u64 proc_opens;          /* of files in /proc/PID */
	__u64 dropped;             /* calls, locks and holds without room */
	char failed[CLOSEUP_PATH]; /* the last path that a call failed with */
};
