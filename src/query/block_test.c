#include "query/block_test.h"

#include <float.h>
#include <math.h>

#include "base/mem.h"

#define GROUPS_LEAST 12  /* of neighbouring blocks: fewer know their scatter too badly */
#define STEPS        500 /* of a continued fraction */

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

bool block_test_share(const struct block_range *r, struct block_share *ret)
{
	double part = 0, whole = 0, variance = 0, last = 0, towards = 0;
	uint32_t count = 0, groups, freedom = 0;

	for (uint32_t i = 0; i < r->count; i++) {
		part += r->parts[i];
		whole += r->wholes[i];
		count += r->wholes[i] > 0;
	}
	if (count < BLOCK_TEST_LEAST)
		return false;
	for (uint32_t by = 1; by == 1 || count / by >= GROUPS_LEAST; by *= 2) {
		double one = scatter(r, part / whole, count, by, &groups);
		towards = by > 1 ? 2 * one - last : one;
		if (by == 1 || one > variance) {
			variance = one;
			freedom = groups - 1;
		}
		last = one;
	}
	/* What is missing halves with each doubling: where it goes with groups ever larger. */
	variance = MAX(variance, towards);
	variance = MAX(variance, (part + r->grain) * r->grain);
	*ret = (struct block_share){
		.share = part / whole, .variance = variance / (whole * whole), .freedom = freedom};
	return true;
}

double block_test(const struct block_share *base, double scale, const struct block_share *now)
{
	double a = base->variance * scale * scale, b = now->variance, all = a + b;

	if (!(all > 0))
		return 1;
	double freedom = all * all / (a * a / base->freedom + b * b / now->freedom);
	return block_test_student((now->share - scale * base->share) / sqrt(all), freedom);
}

static int ascending(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
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
