/*
 * task_iter: the kernel's own accounts of a thread, as bpf/task_iter.bpf.c reads them: how long it
 * has run and waited for a CPU, and how often it left one. They are always kept, and exact: reading
 * them costs nothing while nobody looks.
 */
#pragma once

#include "bpf/wire.h"

struct task_account {
	__u64 time;     /* when this was read: CLOCK_MONOTONIC */
	__u64 start;    /* when the thread started, by the same clock */
	__u64 ran;      /* ns on a CPU, ever; of one that is on a CPU, up to its last tick */
	__u64 waited;   /* ns for a CPU, ever, also in this very moment */
	__u64 switches; /* how often it left a CPU, ever … */
	__u64 blocks;   /* … of its own accord, mostly to wait for something */
	/* Of the threads of its process that have ended, together; in the first thread's only. */
	__u64 past_ran, past_switches;
	__u64 cgroup; /* kernfs id, where filter.cgroups; else 0 */
	__u32 pid, tid;
	__u8 is_running; /* on a CPU */
	__u8 has_waited; /* the kernel counts `waited` */
	__u8 is_dead;    /* it has ended, and its parent has not asked for that yet */
	__u8 is_ready;   /* it runs, or waits for a CPU */
	__u8 pad[4];
	char comm[WIRE_COMM]; /* as in struct wire_event; not clean */
	char thread[WIRE_COMM];
};

_Static_assert(sizeof(struct task_account) == 120, "no holes");
