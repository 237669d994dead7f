/*
 * clock: the time as one number.
 *
 * CLOCK_MONOTONIC for durations, CLOCK_REALTIME for the time of day (since 1970; it may be set
 * back).
 */
#pragma once

#include <stdint.h>
#include <time.h>

#define DAY_MS 86400000ull

static inline uint64_t clock_timespec_ns(struct timespec t)
{
	return (uint64_t)t.tv_sec * 1000000000 + (uint64_t)t.tv_nsec;
}

static inline uint64_t clock_ns(clockid_t clock)
{
	struct timespec t;

	clock_gettime(clock, &t);
	return clock_timespec_ns(t);
}

static inline uint64_t clock_ms(clockid_t clock)
{
	return clock_ns(clock) / 1000000;
}
