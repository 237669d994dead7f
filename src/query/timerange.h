/*
 * timerange: parses times as people write them.
 *
 *	now, now-1h, now-1d12h, now-1.5h+5m      durations: base/duration.h
 *	1h, -1h                                  the same as now-1h
 *	14:02, 14:02:05                          the most recent such time
 *	today 14:02, yesterday, yesterday 14:02  a day alone means its beginning
 *	2026-11-15, 2026-11-15 14:02:05.250      local time
 *	2026-11-15T14:02:05Z, …+01:00            RFC 3339
 *	1763186400, 1763186400000                since 1970, in seconds or milliseconds
 */
#pragma once

#include <stdint.h>

struct timerange {
	uint64_t from_ms, to_ms; /* since 1970; from_ms < to_ms */
};

struct timerange_error {
	char text[256]; /* one sentence, which lists the accepted forms */
};

/* 0; -EINVAL with *ret_err. */
int timerange_moment(const char *s, uint64_t now_ms, uint64_t *ret_ms,
		     struct timerange_error *ret_err);

/*
 * Parses a range. If NULL or "", `from` is an hour before `to`, and `to` is now. A clock time in
 * `to` means the first one after `from`, so that --from 23:50 --to 00:10 is twenty minutes. A `to`
 * in the future is kept. -EINVAL also if the range is empty.
 */
int timerange_parse(const char *from, const char *to, uint64_t now_ms, struct timerange *ret,
		    struct timerange_error *ret_err);
