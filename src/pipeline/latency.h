/*
 * latency: the time of threads, weighed by how few of their process, or of the machine, run at that
 * moment.
 *
 * Each moment of a thread counts 1/n, where n is the number of its process' threads running then (1
 * if none). A thread that runs alone counts fully; eight in parallel an eighth each. The running
 * part sums to the time in which the process makes progress: shorten that and the process is
 * faster. The same holds for the machine, if n is the number of all processes' threads.
 *
 * When a thread came back to its CPU is told only when it leaves it again. So all is kept until the
 * end, and weighed then. Bounded: beyond the cap nothing more is kept, and that is counted.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "profile/profile.h"

#define LATENCY_MAX (4u << 20) /* 32 bytes each, and as much again while they are weighed */

enum latency_of { LATENCY_OF_PROCESS, LATENCY_OF_MACHINE }; /* whose threads are counted */

struct latency;

/* The profile is borrowed; its series have the label pid. max 0: LATENCY_MAX. */
struct latency *latency_new(struct profile *p, enum latency_of of, uint32_t max);
void latency_free(struct latency *l);

/* Times are CLOCK_MONOTONIC. What a thread ran; what it did else (ctx is the struct latency, so it
 * is an offcpu_span_fn); and a sample, worth `value`. */
void latency_ran(struct latency *l, uint32_t series, uint64_t from, uint64_t to);
void latency_waited(void *ctx, uint32_t series, uint32_t stack, uint64_t from, uint64_t to);
void latency_sample(struct latency *l, uint32_t series, uint32_t stack, uint64_t at,
		    uint64_t value);

/* Adds all to the profile, weighed, and forgets it. */
void latency_sum(struct latency *l);

uint64_t latency_refused(const struct latency *l); /* beyond the cap */
