/*
 * clock: what time it is, in one number.
 *
 * CLOCK_MONOTONIC for how long something takes, CLOCK_REALTIME for what people call the time (since
 * 1970; it may be set back).
 */
#pragma once

#include <stdint.h>
#include <time.h>

#define DAY_MS 86400000ull

static inline uint64_t clock_ns(clockid_t clock)
{
	struct timespec t;

	clock_gettime(clock, &t);
	return (uint64_t)t.tv_sec * 1000000000 + (uint64_t)t.tv_nsec;
}

static inline uint64_t clock_ms(clockid_t clock)
{
	return clock_ns(clock) / 1000000;
}
