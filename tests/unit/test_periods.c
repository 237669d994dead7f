/* Times off the CPU whose pieces come in any order, and stacks made from others. */
#include "unit/unit.h"

#include "base/mem.h"
#include "pipeline/periods.h"
#include "pipeline/stack_edit.h"
#include "unit/sample.h"

static void test_found_by_thread_and_beginning(void **state)
{
	(void)state;
	struct periods *p = periods_new(100);

	periods_get(p, 1, 10)->ns = 5;
	periods_get(p, 1, 20)->ns = 6;
	periods_get(p, 2, 10)->ns = 7;
	assert_int_equal(periods_get(p, 1, 10)->ns, 5);
	assert_int_equal(periods_get(p, 1, 20)->ns, 6);
	assert_int_equal(periods_get(p, 2, 10)->ns, 7);
	assert_int_equal(periods_count(p), 3);
	periods_free(p);
}

static void test_removed_ones_are_new_again(void **state)
{
	(void)state;
	struct periods *p = periods_new(100);

	/* Of the same chain, since it is the same thread: the first, the last, one between. */
	for (uint64_t began = 1; began <= 5; began++)
		periods_get(p, 1, began)->ns = began;
	periods_remove(p, periods_get(p, 1, 5));
	periods_remove(p, periods_get(p, 1, 1));
	periods_remove(p, periods_get(p, 1, 3));
	assert_int_equal(periods_count(p), 2);
	assert_int_equal(periods_get(p, 1, 2)->ns, 2);
	assert_int_equal(periods_get(p, 1, 4)->ns, 4);
	assert_int_equal(periods_get(p, 1, 3)->ns, 0);
	assert_int_equal(periods_count(p), 3);
	periods_free(p);
}

static void test_no_more_than_the_cap(void **state)
{
	(void)state;
	struct periods *p = periods_new(1000);

	for (uint32_t tid = 1; tid <= 1000; tid++)
		assert_non_null(periods_get(p, tid, tid));
	assert_null(periods_get(p, 1001, 1));
	assert_non_null(periods_get(p, 500, 500)); /* it is there */
	periods_remove(p, periods_get(p, 7, 7));
	assert_non_null(periods_get(p, 1001, 1));
	periods_free(p);
}

static void add_ns(void *ctx, struct period *x)
{
	*(uint64_t *)ctx += x->ns;
}

static void test_flushed_once(void **state)
{
	(void)state;
	struct periods *p = periods_new(10000);
	uint64_t sum = 0;

	for (uint32_t tid = 1; tid <= 10000; tid++)
		periods_get(p, tid, 1)->ns = tid;
	periods_flush(p, add_ns, &sum);
	assert_int_equal(sum, 10000ull * 10001 / 2);
	assert_int_equal(periods_count(p), 0);
	periods_flush(p, add_ns, &sum);
	assert_int_equal(sum, 10000ull * 10001 / 2);
	periods_free(p);
}

/* ---- stacks ---------------------------------------------------------------------------------- */

static uint32_t stack_of(struct profile *p, const char *frames)
{
	CLEANUP(freep) char *copy = mem_strdup(frames);
	char *save;
	uint32_t stack = 0;

	for (char *f = strtok_r(copy, ";", &save); f; f = strtok_r(NULL, ";", &save))
		stack = profile_stack(p, stack, sample_frame(p, f));
	return stack;
}

static void test_joined_stacks(void **state)
{
	(void)state;
	struct profile *p = profile_new();
	struct stack_edit *s = stack_edit_new(p);
	uint32_t below = stack_of(p, "main;wait"), above = stack_of(p, "other;wake");
	uint32_t joined = stack_edit_join(s, below, above);

	assert_int_equal(joined, stack_of(p, "main;wait;other;wake"));
	assert_int_equal(stack_edit_join(s, below, above), joined);
	assert_int_equal(stack_edit_join(s, 0, above), above);
	assert_int_equal(stack_edit_join(s, below, 0), below);
	assert_int_equal(stack_edit_mark(s, below, "[x]"), stack_of(p, "main;wait;[m][x]"));
	assert_int_equal(stack_edit_move(s, below, above, stack_of(p, "other")),
			 stack_of(p, "main;wait;wake"));
	stack_edit_free(s);
	profile_free(p);
}

static void test_cut_stacks(void **state)
{
	(void)state;
	struct profile *p = profile_new();
	struct stack_edit *s = stack_edit_new(p);
	uint32_t name = sample_string(p, "__schedule");
	uint32_t whole = stack_of(p, "main;[k]schedule;[k]__schedule;[k]trace;[k]program");
	uint32_t deep = stack_of(p, "[k]__schedule;a;b;c;d;e;f;g;h;i;j;k;l;m;n;o;p;q");

	assert_int_equal(stack_edit_cut(s, whole, name),
			 stack_of(p, "main;[k]schedule;[k]__schedule"));
	assert_int_equal(stack_edit_cut(s, stack_of(p, "main;work"), name),
			 stack_of(p, "main;work"));
	assert_int_equal(stack_edit_cut(s, deep, name), deep); /* no tracer is that deep */
	assert_int_equal(stack_edit_cut(s, 0, name), 0);
	stack_edit_free(s);
	profile_free(p);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_found_by_thread_and_beginning),
		cmocka_unit_test(test_removed_ones_are_new_again),
		cmocka_unit_test(test_no_more_than_the_cap),
		cmocka_unit_test(test_flushed_once),
		cmocka_unit_test(test_joined_stacks),
		cmocka_unit_test(test_cut_stacks),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
