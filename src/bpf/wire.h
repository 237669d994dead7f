/*
 * wire: what passes between the BPF programs and user space. Both sides include this file.
 *
 *	event   something that happened: a tick of the CPU's clock, a page fault, a wait. It has a
 *	        source (bpf/event.bpf.h, collect/source.h), a value in that source's unit, a time,
 *	        a process, and stacks
 *	record  an event in the bytes of a ring: a fixed head (struct wire_event), then its frames:
 *	        the kernel's, leaf first, then the user's, leaf first. Its length varies
 *	sample  an event whose stack has names, or the sum of several with the same stack: what a
 *	        profile is made of (profile/profile.h). In comments also: an event of a clock
 *
 * The record of a process whose mappings the BPF side does not know yet also has the user's
 * registers and the top of its stack, for user space to walk; those bytes hold secrets and never
 * leave the collector.
 */
#pragma once

#ifndef __bpf__
#include <linux/types.h>
#include <stddef.h>
#include <stdint.h>
#endif

#define WIRE_COMM   16
#define WIRE_TIMED  16  /* one user walk in so many is timed */
#define WIRE_FRAMES 127 /* the kernel's own: kernel.perf_event_max_stack unless raised */
/*
 * Of a deeper user stack the middle is left out. The first WIRE_LEAF_FRAMES frames are kept; behind
 * them the last WIRE_ROOT_FRAMES places are a circle that the walk goes on writing to, up to the
 * root. unwinder.c turns it so that callers follow in order.
 */
#define WIRE_USER_FRAMES  1024
#define WIRE_ROOT_FRAMES  256
#define WIRE_LEAF_FRAMES  (WIRE_USER_FRAMES - WIRE_ROOT_FRAMES)
#define WIRE_WALK_FRAMES  4096 /* where a walk gives up: the program waits meanwhile */
#define WIRE_FRAMES_MASK  2047 /* more than there can be */
#define WIRE_DETAILS      16   /* the most words of its own that a source's record may have */
#define WIRE_STACK_CHUNK  1024
#define WIRE_STACK_CHUNKS 64 /* at most 64 KB of stack travel with an event */

enum wire_flag {
	WIRE_IN_KERNEL = 1,  /* the CPU was in the kernel */
	WIRE_KERNEL_CUT = 2, /* there were more kernel frames */
	/* A kernel thread, or a process in execve or at its end: no user stack. */
	WIRE_NO_USER = 4,
	WIRE_FRAME_POINTERS = 8, /* user frames are the kernel's own walk */
	WIRE_NO_TABLE = 16,      /* the walk came to a file whose table was not there */
	WIRE_SYSCALL = 32,       /* the user leaf's pc stands after the system call it is in */
	WIRE_SPAN = 64,          /* a struct wire_span stands behind the frames */
	WIRE_KTHREAD = 128,      /* a thread of the kernel's */
};

/* What the thread worked on, as it says itself (process/thread_context.h): the span of a trace. */
struct wire_span {
	__u8 trace[16];
	__u8 span[8];
};

#define WIRE_SPAN_WORDS 3

_Static_assert(sizeof(struct wire_span) == WIRE_SPAN_WORDS * 8, "words of a record");

/* How the walk of the user stack ended. */
enum wire_walk {
	WIRE_WALK_NONE,       /* there was none: WIRE_NO_USER, or -K */
	WIRE_WALK_COMPLETE,   /* it reached the outermost frame */
	WIRE_WALK_CUT,        /* there were more than WIRE_WALK_FRAMES */
	WIRE_WALK_NO_MAPPING, /* an address that nothing known covers */
	WIRE_WALK_NO_ROW,     /* an address whose rule is missing, or cannot be followed */
	WIRE_WALK_FAULT,      /* stack memory that could not be read */
	WIRE_WALKS,
};

/*
 * What the value of a frame means. Both kinds are addresses: a record has them in two lists, and
 * assemble.c gives each its kind when it reads them. There is no kind yet for functions of an
 * interpreter, which are not addresses. To add one:
 *
 *	1. a kind here, and a third list in a record, behind the user's addresses: a struct
 *	   wire_frame for each, with the number of the user frame (of the interpreter) that runs
 *	   it; struct wire_event tells how many there are
 *	2. a file in bpf/ that walks the interpreter's frames, called in event.bpf.h
 *	3. in assemble.c: these frames are put in their place among the others
 *	4. in resolve.c: they are named
 */
enum wire_frame_kind {
	WIRE_FRAME_USER,   /* an address in the process; in a caller, of its call instruction */
	WIRE_FRAME_KERNEL, /* the same in the kernel (it travels as the address after the call) */
	WIRE_FRAME_KINDS,
};

struct wire_frame {
	__u64 value;
	__u32 cookie; /* what else a kind needs: none of the above does */
	__u32 kind;   /* enum wire_frame_kind */
};

struct wire_event {
	__u64 time;   /* CLOCK_MONOTONIC */
	__u32 bytes;  /* of the whole record */
	__u16 source; /* index in sampler_options.sources */
	__u16 cpu;
	__u64 process_start; /* CLOCK_BOOTTIME: with pid, which process */
	__u64 exec_id;       /* task->self_exec_id, which execve increments: which program of it */
	__u64 value;  /* in the source's unit: ns of CPU time, or how many faults it stands for */
	__u64 cgroup; /* its control group's kernfs id, where filter.cgroups; else 0 */
	__u64 pc, sp, fp, kept, leaf; /* the user's registers, where there is a copy of the stack */
	__u32 pid;
	__u32 tid;
	__u32 mappings_version; /* of those that the walk used, 0 if none */
	__u16 flags;            /* enum wire_flag */
	__u8 walk;              /* enum wire_walk */
	__u8 details;           /* how many words of the source's own come before the frames */
	__u16 kernel_frames;
	__u16 user_frames;
	__u16 stack_skip;       /* chunks at sp that could not be read: never written to yet */
	__u16 left_out;         /* user frames, behind the first WIRE_LEAF_FRAMES */
	char comm[WIRE_COMM];   /* of the process: its first thread's name */
	char thread[WIRE_COMM]; /* of the thread */
				/*
				 * then __u64 details[details], then __u64 frames[kernel_frames + user_frames], then with
				 * WIRE_SPAN a struct wire_span, then a copy of the stack, to the end
				 */
};

_Static_assert(sizeof(struct wire_event) == 144, "the head of an event");

#ifndef __bpf__
/* The address of the copy of the stack. */
static inline __u64 wire_stack_start(const struct wire_event *s)
{
	return (s->sp & ~(WIRE_STACK_CHUNK - 1ull)) + (__u64)s->stack_skip * WIRE_STACK_CHUNK;
}

/* The words of the source's own: of off-CPU time, struct offcpu_details. */
static inline const void *wire_details(const struct wire_event *e)
{
	return e + 1;
}

/* kernel_frames + user_frames of them. */
static inline const uint64_t *wire_frames(const struct wire_event *s)
{
	return (const uint64_t *)(s + 1) + s->details;
}

static inline size_t wire_frames_bytes(const struct wire_event *e)
{
	return ((size_t)e->kernel_frames + e->user_frames) * sizeof(__u64);
}

/* NULL: the thread did not say. */
static inline const struct wire_span *wire_span_of(const struct wire_event *e)
{
	return e->flags & WIRE_SPAN ? (const struct wire_span *)(wire_frames(e) + e->kernel_frames +
								 e->user_frames)
				    : NULL;
}

/* All but the copy of the stack. */
static inline size_t wire_plain_bytes(const struct wire_event *e)
{
	return sizeof(*e) + e->details * sizeof(__u64) + wire_frames_bytes(e) +
	       (e->flags & WIRE_SPAN ? sizeof(struct wire_span) : 0);
}

/* The copy of the stack, from wire_stack_start() on: how long it is. */
static inline size_t wire_stack_bytes(const struct wire_event *e)
{
	return e->bytes - wire_plain_bytes(e);
}
#endif

#define WIRE_PLAIN_MAX                                                                             \
	(sizeof(struct wire_event) +                                                               \
	 (WIRE_DETAILS + WIRE_FRAMES + 1 + WIRE_USER_FRAMES + WIRE_SPAN_WORDS) * sizeof(__u64))
#define WIRE_EVENT_MAX (WIRE_PLAIN_MAX + WIRE_STACK_CHUNKS * WIRE_STACK_CHUNK)

/*
 * A CPU's ring of a source's events. Positions only grow; where an event is in the ring is its
 * position modulo the ring's size, which is a power of two, and behind the ring is room for the end
 * of the last one. A ring that was read to the end is begun anew, with memory that the cache may
 * still have: `base` is the position from then on.
 */
struct wire_ring {
	__u64 head; /* the end of the last event: stored with release, after it and after base */
	__u64 base;
	__u64 tail;    /* how far user space has read, with release; the only one that it writes */
	__u64 writing; /* not 0: a program is writing an event */
};

/*
 * Counters, one per CPU and reason, that only ever grow. taken = what user space receives +
 * ring_full, exactly.
 */
enum wire_counter {
	WIRE_RUNS,       /* how often the program ran: before any filter, on an idle CPU too */
	WIRE_TAKEN,      /* events that passed the filters */
	WIRE_RING_FULL,  /* … and were lost because user space did not keep up */
	WIRE_LOST_VALUE, /* what those were worth, where that is known only later: ns off the CPU */
	WIRE_NO_ROOM,    /* events of threads beyond those that the source has room for */
	WIRE_UNSEEN,     /* switches of threads for which the kernel did not run our program */
	WIRE_NESTED,     /* dropped: the same source was writing another event on this CPU. Expected
			    to be 0 */
	WIRE_NOT_COPIED, /* stacks not copied, as the ring was too full: walked by frame pointers */
	WIRE_RUN_NS,     /* the programs' own time, by their own clock */
	WIRE_WALK_NS,    /* of that, walking user stacks: measured in one event of WIRE_TIMED */
	WIRE_KERNEL_WALKED,    /* kernel stacks walked by orc.bpf.h … */
	WIRE_KERNEL_ASKED,     /* … and those that the kernel was asked for */
	WIRE_KERNEL_COMPARED,  /* of the former, compared with what the kernel says … */
	WIRE_KERNEL_DIFFERENT, /* … and not the same: expected to be 0, else this CPU stops using
				  ORC */
	WIRE_COUNTERS,
};

struct wire_counts { /* of a CPU */
	__u64 n[WIRE_COUNTERS];
};

/* How the filters are set: written once, before the program loads. */
struct wire_filter {
	__s32 cgroup_subsys; /* index in task->cgroups->subsys[]; -1: the v2 hierarchy */
	__u32 pid_namespace; /* whose pids samples and targets have, by inode; 0: the initial one */
	__u8 by_pid;         /* only pids in the map `targets` */
	__u8 by_tid;
	__u8 follow;  /* children of targets are targets */
	__u8 by_comm; /* only processes by the name `comm` */
	__u8 by_cgroup;
	__u8 idle; /* the idle task as well */
	__u8 no_kernel;
	__u8 no_user;
	__u8 cgroups;      /* samples tell their control group */
	__u8 check_kernel; /* compare every kernel stack that we walk with the kernel's own walk */
	__u8 pad[6];
	__u64 cgroup; /* kernfs id; its descendants as well */
	char comm[WIRE_COMM];
};

/* Where the kernel keeps what it walks its own stacks by: written once, as the filters are. */
#define WIRE_ORC_TRAMPOLINES 3
#define WIRE_ORC_BLOCK_BITS  10
#define WIRE_ORC_ENTRY       6 /* bytes */

struct wire_orc {
	__u64 text, text_bytes; /* of the kernel proper */
	__u64 ips, entries;     /* sorted addresses, and what is true from each on */
	__u32 count;            /* of them; 0: not known, so not used */
	__u32 pad;
	__u64 trampolines[WIRE_ORC_TRAMPOLINES]; /* return addresses that tracers put in place */
};
