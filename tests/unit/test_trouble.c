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

static void a_kind_has_one_sentence(void **state)
{
	char text[TROUBLE_TEXT];

	(void)state;
	trouble_sentence(TROUBLE_KERNEL_NAMES, 1, text);
	assert_string_equal(text, "kernel functions have no names (Operation not permitted)");
	trouble_sentence(TROUBLE_TABLE_CACHE, 13, text);
	assert_string_equal(text, "unwind tables are not cached (Permission denied): they are "
				  "rebuilt at each start");
	trouble_sentence(TROUBLE_NO_CONTROL_GROUPS, 1, text);
	assert_string_equal(text, "control groups are not mounted: no labels for containers and "
				  "units");
	trouble_sentence(TROUBLE_DEBUG_FILES, 12, text);
	assert_memory_equal(text, "12 ", 3);
	trouble_sentence(TROUBLE_MAPPINGS_DROPPED, 1, text);
	assert_non_null(strstr(text, " more than 16384: "));
	for (int i = 0; i < TROUBLES; i++) {
		trouble_sentence((enum trouble)i, UINT64_MAX, text);
		assert_true(strlen(text) < TROUBLE_TEXT - 1); /* it is all there */
	}
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
		cmocka_unit_test(a_kind_has_one_sentence),
		cmocka_unit_test(what_stages_count_is_counted),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
