#include "unit/unit.h"

#include "pipeline/trouble.h"

static void every_kind_is_explained(void **state)
{
	(void)state;
	for (int i = 0; i < TROUBLES; i++) {
		const struct trouble_kind *k = &trouble_kinds[i];
		assert_non_null(k->name);
		assert_non_null(k->help);
		assert_true(k->means && strlen(k->means) > 20);
		assert_int_equal(trouble_find(k->name, strlen(k->name)), i); /* and no other is */
	}
	assert_int_equal(trouble_find("no_such", 7), -1);
}

static void errors_are_words_and_counts_are_numbers(void **state)
{
	char text[64];

	(void)state;
	trouble_number(TROUBLE_KERNEL_NAMES, 1, text, sizeof(text));
	assert_string_equal(text, "'Operation not permitted'");
	trouble_number(TROUBLE_DEBUG_FILES, 12, text, sizeof(text));
	assert_string_equal(text, "12");
}

static void what_stages_count_is_counted(void **state)
{
	struct pipeline_stats s = {.sideband_error = -13, .sideband_lost = 2};
	uint64_t counts[TROUBLES] = {[TROUBLE_REFUSED_CALLS] = 3};

	(void)state;
	s.assembler.names.maps.refused = 4;
	s.assembler.names.symbols.debug_refused = 5;
	s.counts.kernel_asked = 6;
	s.counts.failed_cpus = 9;
	s.counts.beyond_cpus = 2; /* mended by themselves */
	trouble_count(&s, counts);
	assert_int_equal(counts[TROUBLE_REFUSED_CALLS], 3);
	assert_int_equal(counts[TROUBLE_NO_SIDEBAND], 13);
	assert_int_equal(counts[TROUBLE_SIDEBAND_LOST], 2);
	assert_int_equal(counts[TROUBLE_PERF_MAPS_REFUSED], 4);
	assert_int_equal(counts[TROUBLE_DEBUG_FILES], 5);
	assert_int_equal(counts[TROUBLE_KERNEL_ASKED], 6);
	assert_int_equal(counts[TROUBLE_CPUS_FAILED], 7);
	s.counts.kernel_walked = 1; /* so asking is the exception */
	trouble_count(&s, counts);
	assert_int_equal(counts[TROUBLE_KERNEL_ASKED], 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_kind_is_explained),
		cmocka_unit_test(errors_are_words_and_counts_are_numbers),
		cmocka_unit_test(what_stages_count_is_counted),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
