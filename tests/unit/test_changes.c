/*
 * What changed between two ranges: on made-up recordings whose truth is known. Each has bursts, a
 * load that goes up and down, neighbouring blocks that are alike, and sampling error.
 */
#include "unit/unit.h"

#include <errno.h>
#include <math.h>

#include "base/mem.h"
#include "query/block_test.h"
#include "query/changes.h"
#include "store/store.h"

#define BLOCKS  60
#define NS      1e9
#define SECONDS 60 /* a block */
#define HZ      99.0
#define PAIRS   1000

static uint64_t seed;

static double uniform(void)
{
	seed ^= seed << 13;
	seed ^= seed >> 7;
	seed ^= seed << 17;
	return ((double)(seed >> 11) + 0.5) / 9007199254740992.0;
}

static double normal(void)
{
	return sqrt(-2 * log(uniform())) * cos(2 * M_PI * uniform());
}

static double poisson(double mean)
{
	if (mean > 50)
		return fmax(0, round(mean + sqrt(mean) * normal()));
	double limit = exp(-mean), p = uniform(), n = 0;
	for (; p > limit; n++)
		p *= uniform();
	return n;
}

/* ---- a recording --------------------------------------------------------------------------- */

struct program {
	const char *comm;
	int functions;
	double cpus;  /* that it takes */
	double burst; /* how much each function varies from block to block, relatively … */
	double load;  /* … and the whole program … */
	double alike; /* … and how alike neighbours are: 0 to 1 */
	double wild;  /* how much the third function varies instead; 0: as all */
	int slow;     /* the function that takes `slower` times its time; -1: none */
	double slower;
	double work;    /* times as much to do; all functions alike */
	bool is_bound;  /* it takes as many CPUs whatever it does: the others give way */
	const char *by; /* the slow function's time is spent in small functions it calls */
};

static uint32_t str(struct profile *p, const char *s)
{
	return profile_string(p, s, strlen(s));
}

static uint32_t frame(struct profile *p, uint32_t parent, const char *name, const char *module)
{
	struct module m = {.name = str(p, module)};
	struct frame f = {.name = str(p, name), .module = profile_module(p, &m)};

	return profile_stack(p, parent, profile_frame(p, &f));
}

/* Shares fall off, as they do: the first has the most. */
static double weight(int function)
{
	return 1.0 / (function + 2);
}

static void add(struct profile *p, const struct program *g, int block, uint32_t stack,
		double seconds)
{
	char number[16];
	double n = poisson(seconds * HZ);

	snprintf(number, sizeof(number), "%d", block);
	struct label l[] = {{str(p, "comm"), str(p, g->comm)},
			    {str(p, STORE_BLOCK), str(p, number)}};
	if (n > 0)
		profile_add(p, profile_series(p, l, 2), stack, (uint64_t)n,
			    (uint64_t)(n * NS / HZ));
}

static void record(struct profile *p, const struct program *g)
{
	CLEANUP(freep) double *state = mem_alloc_array((size_t)g->functions + 1, sizeof(*state));
	double fresh = sqrt(1 - g->alike * g->alike), all = 0;

	for (int f = 0; f < g->functions; f++)
		all += weight(f);
	for (int f = 0; f <= g->functions; f++)
		state[f] = normal();
	for (int b = 0; b < BLOCKS; b++) {
		double taken[128], sum = 0;
		for (int f = 0; f <= g->functions; f++)
			state[f] = g->alike * state[f] + fresh * normal();
		double load = exp(g->load * state[g->functions]) * (g->work > 0 ? g->work : 1);
		for (int f = 0; f < g->functions; f++) {
			double burst = f == 2 && g->wild > 0 ? g->wild : g->burst;
			taken[f] = weight(f) / all * exp(burst * state[f]) * load *
				   (f == g->slow ? g->slower : 1);
			sum += taken[f];
		}
		uint32_t main_ = frame(p, frame(p, 0, "_start", g->comm), "main", g->comm);
		for (int f = 0; f < g->functions; f++) {
			char name[32];
			double seconds = taken[f] * g->cpus * SECONDS / (g->is_bound ? sum : 1);
			snprintf(name, sizeof(name), "f%d", f);
			uint32_t caller = frame(p, main_, f % 2 ? "odd" : "even", g->comm);
			uint32_t at = frame(p, caller, name, g->comm);
			if (f != g->slow || !g->by) {
				add(p, g, b, at, seconds);
				continue;
			}
			for (int k = 0; k < 40; k++) {
				snprintf(name, sizeof(name), "%s%d", g->by, k);
				add(p, g, b, frame(p, at, name, g->comm), seconds / 40);
			}
		}
	}
}

static const double hour[BLOCKS] = {
	[0 ... BLOCKS - 1] = SECONDS * NS,
};

/* Finds what changed from one recording of programs to another. */
static void find(const struct program *before, const struct program *now, int programs,
		 struct changes *ret)
{
	struct profile *sides[] = {profile_new(), profile_new()};

	for (int i = 0; i < programs; i++) {
		record(sides[0], &before[i]);
		record(sides[1], &now[i]);
	}
	struct block_side base = {sides[0], BLOCKS, hour}, is = {sides[1], BLOCKS, hour};
	assert_int_equal(changes_find(&base, &is, ret), 0);
	profile_free(sides[0]);
	profile_free(sides[1]);
}

static const struct program usual[] = {
	{.comm = "api", .functions = 40, .cpus = 0.8, .burst = 0.1, .load = 0.2, .slow = -1},
	{.comm = "db", .functions = 25, .cpus = 0.3, .burst = 0.15, .load = 0.1, .slow = -1},
	{.comm = "job", .functions = 15, .cpus = 0.05, .burst = 0.4, .load = 0.5, .slow = -1},
};

/* ---- tests --------------------------------------------------------------------------------- */

static void students_distribution_is_right(void **state)
{
	(void)state;
	/* From tables. */
	static const struct {
		double t, freedom, p;
	} known[] = {{12.706, 1, 0.05},  {2.571, 5, 0.05},   {3.169, 10, 0.01},
		     {2.0739, 22, 0.05}, {1.984, 100, 0.05}, {0, 7, 1},
		     {1, 1, 0.5},        {4.587, 10, 0.001}, {-2.571, 5, 0.05}};

	for (size_t i = 0; i < ARRAY_SIZE(known); i++) {
		double p = block_test_student(known[i].t, known[i].freedom);
		assert_true(fabs(p - known[i].p) < 0.002 * known[i].p);
	}
}

static void levels_are_those_of_benjamini_and_hochberg(void **state)
{
	(void)state;
	double one[] = {0.9, 0.001, 0.02, 0.039, 0.5};
	double none[] = {0.9, 0.3, 0.02};

	/* 0.001 ≤ 0.01, 0.02 ≤ 0.02, 0.039 > 0.03: two of five at 5 %. */
	assert_true(block_test_level(one, 5, 0.05) == 0.02);
	assert_true(block_test_level(none, 3, 0.05) == -1);
	assert_true(block_test_level(NULL, 0, 0.05) == -1);
}

static void few_blocks_are_no_test(void **state)
{
	(void)state;
	double parts[] = {1, 2, 3, 4}, wholes[] = {10, 10, 0, 10};
	struct block_range r = {parts, wholes, 4, 1, true};
	struct block_share s;

	assert_false(block_test_share(&r, &s)); /* one of the four has nothing */
	wholes[2] = 10;
	assert_true(block_test_share(&r, &s));
	assert_true(fabs(s.share - 0.25) < 1e-9);
}

/* A program with work of its own pace, and one that takes all of its CPU whatever it does. */
static void a_function_that_is_slower_is_first(void **state)
{
	(void)state;
	for (int bound = 0; bound < 2; bound++) {
		int first = 0, others = 0;
		for (int i = 0; i < 20; i++) {
			struct program now[ARRAY_SIZE(usual)], before[ARRAY_SIZE(usual)];
			struct changes c;
			seed = 77 + (uint64_t)i * 1000003 + (uint64_t)bound;
			memcpy(now, usual, sizeof(now));
			memcpy(before, usual, sizeof(before));
			now[0].is_bound = before[0].is_bound = bound;
			now[0].burst = before[0].burst = 0.05;
			now[0].slow = 1;
			now[0].slower = 1.2;
			find(before, now, ARRAY_SIZE(usual), &c);
			if (c.functions && strcmp(c.list[0].process, "api") == 0 &&
			    strcmp(c.list[0].function, "f1") == 0) {
				first++;
				assert_true(c.list[0].change > 0.1 && c.list[0].change < 0.3);
				assert_true(c.list[0].seconds_a_day > 0);
				assert_int_equal(c.list[0].path_len, 4);
				assert_string_equal(c.list[0].path[0], "_start");
				assert_string_equal(c.list[0].path[2], "odd");
				assert_string_equal(c.list[0].path[3], "f1");
				others += (int)c.functions - 1;
			}
			changes_done(&c);
		}
		print_message("%s: found %d of 20, %d others\n", bound ? "bound" : "paced", first,
			      others);
		assert_true(first >= 19);
		assert_true(others <= 1);
	}
}

/* The claim: of two ranges that do not differ, one in a hundred at most has anything listed. */
static void what_did_not_change_is_not_listed(void **state)
{
	(void)state;
	for (int alike = 0; alike < 2; alike++) {
		int alarms = 0;
		for (int i = 0; i < PAIRS; i++) {
			struct program both[ARRAY_SIZE(usual)];
			struct changes c;
			seed = 4242 + (uint64_t)i * 7919;
			memcpy(both, usual, sizeof(both));
			for (size_t k = 0; k < ARRAY_SIZE(both); k++)
				both[k].alike = alike ? 0.5 : 0;
			find(both, both, ARRAY_SIZE(both), &c);
			alarms += c.count > 0;
			for (uint32_t k = 0; k < c.count; k++)
				print_message("%s %s: %+.0f %%, p %.2g\n", c.list[k].process,
					      c.list[k].function, 100 * c.list[k].change,
					      c.list[k].probability);
			assert_true(c.tested > 80);
			changes_done(&c);
		}
		print_message("%d false alarms in %d pairs%s\n", alarms, PAIRS,
			      alike ? " whose blocks are alike" : "");
		assert_true(alarms <= CHANGES_RATE * PAIRS);
	}
}

/* Blocks that are alike, or few samples: what the functions have in common tells how they vary. */
static void functions_lean_on_each_other(void **state)
{
	(void)state;
	int first = 0, wild = 0;

	for (int i = 0; i < 20; i++) {
		struct program now[ARRAY_SIZE(usual)], before[ARRAY_SIZE(usual)];
		struct changes c;
		seed = 99 + (uint64_t)i * 1000003;
		memcpy(before, usual, sizeof(before));
		before[0].alike = 0.5;
		memcpy(now, before, sizeof(now));
		now[0].slow = 8; /* 3 % of the program */
		now[0].slower = 1.2;
		find(before, now, ARRAY_SIZE(usual), &c);
		first += c.functions && strcmp(c.list[0].function, "f8") == 0;
		changes_done(&c);
	}
	/* One that does as it likes, among others that are steady, is no change for that. */
	for (int i = 0; i < PAIRS / 5; i++) {
		struct program both[ARRAY_SIZE(usual)];
		struct changes c;
		seed = 1234 + (uint64_t)i * 7919;
		memcpy(both, usual, sizeof(both));
		both[0].burst = 0.03;
		both[0].wild = 0.6;
		find(both, both, ARRAY_SIZE(both), &c);
		wild += c.count > 0;
		changes_done(&c);
	}
	print_message("found %d of 20; %d false alarms of the wild one in %d pairs\n", first, wild,
		      PAIRS / 5);
	assert_true(first >= 13); /* 11 of 20, each on its own */
	assert_true(wild <= CHANGES_RATE * PAIRS / 5);
}

static void more_work_is_a_change_of_the_process(void **state)
{
	(void)state;
	struct program now[ARRAY_SIZE(usual)];
	struct changes c;

	seed = 5;
	memcpy(now, usual, sizeof(now));
	now[1].work = 3;
	find(usual, now, ARRAY_SIZE(usual), &c);
	assert_int_equal(c.functions, 0);
	assert_int_equal(c.count, 1);
	assert_int_equal(c.list[0].kind, CHANGE_PROCESS);
	assert_string_equal(c.list[0].process, "db");
	assert_true(c.list[0].change > 1.5 && c.list[0].change < 2.5);
	changes_done(&c);
}

/* Forty callees, none of which is worth a word: the function that calls them is. */
static void what_is_called_counts_for_its_caller(void **state)
{
	(void)state;
	struct program before[ARRAY_SIZE(usual)], now[ARRAY_SIZE(usual)];
	struct changes c;

	seed = 6;
	memcpy(before, usual, sizeof(before));
	before[0] = (struct program){.comm = "api",
				     .functions = 60,
				     .cpus = 0.2,
				     .burst = 0.05,
				     .load = 0.2,
				     .slow = 3,
				     .slower = 1,
				     .by = "small"};
	memcpy(now, before, sizeof(now));
	now[0].slower = 1.35;
	find(before, now, ARRAY_SIZE(usual), &c);
	assert_true(c.functions >= 1);
	assert_string_equal(c.list[0].function, "f3");
	assert_int_equal(c.list[0].kind, CHANGE_TOTAL);
	assert_int_equal(c.functions, 1);
	changes_done(&c);
}

/* Of another build, functions without names have other addresses; that is no change. */
static void functions_without_names_are_one(void **state)
{
	(void)state;
	struct profile *sides[] = {profile_new(), profile_new()};
	struct program g = usual[0];
	struct changes c;

	seed = 7;
	for (int i = 0; i < 2; i++) {
		record(sides[i], &g);
		for (int b = 0; b < BLOCKS; b++)
			for (int k = 0; k < 3; k++) {
				char name[32];
				snprintf(name, sizeof(name), "[libx.so+0x%d]", i * 50 + k);
				add(sides[i], &g, b, frame(sides[i], 0, name, "libx.so"), 4);
			}
	}
	struct block_side base = {sides[0], BLOCKS, hour}, is = {sides[1], BLOCKS, hour};
	assert_int_equal(changes_find(&base, &is, &c), 0);
	assert_int_equal(c.count, 0);
	changes_done(&c);
	profile_free(sides[0]);
	profile_free(sides[1]);
}

static void nothing_is_said_of_too_little(void **state)
{
	(void)state;
	struct profile *p = profile_new();
	double recorded[BLOCKS] = {NS, NS, NS};
	struct block_side all = {p, BLOCKS, hour}, little = {p, BLOCKS, recorded};
	struct changes c;

	assert_int_equal(changes_find(&all, &little, &c), -ENODATA);
	assert_int_equal(changes_find(&all, &all, &c), 0); /* nothing ran, twice */
	assert_int_equal(c.count, 0);
	changes_done(&c);
	profile_free(p);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(students_distribution_is_right),
		cmocka_unit_test(levels_are_those_of_benjamini_and_hochberg),
		cmocka_unit_test(few_blocks_are_no_test),
		cmocka_unit_test(a_function_that_is_slower_is_first),
		cmocka_unit_test(what_did_not_change_is_not_listed),
		cmocka_unit_test(functions_lean_on_each_other),
		cmocka_unit_test(more_work_is_a_change_of_the_process),
		cmocka_unit_test(what_is_called_counts_for_its_caller),
		cmocka_unit_test(functions_without_names_are_one),
		cmocka_unit_test(nothing_is_said_of_too_little),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
