/*
 * sites_wire: how long threads are off their CPU, recorded all the time (`run`): what passes
 * between bpf/sites.bpf.c and user space. Every duration is exact; to keep the cost low, not every
 * wait's stack is walked.
 *
 * A site is a place where a thread leaves its CPU: instruction, stack pointer, system call,
 * state, and the first return addresses on its stack. What it waited there is added up in the
 * kernel, and its stack is walked when the site is met first, and again now and then, by chance. An
 * event is such a walk, and (tid, walk) names it. Time always goes to the site's latest walk.
 * Stacks that differ only in outer frames share a site; since walks are repeated at random, each of
 * them gets about its share over time.
 *
 * The time of a walk is the sum of three counters:
 *	struct site_thread      sites the thread used recently, and its current wait
 *	struct site_value       its other sites
 *	event of the next walk  what the walk that it replaces had by then
 *
 * Young threads, and threads for which the table has no room, have no site: their time is added to
 * slots[0]. If such a thread still waits when user space looks, an iterator finds its stack: that
 * is a walk as well, named by the time at which the wait began.
 */
#pragma once

#include "bpf/offcpu_wire.h"

#define SITES_THREADS     16384 /* a power of two */
#define SITES_PROBES      16    /* slots in which a thread's entry may be */
#define SITES_BEGINNING   1024  /* threads that get an entry at a time: one for each CPU */
#define SITES_TIMED       64    /* one switch in so many is timed; a power of two */
#define SITES_SLOTS       4     /* sites that a thread has at hand; a power of two */
#define SITES_MAX         32768
#define SITES_YOUNG_NS    100000000ull
#define SITES_STATE       3 /* the bits of a key that are its enum offcpu_state */
#define SITES_FOUND       4 /* key of a wait whose stack the iterator found; with its state */
#define SITES_ENDED       0x80000000u
#define SITES_PLACES      2048 /* buckets; a power of two */
#define SITES_PLACE_WAYS  4
#define SITES_WALK_SHIFTS 24 /* one walk in 2^24 periods, at the least */
#define SITES_SOONER      6  /* walk 2^6 times as often if no return address was found … */
#define SITES_NEW_NS      10000000000ull
#define SITES_NEW_SHIFT   3 /* … at least one wait in 2^3, of threads younger than SITES_NEW_NS */

struct site_sums {
	__u64 blocked, runnable; /* ns */
	__u64 periods;           /* that have ended */
};

struct site_key {
	__u64 key; /* a hash of what makes the site, with its state; below SITES_FOUND: no site */
	__u32 tid; /* of the initial pid namespace, as all here */
	__u32 pad;
};

struct site_value {
	__u64 walk;
	struct site_sums sums;
};

/* A site that a thread was at lately, and the sums that were not added to its struct site_value
 * yet. */
struct site_slot {
	__u64 blocked, runnable; /* ns */
	__u32 periods;
	__u32 seen; /* the tag when the stack was last read */
	__u64 key;
};

/*
 * A thread. Only the CPU that it leaves writes it, and mostly two cache lines of it: the members up
 * to `slots`, and one slot. User space maps it, and reads it again if `changes` was odd, or
 * different afterwards. When the thread came back is not here: see struct site_cpu.
 */
struct site_thread {
	__u32 tid;     /* 0: not in use; with SITES_ENDED: for user space to remove */
	__u32 changes; /* odd: being written */
	__u64 left;    /* when its last period began; 0: it has not */
	__u64 delay;   /* sched_info.run_delay when it left */
	__u64 ran;     /* ns on a CPU */
	/* tags[i]: hash that identifies slots[i + 1] without reading the stack. steady[i]: how many
	 * times in a row (up to 255) reading the stack found only this site at that place. */
	__u32 tags[SITES_SLOTS];
	__u8 steady[SITES_SLOTS];
	__u8 doubts;     /* how often a tag was wrong: see sites.bpf.c */
	__u8 slot_index; /* of the period that is open, or was last */
	__u8 has_stack;  /* it has had a site, or the iterator found a stack of it */
	__u8 pad;
	__u64 found_period_began; /* of the period whose stack the iterator found; 0: none */
	/* [0]: without a site; its key is the state of the period. */
	struct site_slot slots[SITES_SLOTS + 1];
	__u64 walks[SITES_SLOTS]; /* of slots[i + 1] */
};

_Static_assert(sizeof(struct site_thread) == 256, "four cache lines");

struct site_cpu { /* what runs on a CPU: written at each switch, `since` before `tid` */
	__u32 tid, unused;
	__u64 since;
	__u64 taken;    /* periods that have ended here */
	__u64 compared; /* when the clocks were, and what follows was copied: see sites.bpf.c */
	__u64 offset;   /* site_control's; 0: the scheduler's clock is not used */
	__u32 shift;    /* site_control's */
	__u32 regs_at;  /* how far the user's registers are from the end of a kernel stack; 0: not
			   known yet */
	__u64 word;     /* scratch: a pointer is stored here to be read as a number */
	__u64 counted;  /* WIRE_RUN_NS at the beginning of a switch that is timed */
};

_Static_assert(sizeof(struct site_cpu) == 64, "a line of the cache");

struct site_control {       /* one; what user space sets: shift, by_scheduler. */
	__u32 shift;        /* a site is walked again once in 2^shift periods */
	__u32 full;         /* there was no room for a site: no walks until user space made some */
	__u32 by_scheduler; /* its clock may be used: it is the same on all CPUs */
	__u32 pad;
	__u64 offset; /* from that clock to CLOCK_MONOTONIC */
};

/* The details of an event. */
struct site_details {
	struct offcpu_details of; /* `previous`: the sums of the walk that this one replaces; its
				     `began` names that walk */
	__u64 previous_periods;
	__u64 walk;
	__u32 tid;
	__u32 is_end; /* the thread has ended, and had no walk: `previous` are its bare sums, and
			 the event's value is what it ran */
};

#define SITES_DETAILS 15
_Static_assert(sizeof(struct site_details) == SITES_DETAILS * sizeof(__u64), "in words");

struct site_found { /* what the iterator says of a thread */
	struct offcpu_found of;
	__u64 walk;
	__u32 tid, pad;
};
