#include "query/block_test.h"

#include <float.h>
#include <math.h>
#include <stdlib.h>

#include "base/mem.h"

#define GROUPS_LEAST 12  /* of neighbouring blocks: fewer know their scatter too badly */
#define STEPS        500 /* of a continued fraction */
#define LEAN_LEAST   10  /* shares that have something in common, to lean on that */
#define LEAN_MOST    60  /* degrees of freedom that this gives */
#define LEAN_SAMPLES 20
#define FADES_LEAST  0.8  /* what is left of a correlation one block farther on, at most */
#define UNLIKE       0.01 /* the probability at which one is no longer taken to be like them */

/*
 * The regularised incomplete beta function I_x(a, b) by its continued fraction (DLMF 8.17.22),
 * evaluated from the front by Lentz' method. It converges quickly for x < (a + 1) / (a + b + 2).
 */
static double beta_fraction(double x, double a, double b)
{
	double front = exp(lgamma(a + b) - lgamma(a) - lgamma(b) + a * log(x) + b * log1p(-x)) / a;
	double value = 1, c = 1, d = 0;
	for (int i = 0; i < STEPS; i++) {
		int m = i / 2;
		double term = i == 0  ? 1
			      : i % 2 ? -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1))
				      : m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m));
		d = 1 + term * d;
		c = 1 + term / c;
		d = 1 / (fabs(d) < DBL_MIN ? DBL_MIN : d);
		c = fabs(c) < DBL_MIN ? DBL_MIN : c;
		value *= c * d;
		if (i && fabs(c * d - 1) < 1e-12)
			break;
	}
	return front * (value - 1);
}

/* For all x: the other half follows from I_x(a, b) = 1 - I_1-x(b, a). */
static double beta(double x, double a, double b)
{
	if (x <= 0)
		return 0;
	if (x >= 1)
		return 1;
	return x > (a + 1) / (a + b + 2) ? 1 - beta_fraction(1 - x, b, a) : beta_fraction(x, a, b);
}

double block_test_student(double t, double freedom)
{
	return beta(freedom / (freedom + t * t), freedom / 2, 0.5);
}

/* How the sums of `by` neighbouring blocks each scatter around the share; *ret_groups of them. */
static double scatter(const struct block_range *r, double share, uint32_t count, uint32_t by,
		      uint32_t *ret_groups)
{
	double squares = 0, off = 0;
	uint32_t groups = 0;

	for (uint32_t i = 0, n = 0; i < r->count; i++) {
		if (!(r->wholes[i] > 0))
			continue;
		off += r->parts[i] - share * r->wholes[i];
		if (++n % by == 0 || n == count) {
			squares += off * off;
			off = 0;
			groups++;
		}
	}
	*ret_groups = groups;
	return squares * groups / (groups - 1);
}

/* Where what neighbours add goes with groups ever larger: what is missing halves each time. */
static double largest(const double *told, uint32_t levels)
{
	double most = told[0];

	for (uint32_t k = 1; k < levels; k++)
		most = fmax(most, fmax(told[k], k + 1 == levels ? 2 * told[k] - told[k - 1] : 0));
	return most;
}

bool block_test_share(const struct block_range *r, struct block_share *ret)
{
	double part = 0, whole = 0;
	uint32_t count = 0, most = 0;

	for (uint32_t i = 0; i < r->count; i++) {
		part += r->parts[i];
		whole += r->wholes[i];
		count += r->wholes[i] > 0;
	}
	if (count < BLOCK_TEST_LEAST)
		return false;
	*ret = (struct block_share){.share = part / whole, .blocks = count};
	for (uint32_t by = 1; by == 1 || count / by >= GROUPS_LEAST; by *= 2) {
		uint32_t k = ret->levels++;
		double off = scatter(r, part / whole, count, by, &ret->groups[k]);
		ret->told[k] = off / (whole * whole);
		if (ret->told[k] > ret->told[most])
			most = k;
		if (ret->levels == BLOCK_TEST_LEVELS)
			break;
	}
	/* One sample more than there were, so that none at all is not certain. */
	double counted = part / r->grain + 1;
	if (r->is_of_whole)
		counted *= 1 - part / (whole + 2 * r->grain);
	ret->samples = counted;
	ret->chance = counted * r->grain * r->grain / (whole * whole);
	ret->variance = fmax(largest(ret->told, ret->levels), ret->chance);
	ret->freedom = ret->groups[most] - 1;
	return true;
}

/* ---- what shares have in common ------------------------------------------------------------ */

/*
 * A share's scatter is how many times its variance is that of sampling alone. It is expected to be
 * `level` times one more than `burst` for each of its samples in a block, since bursts of one size
 * show the more, the less sampling hides them; and, as neighbouring blocks are alike, `alike` times
 * of what single blocks tell.
 */
struct common {
	double level, burst, alike;
	double freedom; /* how many blocks' worth the expectation is */
};

/* The second derivative of log Γ. */
static double trigamma(double x)
{
	double sum = 0;

	while (x < 6) {
		sum += 1 / (x * x);
		x++;
	}
	double y = 1 / (x * x);
	return sum + 1 / x + y / 2 + y / x * (1.0 / 6 - y * (1.0 / 30 - y / 42));
}

/* The first. */
static double digamma(double x)
{
	double sum = 0;

	while (x < 6) {
		sum -= 1 / x;
		x++;
	}
	double y = 1 / (x * x);
	return sum + log(x) - 0.5 / x - y * (1.0 / 12 - y * (1.0 / 120 - y / 252));
}

static double trigamma_inverse(double y)
{
	double low = 1e-3, high = 1e6;

	for (int i = 0; i < 60; i++) {
		double middle = sqrt(low * high);
		if (trigamma(middle) > y)
			low = middle;
		else
			high = middle;
	}
	return low;
}

static int ascending(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

static double expected(const struct common *c, const struct block_share *s)
{
	return c->level * (1 + c->burst * s->samples / s->blocks);
}

/* What most of them have: the median, which a few that are unlike the rest do not move. */
static double find_burst(struct block_share *const shares[], size_t count)
{
	CLEANUP(freep) double *all = mem_alloc_array(count, sizeof(*all));

	for (size_t i = 0; i < count; i++) {
		const struct block_share *s = shares[i];
		all[i] = (s->told[0] / s->chance - 1) / (s->samples / s->blocks);
	}
	qsort(all, count, sizeof(*all), ascending);
	return fmax(0, all[count / 2]);
}

/* The mean of the logarithms of a level's scatter, and how much they vary beyond what they would
 * if all were alike: by trigamma(freedom / 2). */
static double mean_log(const struct common *c, struct block_share *const shares[], size_t count,
		       uint32_t level, double *ret_excess)
{
	double mean = 0, squares = 0, usual = 0;
	size_t n = 0;

	for (size_t i = 0; i < count; i++) {
		const struct block_share *s = shares[i];
		if (s->levels <= level)
			continue;
		double half = (s->groups[level] - 1) / 2.0, least = s->chance / 1000;
		double one = log(fmax(s->told[level], least) / s->chance / expected(c, s)) -
			     digamma(half) + log(half);
		double off = one - mean;
		mean += off / (double)++n;
		squares += off * (one - mean);
		usual += trigamma(half);
	}
	*ret_excess = n > 1 ? squares / (double)(n - 1) - usual / (double)n : 0;
	return mean;
}

/*
 * How many times of what single blocks tell the variance is, as sums of 1, 2, 4, … blocks tell it.
 * Neighbours correlate, and those farther apart by a factor less with each block; both follow from
 * the first three sums. Off the mean of n blocks, sums of m lack m/n of the whole variance.
 */
static double find_alike(const double *told, uint32_t levels, double blocks)
{
	double all = told[0], own[BLOCK_TEST_LEVELS];

	for (int round = 0; round < 8; round++) {
		for (uint32_t k = 0; k < levels; k++) {
			double lacks = (double)(1u << k) / blocks;
			own[k] = told[k] * (1 - lacks) + all * lacks;
		}
		double next = levels > 1 ? own[1] / own[0] - 1 : 0, fades = next;
		if (levels > 2 && next > 0)
			fades = sqrt(fmax(0, 2 * ((own[2] / own[0] - 1) / next - 1))) - 1;
		fades = fmin(fmax(fades, 0), FADES_LEAST);
		all = fmax(own[0] * (1 + 2 * fmax(next, 0) / (1 - fades)), largest(own, levels));
	}
	return all / told[0];
}

static struct common find_common(struct block_share *const shares[], size_t count)
{
	struct common c = {.level = 1, .burst = find_burst(shares, count), .freedom = LEAN_MOST};
	double excess, unused, told[BLOCK_TEST_LEVELS] = {}, blocks = 0;
	double mean = mean_log(&c, shares, count, 0, &excess);
	uint32_t levels = BLOCK_TEST_LEVELS;

	if (excess > 0)
		c.freedom = fmin(LEAN_MOST, 2 * trigamma_inverse(excess));
	for (size_t i = 0; i < count; i++) {
		levels = MIN(levels, shares[i]->levels);
		blocks += shares[i]->blocks / (double)count;
	}
	for (uint32_t k = 0; k < levels; k++)
		told[k] = exp(mean_log(&c, shares, count, k, &unused));
	c.alike = find_alike(told, levels, blocks);
	c.level = exp(mean + digamma(c.freedom / 2) - log(c.freedom / 2));
	return c;
}

/* How probable a variance so many times the expected one is, if it is like the others'. */
static double probability_of_ratio(double ratio, double freedom, double common)
{
	return beta(common / (common + freedom * ratio), common / 2, freedom / 2);
}

void block_test_lean(struct block_share *const shares[], size_t count)
{
	CLEANUP(freep) struct block_share **known = mem_alloc_array(count + 1, sizeof(*known));
	size_t n = 0;

	for (size_t i = 0; i < count; i++)
		if (shares[i]->samples >= LEAN_SAMPLES)
			known[n++] = shares[i];
	if (n < LEAN_LEAST)
		return;
	struct common c = find_common(known, n);
	for (size_t i = 0; i < count; i++) {
		struct block_share *s = shares[i];
		double usual = expected(&c, s) * s->chance, own = (s->groups[0] - 1) / c.alike;
		double ratio = s->variance / (usual * c.alike);
		if (probability_of_ratio(ratio, s->freedom, c.freedom) < UNLIKE)
			continue;
		s->freedom = own + c.freedom;
		s->variance = fmax(s->chance,
				   (own * s->told[0] + c.freedom * usual) / s->freedom * c.alike);
	}
}

/* ---- the test ------------------------------------------------------------------------------ */

double block_test(const struct block_share *base, double scale, const struct block_share *now)
{
	double a = base->variance * scale * scale, b = now->variance, all = a + b;

	if (!(all > 0))
		return 1;
	double freedom = all * all / (a * a / base->freedom + b * b / now->freedom);
	return block_test_student((now->share - scale * base->share) / sqrt(all), freedom);
}

double block_test_level(double *probabilities, size_t count, double rate)
{
	double level = -1;

	if (!count)
		return level;
	qsort(probabilities, count, sizeof(*probabilities), ascending);
	for (size_t i = 0; i < count; i++)
		if (probabilities[i] <= rate * (double)(i + 1) / (double)count)
			level = probabilities[i];
	return level;
}
