/*
 * syscall_counter: counts system calls in the kernel (bpf/syscall_count.bpf.c), from when it is
 * made until it is stopped, and hands over what was counted since the last time.
 *
 * Nothing is lost: what finds no room for details is counted with fewer of them. Calls of an owner
 * for whom there is no room are counted under SYSCALL_COUNTER_OTHERS, errors for which there is
 * none only as errors of their call, and a call of a thread for which there is none is not timed.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "bpf/syscall_wire.h"
#include "bpf/wire.h"
#include "collect/sampler.h"

#define SYSCALL_COUNTER_OTHERS UINT64_MAX

struct syscall_counter;

struct syscall_counter_options {
	struct wire_filter filter;
	const uint32_t *targets; /* pids, or tids when filter.by_tid */
	size_t target_count;
	bool from_exec; /* the target is a program yet to be run: counted from its execve on */
	struct syscall_choice choice; /* but for what it says of processes and CPUs */
	uint8_t kinds[SYSCALL_CALLS];
	uint32_t slots; /* room for so many pairs of owner and call at a time; 0: as needed */
};

/* Called for each CPU that has counted something of that owner (0: everybody) and call. */
struct syscall_sink {
	void *ctx;
	void (*slot)(void *ctx, uint64_t id, uint32_t call, const struct syscall_slot *slot,
		     const char *comm);
	void (*error)(void *ctx, uint64_t id, uint32_t call, int error, uint64_t count);
};

/* 0, or -errno with *ret_err filled in. */
int syscall_counter_new(const struct syscall_counter_options *o, struct syscall_counter **ret,
			struct sampler_error *ret_err);
void syscall_counter_free(struct syscall_counter *c);

/* Hands over what was counted since the last time, exactly once. 0 or -errno. */
int syscall_counter_take(struct syscall_counter *c, const struct syscall_sink *sink);

/* Once it is stopped: calls that were in progress then, if they are timed, and since when
 * (CLOCK_MONOTONIC). */
typedef void syscall_pending_fn(void *ctx, uint64_t id, uint32_t call, uint64_t since_ns);
void syscall_counter_pending(struct syscall_counter *c, syscall_pending_fn *fn, void *ctx);

/* How many calls were not timed, as there were too many threads. */
uint64_t syscall_counter_untimed(const struct syscall_counter *c);

/* Nothing is counted from here on; what was can still be taken. */
void syscall_counter_stop(struct syscall_counter *c);
