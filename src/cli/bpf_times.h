/*
 * bpf_times: how long runs of a BPF program take, as far as its sums tell.
 *
 * The kernel keeps a sum and a count, not single times. Read about each millisecond, they give the
 * mean of the runs in that interval: exact for a run that was alone in it, and for many together
 * only what they took on average. The histogram has runs by the mean of their interval, and says
 * how many were alone.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include <jansson.h>

#include "bpf/run_times.h"
#include "collect/bpf_programs.h"

#define BPF_TIMES_SECONDS 3600

struct bpf_times { /* zero-initialised is empty */
	struct bpf_runs first, last, second;
	__u64 buckets[RUN_TIMES_BUCKETS]; /* runs */
	uint64_t runs, alone;             /* in intervals of their own */
	uint64_t readings, intervals;     /* with runs in them */
	float seconds[BPF_TIMES_SECONDS]; /* shares of a CPU, second by second */
	unsigned second_count;
	struct run_times each; /* of a second look that timed each run, if there was one */
	bool has_each;
};

void bpf_times_add(struct bpf_times *t, const struct bpf_runs *now);
void bpf_times_text(const struct bpf_times *t, FILE *out);
json_t *bpf_times_json(const struct bpf_times *t);
