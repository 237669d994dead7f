#include "base/duration.h"

#include <errno.h>
#include <stdbool.h>
#include <string.h>

#include "base/mem.h"

#define MS 1000000ull
#define S  DURATION_S

struct number {
	uint64_t whole;
	double fraction;
};

static bool is_digit(char c)
{
	return c >= '0' && c <= '9';
}

static bool take_number(const char **s, struct number *ret)
{
	struct number n = {};
	double place = 0.1;
	const char *at = *s;

	for (; is_digit(*at); at++)
		if (__builtin_mul_overflow(n.whole, 10, &n.whole) ||
		    __builtin_add_overflow(n.whole, (uint64_t)(*at - '0'), &n.whole))
			return false;
	if (*at == '.' && (at > *s || is_digit(at[1])))
		for (at++; is_digit(*at); at++, place /= 10)
			n.fraction += (*at - '0') * place;
	if (at == *s)
		return false;
	*s = at;
	*ret = n;
	return true;
}

static bool add(const struct number *n, uint64_t unit_ns, uint64_t *sum)
{
	uint64_t whole, part = (uint64_t)(n->fraction * (double)unit_ns + 0.5);

	return !__builtin_mul_overflow(n->whole, unit_ns, &whole) &&
	       !__builtin_add_overflow(*sum, whole, sum) &&
	       !__builtin_add_overflow(*sum, part, sum);
}

/* 0: there is none. */
static uint64_t take_unit(const char **s)
{
	static const struct {
		const char *name;
		uint64_t ns;
	} units[] = {{"ns", 1},       {"us", 1000},     {"ms", MS},
		     {"s", S},        {"m", 60 * S},    {"min", 60 * S},
		     {"h", 3600 * S}, {"d", 86400 * S}, {"w", 7 * 86400 * S}};
	size_t len = strspn(*s, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ");

	for (size_t i = 0; i < ARRAY_SIZE(units); i++)
		if (strlen(units[i].name) == len && strncasecmp(*s, units[i].name, len) == 0) {
			*s += len;
			return units[i].ns;
		}
	return 0;
}

int duration_take(const char **s, uint64_t *ret_ns)
{
	const char *at = *s;
	uint64_t sum = 0;

	do {
		struct number n;
		if (!take_number(&at, &n))
			return -EINVAL;
		uint64_t unit_ns = take_unit(&at);
		if (!unit_ns || !add(&n, unit_ns, &sum))
			return -EINVAL;
	} while (is_digit(*at));
	*s = at;
	*ret_ns = sum;
	return 0;
}

int duration_parse(const char *s, uint64_t bare_ns, uint64_t *ret_ns)
{
	const char *at = s;
	uint64_t ns = 0;
	struct number n;

	if (!bare_ns || !take_number(&at, &n) || *at || !add(&n, bare_ns, &ns)) {
		at = s;
		if (duration_take(&at, &ns) != 0 || *at)
			return -EINVAL;
	}
	*ret_ns = ns;
	return 0;
}

int duration_parse_ms(const char *s, uint64_t bare_ns, uint64_t *ret_ms)
{
	uint64_t ns;
	int r = duration_parse(s, bare_ns, &ns);

	if (!r)
		*ret_ms = ns / MS + (ns % MS >= MS / 2);
	return r;
}
