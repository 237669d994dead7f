/*
 * duration: parses durations as people write them: "250ms", "1.5h", "1h30m". The units are ns, us,
 * ms, s, m or min, h, d and w, in either case; several are added up.
 */
#pragma once

#include <stdint.h>

#define DURATION_S 1000000000ull /* a second */

/* 0 or -EINVAL. `bare_ns`: what a number without a unit counts; 0: such a number is refused. */
int duration_parse(const char *s, uint64_t bare_ns, uint64_t *ret_ns);

/* The same in milliseconds, rounded. */
int duration_parse_ms(const char *s, uint64_t bare_ns, uint64_t *ret_ms);

/* Parses one at the start of *s, and moves *s behind it. 0 or -EINVAL. */
int duration_take(const char **s, uint64_t *ret_ns);
