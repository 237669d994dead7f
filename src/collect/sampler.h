/*
 * sampler: takes events from one or more sources (source.h) at a time. Loads their BPF programs,
 * attaches them on the CPUs that are online (and that come online later), and drains their rings
 * when told to.
 *
 * Nothing is lost without being counted, by source: taken = handed to the callback + lost.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "bpf/wire.h"
#include "collect/source.h"

struct sampler;

struct sampler_source {
	const struct source_kind *kind;
	uint64_t frequency; /* per second per CPU; 0: use period */
	uint64_t period;    /* one in so many events; ns for a clock */
	int counters_fd;    /* from sampler_counters_create(): continues the counts of an earlier
			       sampler; 0: new counters (fd 0 is never passed) */
};

struct sampler_options {
	struct sampler_source sources[SOURCES_MAX]; /* events tell theirs by its index */
	unsigned source_count;
	struct wire_filter filter;
	const uint32_t *targets; /* pids, or tids when filter.by_tid */
	size_t target_count;
	int cpu;           /* only this one; -1: all */
	size_t ring_bytes; /* of a CPU's ring, a power of two; less on many CPUs and on kernels that
			      take no more; 0: as needed */
	int nice;          /* of the thread that drains, where that is allowed */
};

#define SAMPLER_OPENING_EVENT     "open the perf event"
#define SAMPLER_TELLING_PROCESSES "identify processes by pid"

/* Why sampler_new failed: what was being done, for the user's sentence. */
struct sampler_error {
	const char *doing; /* static: "load the BPF program", SAMPLER_OPENING_EVENT, … */
	const char *event; /* of the source that it was for; NULL: of none */
	char detail[512];  /* the kernel's or libbpf's own words, may be empty */
};

/* Fills it in, with libbpf's words; returns r. For all who load programs. */
int sampler_failed(struct sampler_error *e, const char *doing, int r);

/* 0, or -errno with *ret_err filled in. Samples flow from here on. */
int sampler_new(const struct sampler_options *o, struct sampler **ret,
		struct sampler_error *ret_err);
void sampler_free(struct sampler *s);

/* Counters of one source that outlive a sampler: an fd that its owner closes, or -errno. */
int sampler_counters_create(void);

/* Adds to what was taken of a source: events that user space makes, not the kernel. */
void sampler_add_taken(struct sampler *s, unsigned source, uint64_t more);

/* What all samplers that used them have counted together. */
struct sampler_stats;
void sampler_counters_sum(int fd, struct sampler_stats *ret);

/* The maps that the walk reads (see bpf/unwind.h), as borrowed fds. */
struct sampler_maps {
	int processes, mappings, files, pages, rules, shards, contexts;
};

void sampler_maps(const struct sampler *s, struct sampler_maps *ret);

/* Makes a process (and, with filter.follow, its children) a target while it runs. */
int sampler_add_target(struct sampler *s, uint32_t pid);

/*
 * Hands over the events that are waiting, but for those after `until` (CLOCK_MONOTONIC): each
 * source's and CPU's in order of time. They are borrowed from the rings until sampler_release(),
 * which makes room for new ones.
 */
void sampler_drain(struct sampler *s, uint64_t until, event_fn *fn, void *ctx);
void sampler_release(struct sampler *s);

/* How many bytes the fullest ring had at the last drain, of how many: of the source where that is
 * the largest share. */
uint64_t sampler_fill(const struct sampler *s, uint64_t *ret_room);

/* No more samples from here on; what is in the rings can still be drained. */
void sampler_stop(struct sampler *s);

struct sampler_stats {
	uint64_t taken;
	uint64_t lost;       /* ring full */
	uint64_t lost_value; /* their sum, if the source learns it later: ns off the CPU */
	uint64_t no_room;    /* events of threads beyond the number that the source can follow */
	uint64_t unseen;     /* switches of threads for which the kernel did not run its program */
	uint64_t not_copied; /* stacks of new programs, for want of room: walked less far */
	uint64_t malformed;  /* records that do not make sense: expected to be 0 */
	uint64_t nested;     /* events inside their own source's program: expected to be 0 */
	uint64_t run_ns;     /* the BPF programs' own time */
	uint64_t walk_ns;    /* of that, for user stacks; by sampling */
	uint64_t kernel_walked;    /* kernel stacks, by the BPF program … */
	uint64_t kernel_asked;     /* … and by the kernel itself */
	uint64_t kernel_compared;  /* by both … */
	uint64_t kernel_different; /* … that were not the same: expected to be 0 */
	unsigned cpus;             /* being sampled now */
	uint64_t failed_cpus;      /* came online but could not be sampled … */
	uint64_t beyond_cpus; /* … because they were absent at start: restart to sample them */
};

/* The kind of source number `source`; NULL when there are no more. */
const struct source_kind *sampler_kind(const struct sampler *s, unsigned source);

/* The source itself, for what only its own kind can do (offcpu_source.h). */
struct source *sampler_source(struct sampler *s, unsigned source);

void sampler_stats(const struct sampler *s, unsigned source, struct sampler_stats *ret);
void sampler_stats_sum(const struct sampler *s, struct sampler_stats *ret); /* of all sources */

/*
 * Ticks of the clock that were due so far on all CPUs, and those that did not come to one that was
 * not idle, which no other counter sees: the kernel skips a program while another BPF program runs
 * on that CPU, and a host may give the CPU to others. Both 0 where no source is a clock. Asks
 * each CPU, so not for each drain.
 */
void sampler_ticks(struct sampler *s, uint64_t *ret_due, uint64_t *ret_missed);

/* A CPU came online or went (see cpus.h). */
void sampler_cpu(struct sampler *s, unsigned cpu, bool online);
