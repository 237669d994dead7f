/*
 * wire: what passes between the BPF programs and user space. Both sides include this file.
 *
 * A sample is a fixed head and then its addresses: kernel frames, leaf first, then user frames,
 * leaf first. It is as long as it needs to be.
 */
#pragma once

#ifndef __bpf__
#include <linux/types.h>
#endif

#define WIRE_COMM 16
#define WIRE_FRAMES 127 /* of each kind: kernel.perf_event_max_stack unless raised */

enum wire_flag {
	WIRE_IN_KERNEL = 1,  /* the CPU was in the kernel: the user leaf is a return address */
	WIRE_KERNEL_CUT = 2, /* there were more kernel frames */
	WIRE_USER_CUT = 4,
	WIRE_KTHREAD = 8, /* no user side at all */
};

struct wire_sample {
	__u64 time;   /* CLOCK_MONOTONIC */
	__u64 start;  /* when the process started, CLOCK_BOOTTIME: with pid, which process */
	__u64 weight; /* the event's period: ns for clocks, else how many events it stands for */
	__u64 cgroup; /* kernfs id in the hierarchy that was asked for, 0 if none was */
	__u32 pid;
	__u32 tid;
	__u16 cpu;
	__u16 flags; /* enum wire_flag */
	__u16 kernel_frames;
	__u16 user_frames;
	char comm[WIRE_COMM];   /* of the process: its first thread's name */
	char thread[WIRE_COMM]; /* of the thread */
	/* then __u64 frames[kernel_frames + user_frames] */
};

_Static_assert(sizeof(struct wire_sample) == 80, "the head of a sample");

/*
 * Counters, one per CPU and reason, that only ever grow. taken = what user space receives +
 * ring_full, exactly.
 */
enum wire_counter {
	WIRE_TAKEN,     /* samples that passed the filters */
	WIRE_RING_FULL, /* … and were lost because user space did not keep up */
	WIRE_RUN_NS,    /* the programs' own time, by their own clock */
	WIRE_COUNTERS,
};

/* How the filters are set: written once, before the program loads. */
struct wire_filter {
	__s32 cgroup_subsys; /* index in task->cgroups->subsys[]; -1: the v2 hierarchy */
	__u8 by_pid;         /* only pids in the map `targets` */
	__u8 by_tid;
	__u8 follow;  /* children of targets are targets */
	__u8 by_comm; /* only processes by the name `comm` */
	__u8 by_cgroup;
	__u8 idle; /* the idle task as well */
	__u8 no_kernel;
	__u8 no_user;
	__u64 cgroup; /* kernfs id; its descendants as well */
	char comm[WIRE_COMM];
};
