/*
 * run_times: a histogram of the times of runs, as the kernel's side and ours share it: four buckets
 * for each doubling, exact below 4 ns.
 */
#pragma once

#include <linux/types.h>

#define RUN_TIMES_BUCKETS 252 /* for any number of 64 bits */

struct run_times {      /* of one CPU */
	__u64 began_ns; /* 0: none runs */
	__u64 thread;   /* of which */
	__u64 lost;     /* runs whose beginning or end was not seen */
	__u64 sum_ns;
	__u64 buckets[RUN_TIMES_BUCKETS]; /* runs */
};

static inline __attribute__((always_inline)) __u32 run_times_bucket(__u64 ns)
{
	__u64 rest = ns;
	__u32 log = 0;

	for (__u32 step = 32; step; step /= 2) {
		if (rest >> step) {
			rest >>= step;
			log += step;
		}
	}
	return log < 2 ? (__u32)ns : log * 4 + (__u32)((ns >> (log - 2)) & 3) - 4;
}

/* The least time that falls into it. */
static inline __u64 run_times_start(__u32 bucket)
{
	return bucket < 4 ? bucket : (4ull + bucket % 4) << (bucket / 4 - 1);
}
