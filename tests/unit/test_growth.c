/*
 * What a profile that only grows has grown by, and what tells that a program was started anew.
 */
#include "unit/unit.h"

#include "base/mem.h"
#include "ingest/growth.h"

#define TYPE "memory:alloc_space:bytes:space:bytes"

struct had { /* a function, and what it is worth */
	const char *name;
	uint64_t count, value;
};

/* A profile of one sample type; ends with a name of NULL. */
static void fill(struct pushed *p, const struct had *all, const char *sample_type)
{
	const struct pushed_labels none = {};
	const struct pushed_about about = {.labels = &none, .now_ms = 1794733200000ull};
	struct profile *of = profile_new();
	struct pushed_type type = {};

	snprintf(type.name, sizeof(type.name), "memory");
	snprintf(type.sample_type, sizeof(type.sample_type), "%s", sample_type);
	snprintf(type.unit, sizeof(type.unit), "bytes");
	snprintf(type.period_type, sizeof(type.period_type), "space");
	snprintf(type.period_unit, sizeof(type.period_unit), "bytes");
	for (; all->name; all++) {
		struct frame f = {.name = profile_string(of, all->name, strlen(all->name))};
		uint32_t stack = profile_stack(of, 0, profile_frame(of, &f));
		profile_add(of, 0, stack, all->count, all->value);
	}
	assert_true(pushed_add(p, of, &type, &about));
}

/* What `to` has grown by since `from`, by its samples: value and count. */
static uint32_t grown(const struct had *from, const struct had *to, uint64_t ret[][2],
		      bool *ret_restarted)
{
	struct growth *known = NULL, *next = NULL;
	struct pushed first = {}, then = {};

	fill(&first, from, "alloc_space");
	assert_true(growth_since(NULL, &first, &known, ret_restarted));
	assert_int_equal(first.count, 0); /* there is nothing to compare it with */
	assert_false(*ret_restarted);
	fill(&then, to, "alloc_space");
	assert_true(growth_since(known, &then, &next, ret_restarted));
	assert_int_equal(then.count, 1);
	const struct pushed_profile *of = then.all[0];
	uint32_t n = of->p->sample_count;
	for (uint32_t i = 0; i < n; i++) {
		struct pushed_before b = of->before ? of->before[i] : (struct pushed_before){};
		ret[i][0] = of->p->samples[i].value - MIN(b.value, of->p->samples[i].value);
		ret[i][1] = of->p->samples[i].count - MIN(b.count, of->p->samples[i].count);
	}
	assert_string_equal(of->type, TYPE);
	assert_true(growth_bytes(next) > n * 3 * sizeof(uint64_t));
	growth_free(known);
	growth_free(next);
	pushed_done(&first);
	pushed_done(&then);
	return n;
}

static void what_is_new_is_what_is_more(void **state)
{
	(void)state;
	const struct had from[] = {{"a", 1, 100}, {"b", 2, 200}, {}};
	const struct had to[] = {{"b", 5, 260}, {"c", 7, 70}, {"a", 1, 100}, {}};
	uint64_t got[3][2];
	bool restarted = true;

	assert_int_equal(grown(from, to, got, &restarted), 3);
	assert_false(restarted);
	assert_int_equal(got[0][0], 60);
	assert_int_equal(got[0][1], 3);
	assert_int_equal(got[1][0], 70);
	assert_int_equal(got[2][0], 0);
}

static void one_that_sank_has_not_grown(void **state)
{
	(void)state;
	const struct had from[] = {{"a", 1, 100}, {"b", 2, 200}, {"c", 1, 10}, {}};
	const struct had to[] = {{"a", 1, 99}, {"b", 2, 300}, {"c", 1, 12}, {}};
	uint64_t got[3][2];
	bool restarted = true;

	grown(from, to, got, &restarted);
	assert_false(restarted);
	assert_int_equal(got[0][0], 0);
	assert_int_equal(got[1][0], 100);
	assert_int_equal(got[2][0], 2);
}

static void a_program_that_was_started_anew_has_all_since_then(void **state)
{
	(void)state;
	const struct had from[] = {{"a", 1, 100}, {"b", 2, 200}, {"c", 1, 10}, {}};
	const struct had less[] = {{"a", 1, 250}, {}};
	/* More than before, but hardly a stack is what it was. */
	const struct had other[] = {{"x", 1, 5000}, {"a", 1, 150}, {}};
	uint64_t got[3][2];
	bool restarted = false;

	grown(from, less, got, &restarted);
	assert_true(restarted);
	assert_int_equal(got[0][0], 250);
	grown(from, other, got, &restarted);
	assert_true(restarted);
	assert_int_equal(got[0][0], 5000);
	assert_int_equal(got[1][0], 150);
}

static void a_state_is_left_as_it_is(void **state)
{
	(void)state;
	const struct had some[] = {{"a", 1, 100}, {}};
	struct growth *known = NULL;
	struct pushed p = {};
	bool restarted;

	fill(&p, some, "inuse_space");
	fill(&p, some, "alloc_space");
	fill(&p, some, "inuse_space");
	assert_true(growth_since(NULL, &p, &known, &restarted));
	assert_int_equal(p.count, 2);
	assert_true(window_type_is_state(p.all[0]->type) && window_type_is_state(p.all[1]->type));
	assert_null(p.all[0]->before);
	assert_false(window_type_is_state(TYPE));
	assert_false(window_type_is_state("cpu"));
	assert_false(window_type_is_state("inuse_space"));
	growth_free(known);
	pushed_done(&p);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_is_new_is_what_is_more),
		cmocka_unit_test(one_that_sank_has_not_grown),
		cmocka_unit_test(a_program_that_was_started_anew_has_all_since_then),
		cmocka_unit_test(a_state_is_left_as_it_is),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
