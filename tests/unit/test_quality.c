/* What is said of a profile's stacks: which are whole, which frames have no name, what would help.
 */
#include "unit/unit.h"

#include "query/quality.h"
#include "unit/sample.h"

static struct quality of(struct profile *p, const char *const *lines,
			 char hint[static QUALITY_HINT])
{
	struct quality q;

	for (; *lines; lines++)
		sample_add(p, *lines);
	quality_of(p, &q);
	quality_hint(&q, (struct quality_help){}, hint);
	return q;
}

static void shares_are_counted_by_samples(void **state)
{
	(void)state;
	static const char *const lines[] = {
		"main@app;work@app;[k]read@[kernel] 50",
		"main@app;[app+0x10]@app 20",
		"[m][incomplete];[j][anon] 10",
		"[m][incomplete] 5",
		"[m][truncated];work@app;[k]read@[kernel] 5",
		"[m][truncated];[k]deep@[kernel] 7",
		"[k]kthread@[kernel] 10",      /* has no user stack */
		"main@app;[j][vdso] 1",        /* a 32-bit one: that is what it is called */
		"[m][incomplete];[j]a;[j]b 3", /* b has a caller */
		"main@app;[j]a;work@app 4",    /* and here the first of them */
		NULL,
	};
	struct profile *p = profile_new();
	char hint[QUALITY_HINT];
	struct quality q = of(p, lines, hint);

	assert_int_equal(q.stacks, 50 + 20 + 10 + 5 + 5 + 1 + 3 + 4);
	assert_int_equal(q.incomplete, 18);
	assert_int_equal(q.by_pointers, 1 + 3 + 4);
	assert_int_equal(q.truncated, 5);
	assert_int_equal(q.frames, 150 + 40 + 10 + 10 + 7 + 10 + 2 + 6 + 12);
	assert_int_equal(q.unnamed, 20 + 10);
	assert_int_equal(q.worst, 20);
	assert_string_equal(q.file, "app");
	assert_string_equal(hint, "most unnamed frames are in app");
	profile_free(p);
}

static void the_runtime_is_found_by_who_calls_it(void **state)
{
	(void)state;
	static const struct {
		const char *lines[4];
		const char *runtime, *in_hint;
	} t[] = {
		{{"main@java;call@libjvm.so;[j][anon];[j][anon] 5"}, "java", "Compiler.perfmap"},
		{{"comm=java|[m][incomplete];[j][anon] 5"}, "java", "PreserveFramePointer"},
		{{"main@node;[j][anon];[j][anon] 5"}, "node", "--perf-basic-prof"},
		/* nobody called it, but one was seen that makes such code */
		{{"[m][incomplete];[j][anon] 5", "main@beam.smp 1"}, "Erlang", "+JPperf"},
		{{"main@app;[j][anon] 5"}, NULL, "/tmp/perf-PID.map"},
		/* what is in a file outweighs it */
		{{"main@node;[j][anon] 5", "main@node;[x.so+0x5]@x.so 6"}, NULL, "x.so"},
		{{"main@app;[k][kernel+0xffff]@[kernel] 5"}, NULL, "in the kernel"},
	};

	for (size_t i = 0; i < ARRAY_SIZE(t); i++) {
		struct profile *p = profile_new();
		char hint[QUALITY_HINT];
		struct quality q = of(p, t[i].lines, hint);
		if (t[i].runtime)
			assert_string_equal(q.runtime, t[i].runtime);
		else
			assert_true(!q.remedy || q.file);
		if (!strstr(hint, t[i].in_hint))
			fail_msg("%s: %s", t[i].lines[0], hint);
		profile_free(p);
	}
}

static void little_is_not_worth_a_word(void **state)
{
	(void)state;
	static const char *const lines[] = {"main@app 990", "[app+0x10]@app 9", NULL};
	struct profile *p = profile_new();
	char hint[QUALITY_HINT];
	struct quality q = of(p, lines, hint);

	assert_int_equal(q.unnamed, 9);
	assert_string_equal(hint, "");
	profile_free(p);
	p = profile_new();
	q = of(p, lines + 2, hint);
	assert_int_equal(q.frames, 0);
	assert_string_equal(hint, "");
	profile_free(p);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(shares_are_counted_by_samples),
		cmocka_unit_test(the_runtime_is_found_by_who_calls_it),
		cmocka_unit_test(little_is_not_worth_a_word),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
