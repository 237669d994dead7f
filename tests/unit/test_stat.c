/* What `stat` says of counters that this machine may not have: ratios, and those that took turns.
 */
#include "unit/unit.h"

#include "base/mem.h"
#include "cli/stat_print.h"
#include "cli/stat_table.h"

static char *printed; /* by the last print() */

static void print(const struct stat_view *like, const struct stat_table *t)
{
	struct stat_view v = *like;
	size_t len;

	free(printed);
	v.out = open_memstream(&printed, &len);
	if (!v.thousands)
		v.thousands = "";
	stat_print_rows(&v, t, 1.5);
	fclose(v.out);
}

/* One place; a counter that runs all the time, unless `running` says less. */
static void table(struct stat_table *t, struct counter_events *e, const char *list,
		  const uint64_t *values, uint64_t running)
{
	static const struct counters_place place = {.cpus = 1};
	struct counter_value v[16] = {};

	*e = (struct counter_events){};
	assert_int_equal(counter_events_add(e, list), 0);
	for (size_t i = 0; i < e->count; i++)
		v[i] = (struct counter_value){values[i], 1000, running, true, false};
	stat_table_init(t, e, &place, 1);
	stat_table_add(t, v, 2.0);
}

static void expect(const char *list, const uint64_t *values, const char *text)
{
	const struct stat_view fields = {.format = STAT_SEPARATED, .separator = ";"};
	struct counter_events e;
	struct stat_table t;

	table(&t, &e, list, values, 1000);
	print(&fields, &t);
	assert_string_equal(printed, text);
	stat_table_done(&t);
	counter_events_done(&e);
}

static void ratios_are_perfs(void **state)
{
	(void)state;
	expect("task-clock,cycles,instructions,branches,branch-misses",
	       (const uint64_t[]){500000000, 1500000000, 3000000000, 600000000, 6000000},
	       "500.00;msec;task-clock;1000;100.00;0.250;CPUs utilized\n"
	       "1500000000;;cycles;1000;100.00;3.000;GHz\n"
	       "3000000000;;instructions;1000;100.00;2.00;insn per cycle\n"
	       "600000000;;branches;1000;100.00;1.200;G/sec\n"
	       "6000000;;branch-misses;1000;100.00;1.00;of all branches\n");
	expect("cycles,stalled-cycles-frontend,stalled-cycles-backend,instructions",
	       (const uint64_t[]){1000, 250, 500, 2000},
	       "1000;;cycles;1000;100.00;;\n"
	       "250;;stalled-cycles-frontend;1000;100.00;25.00;frontend cycles idle\n"
	       "500;;stalled-cycles-backend;1000;100.00;50.00;backend cycles idle\n"
	       "2000;;instructions;1000;100.00;2.00;insn per cycle\n"
	       ";;;;;0.25;stalled cycles per insn\n");
	expect("cache-references,cache-misses,L1-dcache-loads,L1-dcache-load-misses,LLC-loads,"
	       "LLC-load-misses,dTLB-loads,dTLB-load-misses",
	       (const uint64_t[]){100, 5, 200, 4, 50, 25, 1000, 1},
	       "100;;cache-references;1000;100.00;;\n"
	       "5;;cache-misses;1000;100.00;5.00;of all cache refs\n"
	       "200;;L1-dcache-loads;1000;100.00;;\n"
	       "4;;L1-dcache-load-misses;1000;100.00;2.00;of all L1-dcache accesses\n"
	       "50;;LLC-loads;1000;100.00;;\n"
	       "25;;LLC-load-misses;1000;100.00;50.00;of all LL-cache accesses\n"
	       "1000;;dTLB-loads;1000;100.00;;\n"
	       "1;;dTLB-load-misses;1000;100.00;0.10;of all dTLB cache accesses\n");
}

static void ratios_are_of_what_counts_in_the_same_place(void **state)
{
	(void)state;
	expect("cycles:u,instructions:k,cycles:k", (const uint64_t[]){1000, 600, 300},
	       "1000;;cycles:u;1000;100.00;;\n"
	       "600;;instructions:k;1000;100.00;2.00;insn per cycle\n"
	       "300;;cycles:k;1000;100.00;;\n");
	expect("branch-misses,instructions", (const uint64_t[]){1000, 600},
	       "1000;;branch-misses;1000;100.00;;\n"
	       "600;;instructions;1000;100.00;;\n");
}

static void counters_that_took_turns_are_scaled(void **state)
{
	(void)state;
	const struct stat_view text = {}, json = {.format = STAT_JSON, .at_intervals = true},
			       dotted = {.thousands = "."};
	struct counter_events e;
	struct stat_table t;

	table(&t, &e, "page-faults,cycles", (const uint64_t[]){1000, 1234567}, 250);
	print(&text, &t);
	char line[256];
	snprintf(line, sizeof(line),
		 "%18s %4s %-32s%35s  (25.00%%)\n%18s %4s %-32s%35s  (25.00%%)\n", "4000", "",
		 "page-faults", "", "4938268", "", "cycles", "");
	assert_string_equal(printed, line);
	print(&dotted, &t);
	assert_non_null(strstr(printed, "\n         4.938.268      cycles"));
	print(&json, &t);
	assert_non_null(strstr(printed,
			       "{\"interval\" : 1.500000000, \"counter-value\" : \"4000.000000\", "
			       "\"unit\" : \"\", \"event\" : \"page-faults\", \"event-runtime\" : "
			       "250, \"pcnt-running\" : 25.00, "));
	stat_table_done(&t);
	counter_events_done(&e);
}

static void what_never_ran_is_not_counted(void **state)
{
	(void)state;
	const struct stat_view fields = {.format = STAT_SEPARATED, .separator = ",", .cgroup = "g"};
	struct counter_events e;
	struct stat_table t;

	table(&t, &e, "task-clock,cycles", (const uint64_t[]){5, 5}, 0);
	t.cells[1].is_supported = false;
	print(&fields, &t);
	assert_string_equal(printed, "<not counted>,msec,task-clock,g,0,100.00,,\n"
				     "<not supported>,,cycles,g,0,100.00,,\n");
	stat_table_done(&t);
	counter_events_done(&e);
}

static void runs_are_averaged(void **state)
{
	(void)state;
	struct stat_mean m = {};

	assert_true(stat_mean_error(&m) == 0 && stat_mean_percent(&m) == 0);
	for (double v = 2; v <= 10; v += 4) /* 2, 6, 10: standard deviation 4 */
		stat_mean_add(&m, v);
	assert_true(m.mean == 6);
	assert_float_equal(stat_mean_error(&m), 2.309401, 1e-6);
	assert_float_equal(stat_mean_percent(&m), 38.49, 0.001);
}

static void events_have_perfs_names(void **state)
{
	(void)state;
	struct counter_events e = {};

	assert_int_equal(counter_events_add(&e, "LLC-store-misses,{r1A8:k,cs},iTLB-loads:uh"), 0);
	assert_int_equal(e.count, 4);
	assert_true(counter_event_is(&e.list[0], PERF_TYPE_HW_CACHE,
				     PERF_COUNT_HW_CACHE_LL | PERF_COUNT_HW_CACHE_OP_WRITE << 8 |
					     PERF_COUNT_HW_CACHE_RESULT_MISS << 16));
	assert_true(counter_event_is(&e.list[1], PERF_TYPE_RAW, 0x1a8));
	assert_true(e.list[1].attr.exclude_user && !e.list[1].attr.exclude_kernel);
	assert_true(e.list[0].leader == 0 && e.list[1].leader == 1 && e.list[2].leader == 1 &&
		    e.list[3].leader == 3);
	assert_true(e.list[3].attr.exclude_kernel && !e.list[3].attr.exclude_hv);
	assert_false(counter_event_only_user(&e.list[1]));
	assert_true(counter_event_only_user(&e.list[2]));
	assert_string_equal(e.list[2].name, "cs:u");
	assert_int_equal(counter_events_add(&e, "rzz"), -EINVAL);
	assert_int_equal(counter_events_add(&e, "r11112222333344445"), -EINVAL);
	assert_int_equal(counter_events_add(&e, "}"), -EINVAL);
	assert_int_equal(counter_events_add(&e, "{{cs}}"), -EINVAL);
	assert_int_equal(counter_events_add(&e, ""), -EINVAL);
	assert_int_equal(counter_events_add(&e, "cs:u:k"), -EINVAL);
	counter_events_done(&e);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(ratios_are_perfs),
		cmocka_unit_test(ratios_are_of_what_counts_in_the_same_place),
		cmocka_unit_test(counters_that_took_turns_are_scaled),
		cmocka_unit_test(what_never_ran_is_not_counted),
		cmocka_unit_test(runs_are_averaged),
		cmocka_unit_test(events_have_perfs_names),
	};
	int failed = cmocka_run_group_tests(tests, NULL, NULL);

	free(printed);
	return failed;
}
