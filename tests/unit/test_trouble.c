#include "unit/unit.h"

#include "base/log.h"
#include "base/mem.h"
#include "pipeline/measure.h"
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

#define FIELD(member, which)                                                                       \
	{                                                                                          \
		.offset = offsetof(struct pipeline_stats, member),                                 \
		.size = sizeof(((struct pipeline_stats *)0)->member),                              \
		.is_error = _Generic(((struct pipeline_stats *)0)->member, int                     \
				     : true, default                                               \
				     : false),                                                     \
		.kind = (which)                                                                    \
	}

/* Where each kind is counted, of those that stages count. */
static const struct {
	size_t offset, size;
	bool is_error; /* -errno */
	enum trouble kind;
} fields[] = {
	FIELD(sideband_error, TROUBLE_NO_SIDEBAND),
	FIELD(sideband_lost, TROUBLE_SIDEBAND_LOST),
	FIELD(assembler.names.kernel_error, TROUBLE_KERNEL_NAMES),
	FIELD(modules_error, TROUBLE_NO_MODULES),
	FIELD(counts.kernel_asked, TROUBLE_KERNEL_ASKED),
	FIELD(counts.kernel_different, TROUBLE_KERNEL_DIFFERENT),
	FIELD(assembler.names.symbols.failures, TROUBLE_FILES_UNREADABLE),
	FIELD(assembler.names.symbols.mismatches, TROUBLE_FILES_OTHER),
	FIELD(assembler.names.symbols.dropped, TROUBLE_SYMBOLS_DROPPED),
	FIELD(assembler.names.symbols.debug_refused, TROUBLE_DEBUG_FILES),
	FIELD(assembler.names.maps.refused, TROUBLE_PERF_MAPS_REFUSED),
	FIELD(assembler.names.maps.malformed, TROUBLE_PERF_MAPS_CUT),
	FIELD(assembler.names.maps.capped, TROUBLE_PERF_MAPS_CUT),
	FIELD(assembler.names.lines.too_large, TROUBLE_DEBUG_INFO),
	FIELD(assembler.names.lines.refused, TROUBLE_DEBUG_INFO),
	FIELD(assembler.unwind.tables_failed, TROUBLE_TABLES_FAILED),
	FIELD(assembler.unwind.tables_put_off, TROUBLE_TABLES_NO_ROOM),
	FIELD(assembler.unwind.spaces_full, TROUBLE_TABLES_NO_ROOM),
	FIELD(assembler.unwind.cache_error, TROUBLE_TABLE_CACHE),
	FIELD(assembler.unwind.by_frame_pointers, TROUBLE_FRAME_POINTERS),
	FIELD(counts.not_copied, TROUBLE_STACKS_NOT_COPIED),
	FIELD(assembler.given_up, TROUBLE_STACKS_GIVEN_UP),
	FIELD(assembler.unwind.mistrusted, TROUBLE_MAPPINGS_CHANGED),
	FIELD(assembler.processes_capped, TROUBLE_PROCESSES_CAPPED),
	FIELD(assembler.mappings_dropped, TROUBLE_MAPPINGS_DROPPED),
	FIELD(ticks_missed, TROUBLE_TICKS_MISSED),
	FIELD(stream.late_events, TROUBLE_LATE),
	FIELD(stream.late_records, TROUBLE_LATE),
	FIELD(counts.failed_cpus, TROUBLE_CPUS_FAILED),
	FIELD(counts.no_room, TROUBLE_THREADS_CAPPED),
	FIELD(priority_error, TROUBLE_NO_PRIORITY),
	FIELD(hotplug_error, TROUBLE_NO_HOTPLUG),
};

static void what_stages_count_is_counted(void **state)
{
	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(fields); i++) {
		struct pipeline_stats s = {};
		uint64_t counts[TROUBLES] = {}, seven = 7;
		int error = -7;
		memcpy((char *)&s + fields[i].offset,
		       fields[i].is_error ? (void *)&error : (void *)&seven, fields[i].size);
		trouble_count(&s, counts);
		for (int kind = 0; kind < TROUBLES; kind++)
			assert_int_equal(counts[kind], kind == (int)fields[i].kind ? 7 : 0);
	}
}

static void what_is_mended_or_right_is_no_trouble(void **state)
{
	struct pipeline_stats s = {};
	uint64_t counts[TROUBLES] = {[TROUBLE_REFUSED_CALLS] = 3};

	(void)state;
	s.counts.failed_cpus = 9;
	s.counts.beyond_cpus = 2; /* mended by themselves */
	s.counts.kernel_asked = 6;
	s.counts.kernel_walked = 1; /* so asking is the exception */
	trouble_count(&s, counts);
	assert_int_equal(counts[TROUBLE_CPUS_FAILED], 7);
	assert_int_equal(counts[TROUBLE_KERNEL_ASKED], 0);
	assert_int_equal(counts[TROUBLE_REFUSED_CALLS], 3); /* a command's to know */
}

/* What a collector tells of a kind. */
static uint64_t told(const struct measure *m, enum trouble kind)
{
	char name[96];

	snprintf(name, sizeof(name), "collector_trouble_total{what=\"%s\"}",
		 trouble_kinds[kind].name);
	for (uint32_t i = 0; i < m->count; i++)
		if (strcmp(m->metrics[i].name, name) == 0)
			return (uint64_t)m->metrics[i].value;
	fail_msg("nothing is told of %s", trouble_kinds[kind].name);
	return 0;
}

/* Of every kind; also of those that no stage knows. */
static void a_collector_tells_all_of_it(void **state)
{
	struct sites_stats sites = {.held = 4, .full = 5, .read_errors = 6, .begin_error = -7};
	struct measured now = {.missing_capabilities = 2,
			       .no_control_groups = true,
			       .state_files = 3,
			       .kubelet_failures = 8,
			       .no_offcpu = true,
			       .sites = &sites};
	const uint64_t want[TROUBLES] = {
		[TROUBLE_CAPABILITIES] = 2, [TROUBLE_NO_CONTROL_GROUPS] = 1,
		[TROUBLE_STATE_FILES] = 3,  [TROUBLE_NO_OFFCPU] = 1,
		[TROUBLE_SITES_NEW] = 4,    [TROUBLE_SITES_FULL] = 5,
		[TROUBLE_SITES_UNREAD] = 6, [TROUBLE_THREADS_UNLISTED] = 7,
		[TROUBLE_KUBELET] = 8,
	};
	struct measure m = {};

	(void)state;
	log_level = LOG_QUIET;
	measure_all(&m, &now);
	for (int kind = 0; kind < TROUBLES; kind++) {
		bool by_stages = false;
		for (size_t i = 0; i < ARRAY_SIZE(fields); i++)
			by_stages |= (int)fields[i].kind == kind;
		assert_int_equal(told(&m, (enum trouble)kind), want[kind]);
		/* No kind is left that nobody counts. */
		assert_true(by_stages || want[kind] || kind == TROUBLE_REFUSED_CALLS);
		assert_int_equal(m.said[kind],
				 want[kind] && !trouble_kinds[kind].is_said_elsewhere);
	}
	measure_done(&m);
}

static void the_first_file_is_named(void **state)
{
	struct pipeline_stats s = {};
	struct symbols_stats *files = &s.assembler.names.symbols;
	char text[64];

	(void)state;
	trouble_first(TROUBLE_FILES_UNREADABLE, &s, text, sizeof(text));
	assert_string_equal(text, "");
	strcpy(files->first_failure, "/opt/a\nb");
	strcpy(files->first_mismatch, "/opt/c");
	strcpy(files->first_debug_refused, "/opt/d");
	s.assembler.names.maps.refused_pid = 12;
	trouble_first(TROUBLE_FILES_UNREADABLE, &s, text, sizeof(text));
	assert_non_null(strstr(text, " (the first: /opt/a"));
	assert_null(strchr(text, '\n'));
	trouble_first(TROUBLE_FILES_OTHER, &s, text, sizeof(text));
	assert_string_equal(text, " (the first: /opt/c)");
	trouble_first(TROUBLE_DEBUG_FILES, &s, text, sizeof(text));
	assert_string_equal(text, " (the first: that of /opt/d)");
	trouble_first(TROUBLE_PERF_MAPS_REFUSED, &s, text, sizeof(text));
	assert_string_equal(text, " (the first: that of process 12)");
	trouble_first(TROUBLE_LATE, &s, text, sizeof(text));
	assert_string_equal(text, "");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_kind_is_explained),
		cmocka_unit_test(a_kind_has_one_sentence),
		cmocka_unit_test(what_stages_count_is_counted),
		cmocka_unit_test(what_is_mended_or_right_is_no_trouble),
		cmocka_unit_test(a_collector_tells_all_of_it),
		cmocka_unit_test(the_first_file_is_named),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
