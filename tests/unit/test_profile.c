#include "unit/unit.h"

#include "base/text.h"
#include "pipeline/stack_cache.h"
#include "profile/profile.h"

static uint32_t str(struct profile *p, const char *s)
{
	return profile_string(p, s, strlen(s));
}

static void interns_and_adds_up(void **state)
{
	(void)state;
	struct profile *p = profile_new();
	uint32_t f = profile_frame(p, &(struct frame){.name = str(p, "main")});
	uint32_t g = profile_frame(p, &(struct frame){.name = str(p, "leaf")});

	assert_int_equal(f, profile_frame(p, &(struct frame){.name = str(p, "main")}));
	assert_int_not_equal(f, g);
	uint32_t s1 = profile_stack(p, 0, f);
	uint32_t s2 = profile_stack(p, s1, g);
	assert_int_equal(s2, profile_stack(p, profile_stack(p, 0, f), g));
	assert_true(s1 < s2);

	struct label a[] = {{str(p, "comm"), str(p, "x")}, {str(p, "pid"), str(p, "1")}};
	struct label b[] = {a[1], a[0]};
	uint32_t series = profile_series(p, a, 2);
	assert_int_equal(series, profile_series(p, b, 2));
	assert_string_equal(profile_label(p, series, "pid"), "1");
	assert_null(profile_label(p, series, "pod"));

	profile_add(p, series, s2, 2, 20);
	profile_add(p, series, s2, 1, 10);
	profile_add(p, 0, s2, 1, 10);
	assert_int_equal(p->sample_count, 2);
	assert_int_equal(p->samples[0].count, 3);
	assert_int_equal(p->samples[0].value, 30);
	profile_free(p);
}

static void a_stack_is_only_so_deep(void **state)
{
	(void)state;
	struct profile *p = profile_new();
	uint32_t f = profile_frame(p, &(struct frame){.name = str(p, "f")}), at = 0;

	for (int i = 0; i < PROFILE_DEPTH_MAX; i++)
		at = profile_stack(p, at, f);
	assert_int_equal(p->stack_count, PROFILE_DEPTH_MAX + 1);
	assert_int_equal(p->info.capped, 0);
	assert_int_equal(profile_stack(p, at, f), at);
	assert_int_equal(p->info.capped, 1);
	profile_free(p);
}

static void a_full_profile_keeps_its_sums(void **state)
{
	(void)state;
	struct profile *p = profile_new();
	profile_set_stacks_max(p, 10);

	for (int i = 0; i < 1000; i++) {
		char name[16];
		snprintf(name, sizeof(name), "f%d", i);
		uint32_t f = profile_frame(p, &(struct frame){.name = str(p, name)});
		profile_add(p, 0, profile_stack(p, 0, f), 1, 1);
	}
	uint64_t sum = 0;
	for (uint32_t i = 0; i < p->sample_count; i++)
		sum += p->samples[i].count;
	assert_int_equal(sum, 1000);
	assert_int_equal(p->stack_count, 11);
	assert_int_equal(p->info.capped, 990);
	profile_free(p);
}

static void names_from_outside_are_cleaned(void **state)
{
	(void)state;
	struct {
		const char *in, *out;
	} t[] = {
		{"plain", "plain"},
		{"a\nb\x1b[31m", "a\xef\xbf\xbd"
				 "b\xef\xbf\xbd[31m"},
		{"gr\xc3\xbc\xc3\x9f", "gr\xc3\xbc\xc3\x9f"},
		{"bad\xff\xc3", "bad\xef\xbf\xbd\xef\xbf\xbd"},
		{"\xe2\x80\xae"
		 "exe.txt",
		 "\xef\xbf\xbd"
		 "exe.txt"}, /* right-to-left override */
		{"\xed\xa0\x80", "\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd"}, /* a surrogate */
		{"\xc0\xaf", "\xef\xbf\xbd\xef\xbf\xbd"},                 /* overlong */
	};
	struct profile *p = profile_new();

	for (size_t i = 0; i < sizeof(t) / sizeof(t[0]); i++)
		assert_string_equal(profile_str(p, str(p, t[i].in)), t[i].out);

	char big[1 << 20];
	memset(big, 'x', sizeof(big));
	uint32_t id = profile_string(p, big, sizeof(big));
	assert_int_equal(profile_str_len(p, id), TEXT_MAX);
	assert_string_equal(profile_str(p, id) + TEXT_MAX - 3, "\xe2\x80\xa6");
	memset(big, '\xff', sizeof(big));
	id = profile_string(p, big, sizeof(big));
	assert_true(profile_str_len(p, id) <= TEXT_MAX);
	profile_free(p);
}

/* Of 100,000 stacks the latest are there, each as it was put in, and one met often stays. */
static void stacks_met_lately_are_known(void **state)
{
	(void)state;
	enum { STACKS = 100 * 1000, OFTEN = 7 };
	struct stack_cache *k = stack_cache_new();
	uint32_t latest = 0, wrong = 0;

	for (uint64_t i = 1; i <= STACKS; i++) {
		struct cached_stack s = {stack_cache_hash(0, i), (uint32_t)i, i % 100, i % 3};
		assert_null(stack_cache_find(k, s.hash));
		stack_cache_put(k, &s);
		if (i >= OFTEN)
			assert_non_null(stack_cache_find(k, stack_cache_hash(0, OFTEN)));
	}
	for (uint64_t i = 1; i <= STACKS; i++) {
		const struct cached_stack *s = stack_cache_find(k, stack_cache_hash(0, i));
		latest += s && i > STACKS - 4096;
		wrong += s && (s->stack != i || s->frames != i % 100 || s->unnamed != i % 3);
	}
	assert_true(latest > 4000);
	assert_int_equal(wrong, 0);
	assert_int_not_equal(stack_cache_hash(0, 1), stack_cache_hash(1, 1));
	assert_int_not_equal(stack_cache_hash(stack_cache_hash(0, 1), 2),
			     stack_cache_hash(stack_cache_hash(0, 2), 1));
	stack_cache_free(k);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(interns_and_adds_up),
		cmocka_unit_test(a_full_profile_keeps_its_sums),
		cmocka_unit_test(a_stack_is_only_so_deep),
		cmocka_unit_test(names_from_outside_are_cleaned),
		cmocka_unit_test(stacks_met_lately_are_known),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
