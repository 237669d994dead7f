#include "query/timerange.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/duration.h"

/* Numbers below this are seconds: as milliseconds they would be before April 1970. */
#define SECONDS_MAX 10000000000ull
#define MS_MAX      253402300800000ull /* the year 10000 */

static const char understood[] =
	"use now, 5m (so long ago), now-1h, 14:02, 'yesterday 14:02', 2026-11-15, "
	"2026-11-15T14:02:05Z or seconds since 1970";

/* A number of at most `most` digits; a digit too much is left for what comes next to refuse. */
static bool digits(const char **s, int most, uint64_t *ret)
{
	const char *at = *s;
	uint64_t n = 0;

	for (; *at >= '0' && *at <= '9' && most; at++, most--)
		n = n * 10 + (uint64_t)(*at - '0');
	if (at == *s)
		return false;
	*s = at;
	*ret = n;
	return true;
}

static bool duration(const char **s, uint64_t *ret_ms)
{
	uint64_t ns;

	if (duration_take(s, &ns) != 0)
		return false;
	*ret_ms = ns / 1000000;
	return true;
}

static bool relative(const char *s, uint64_t now_ms, uint64_t *ret)
{
	uint64_t at = now_ms, d;

	while (*s) {
		char sign = *s++;
		if ((sign != '-' && sign != '+') || !duration(&s, &d))
			return false;
		if (sign == '-' && d > at)
			return false;
		at = sign == '-' ? at - d : at + d;
		if (at > MS_MAX)
			return false;
	}
	*ret = at;
	return true;
}

/* "5m", "-5m": so long before now. */
static bool ago(const char *s, uint64_t now_ms, uint64_t *ret)
{
	uint64_t ms;

	if (duration_parse_ms(s + (*s == '-'), 0, &ms) != 0 || ms > now_ms)
		return false;
	*ret = now_ms - ms;
	return true;
}

struct clock {
	struct tm tm;
	uint64_t ms;
};

/* "14:02", "14:02:05", "14:02:05.25" */
static bool clock_time(const char **s, struct clock *c)
{
	uint64_t hour, minute, second = 0, ms = 0;

	if (!digits(s, 2, &hour) || *(*s)++ != ':' || !digits(s, 2, &minute))
		return false;
	if (**s == ':') {
		(*s)++;
		if (!digits(s, 2, &second))
			return false;
		if (**s == '.') {
			uint64_t place = 100;
			for ((*s)++; **s >= '0' && **s <= '9'; (*s)++, place /= 10)
				ms += (uint64_t)(**s - '0') * place;
		}
	}
	if (hour > 23 || minute > 59 || second > 60)
		return false;
	c->tm.tm_hour = (int)hour;
	c->tm.tm_min = (int)minute;
	c->tm.tm_sec = (int)second;
	c->ms = ms;
	return true;
}

/* As local time; daylight saving as it is on that day. */
static bool local(const struct clock *c, uint64_t *ret)
{
	struct tm tm = c->tm;

	tm.tm_isdst = -1;
	time_t t = mktime(&tm);
	if (t < 0 || (uint64_t)t > MS_MAX / 1000)
		return false;
	*ret = (uint64_t)t * 1000 + c->ms;
	return true;
}

static void day_of(uint64_t ms, int days_before, struct clock *ret)
{
	time_t t = (time_t)(ms / 1000);

	*ret = (struct clock){};
	localtime_r(&t, &ret->tm);
	ret->tm.tm_mday -= days_before;
	ret->tm.tm_hour = ret->tm.tm_min = ret->tm.tm_sec = 0;
}

/* "Z", "+01:00", "-0530" behind a time: minutes east. */
static bool zone(const char *s, int64_t *ret)
{
	uint64_t hour, minute;
	int64_t sign = *s == '-' ? -1 : 1;

	if ((*s == 'Z' || *s == 'z') && !s[1]) {
		*ret = 0;
		return true;
	}
	/* In a URL that was not encoded, the + has become a space. */
	if (*s != '+' && *s != '-' && *s != ' ')
		return false;
	s++;
	if (!digits(&s, 2, &hour))
		return false;
	if (*s == ':')
		s++;
	if (!digits(&s, 2, &minute) || *s || hour > 23 || minute > 59)
		return false;
	*ret = sign * (int64_t)(hour * 60 + minute);
	return true;
}

/* "2026-11-15", with a time and a zone behind it or not. */
static bool date(const char *s, uint64_t *ret)
{
	struct clock c = {};
	uint64_t year, month, day;
	int64_t east;

	if (!digits(&s, 4, &year) || *s++ != '-' || !digits(&s, 2, &month) || *s++ != '-' ||
	    !digits(&s, 2, &day))
		return false;
	if (year < 1970 || month < 1 || month > 12 || day < 1 || day > 31)
		return false;
	c.tm.tm_year = (int)year - 1900;
	c.tm.tm_mon = (int)month - 1;
	c.tm.tm_mday = (int)day;
	if (*s == 'T' || *s == 't' || *s == ' ') {
		s++;
		if (!clock_time(&s, &c))
			return false;
	}
	if (!*s)
		return local(&c, ret);
	if (!zone(s, &east))
		return false;
	time_t t = timegm(&c.tm);
	int64_t ms = (int64_t)t * 1000 + (int64_t)c.ms - east * 60000;
	if (ms < 0 || (uint64_t)ms > MS_MAX)
		return false;
	*ret = (uint64_t)ms;
	return true;
}

static bool epoch(const char *s, uint64_t *ret)
{
	uint64_t n, ms = 0;

	if (!digits(&s, 15, &n))
		return false;
	if (*s == '.') {
		uint64_t place = 100;
		for (s++; *s >= '0' && *s <= '9'; s++, place /= 10)
			ms += (uint64_t)(*s - '0') * place;
	}
	if (*s || n > MS_MAX)
		return false;
	*ret = n < SECONDS_MAX ? n * 1000 + ms : n;
	return true;
}

/* "today", "yesterday" with a time or not; *s is moved behind the word. */
static bool named_day(const char *s, uint64_t now_ms, uint64_t *ret)
{
	struct clock c;

	if (strncmp(s, "today", 5) == 0) {
		day_of(now_ms, 0, &c);
		s += 5;
	} else if (strncmp(s, "yesterday", 9) == 0) {
		day_of(now_ms, 1, &c);
		s += 9;
	} else {
		return false;
	}
	if (*s == ' ' && (s++, !clock_time(&s, &c)))
		return false;
	return !*s && local(&c, ret);
}

/* A time without a day: on the day of `near`, `days_before` days earlier. */
static bool bare_clock(const char *s, uint64_t near, int days_before, uint64_t *ret)
{
	struct clock c;

	day_of(near, days_before, &c);
	return clock_time(&s, &c) && !*s && local(&c, ret);
}

int timerange_moment(const char *s, uint64_t now_ms, uint64_t *ret_ms,
		     struct timerange_error *ret_err)
{
	if (strncmp(s, "now", 3) == 0 && relative(s + 3, now_ms, ret_ms))
		return 0;
	if (ago(s, now_ms, ret_ms))
		return 0;
	if (named_day(s, now_ms, ret_ms) || date(s, ret_ms) || epoch(s, ret_ms))
		return 0;
	if (bare_clock(s, now_ms, 0, ret_ms)) {
		if (*ret_ms > now_ms)
			bare_clock(s, now_ms, 1, ret_ms);
		return 0;
	}
	snprintf(ret_err->text, sizeof(ret_err->text), "'%.60s' is not a time; %s", s, understood);
	return -EINVAL;
}

int timerange_parse(const char *from, const char *to, uint64_t now_ms, struct timerange *ret,
		    struct timerange_error *ret_err)
{
	struct timerange range = {.to_ms = now_ms};
	bool has_from = from && *from;
	uint64_t next;

	int r = to && *to ? timerange_moment(to, now_ms, &range.to_ms, ret_err) : 0;
	if (r)
		return r;
	range.from_ms = range.to_ms - (range.to_ms > 3600000 ? 3600000 : range.to_ms);
	r = has_from ? timerange_moment(from, now_ms, &range.from_ms, ret_err) : 0;
	if (r)
		return r;
	/* Of a bare clock time, the first one after `from`. */
	if (has_from && to && *to && bare_clock(to, range.from_ms, 0, &next)) {
		if (next <= range.from_ms)
			bare_clock(to, range.from_ms, -1, &next);
		range.to_ms = next;
	}
	if (range.from_ms >= range.to_ms) {
		snprintf(ret_err->text, sizeof(ret_err->text),
			 "the range is empty: it ends (%.60s) before it begins (%.60s)",
			 to && *to ? to : "now", has_from ? from : "an hour earlier");
		return -EINVAL;
	}
	*ret = range;
	return 0;
}
