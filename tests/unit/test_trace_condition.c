#include "unit/unit.h"

#include "base/mem.h"
#include "cli/trace_condition.h"

static struct syscall_calls *calls;

static int set_up(void **state)
{
	(void)state;
	calls = syscall_calls_new();
	return 0;
}

static int tear_down(void **state)
{
	(void)state;
	syscall_calls_free(calls);
	return 0;
}

static uint32_t number_of(const char *name)
{
	return (uint32_t)syscall_names_number(syscall_calls_own(calls), name);
}

static struct trace_record called(const char *name, int64_t result, uint64_t ns)
{
	return (struct trace_record){
		.kind = TRACE_CALL,
		.call = number_of(name),
		.start = 1000,
		.end = 1000 + ns,
		.result = result,
		.pid = 7,
		.tid = 8,
	};
}

static bool holds(const char *text, struct trace_record r)
{
	CLEANUP(freep) struct trace_condition *c = mem_alloc(sizeof(*c));
	char *word = NULL;

	assert_int_equal(trace_condition_parse(text, calls, c, &word), 0);
	assert_null(word);
	return trace_condition_holds(c, &r);
}

static void how_long_a_call_took(void **state)
{
	(void)state;
	assert_false(holds(">100ms", called("read", 5, 99999999)));
	assert_true(holds(">100ms", called("read", 5, 100000000)));
	assert_true(holds(">100ms", called("fsync", -EIO, 200000000)));
	assert_true(holds("fsync>1s", called("fsync", 0, 1000000000)));
	assert_false(holds("fsync>1s", called("fsync", 0, 999999999)));
	assert_false(holds("fsync>1s", called("read", 0, 5000000000)));
}

static void how_a_call_failed(void **state)
{
	(void)state;
	assert_true(holds("=EIO", called("read", -EIO, 1)));
	assert_true(holds("=EIO", called("fsync", -EIO, 1)));
	assert_true(holds("=5", called("fsync", -EIO, 1)));
	assert_false(holds("=EIO", called("read", -EINTR, 1)));
	assert_false(holds("=EIO", called("read", EIO, 1)));
	assert_false(holds("=EIO", called("read", 0, 1)));
	assert_true(holds("openat=ENOENT", called("openat", -ENOENT, 1)));
	assert_false(holds("openat=ENOENT", called("openat", -EACCES, 1)));
	assert_false(holds("openat=ENOENT", called("access", -ENOENT, 1)));
}

static void that_it_is_called(void **state)
{
	(void)state;
	assert_true(holds("fsync", called("fsync", 0, 1)));
	assert_true(holds("fsync", called("fsync", -EIO, 0)));
	assert_false(holds("fsync", called("fdatasync", 0, 1)));
	assert_true(holds("%network", called("connect", 0, 1)));
	assert_false(holds("%network", called("read", 0, 1)));
	struct trace_record r = called("fsync", 0, 1);
	r.kind = TRACE_NO_RETURN; /* its thread ended in it, so how long it takes is not known */
	assert_false(holds("fsync", r));
	r.kind = TRACE_SIGNAL;
	assert_false(holds("fsync,>0", r));
	r.kind = TRACE_CALL;
	r.call = SYSCALL_CALLS;
	assert_false(holds("fsync,>0", r));
}

static void that_a_process_ends(void **state)
{
	struct trace_record r = {.kind = TRACE_ENDED, .pid = 7, .tid = 7};

	(void)state;
	assert_true(holds("end", r));
	assert_false(holds("fsync,=EIO", r));
	r.tid = 8; /* a thread of it */
	assert_false(holds("end", r));
	assert_false(holds("end", called("exit_group", 0, 1)));
}

static void any_of_several(void **state)
{
	static const char text[] = "fsync>1s,=EIO,end";

	(void)state;
	assert_true(holds(text, called("fsync", 0, 2000000000)));
	assert_true(holds(text, called("write", -EIO, 1)));
	assert_true(holds(text, (struct trace_record){.kind = TRACE_ENDED, .pid = 1, .tid = 1}));
	assert_false(holds(text, called("write", 1, 2000000000)));
}

static void refused(const char *text, const char *word)
{
	CLEANUP(freep) struct trace_condition *c = mem_alloc(sizeof(*c));
	CLEANUP(freep) char *why = NULL;

	assert_int_equal(trace_condition_parse(text, calls, c, &why), -EINVAL);
	assert_string_equal(why, word);
}

static void what_is_no_condition(void **state)
{
	char many[TRACE_CONDITIONS_MAX * 5 + 8] = "";

	(void)state;
	refused("", "");
	refused(",", ",");
	refused("nonsense", "nonsense");
	refused("end,fsync>soon", "fsync>soon");
	refused("=EOI", "=EOI");
	refused("=", "=");
	refused(">", ">");
	refused("opemat=ENOENT,end", "opemat=ENOENT");
	refused("%nothing", "%nothing");
	for (int i = 0; i <= TRACE_CONDITIONS_MAX; i++)
		strcat(many, i == TRACE_CONDITIONS_MAX ? "end" : "read,");
	refused(many, "end");
	struct trace_condition *none = mem_alloc(sizeof(*none));
	struct trace_record r = called("read", -EIO, 1);
	assert_false(trace_condition_holds(none, &r));
	free(none);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(how_long_a_call_took), cmocka_unit_test(how_a_call_failed),
		cmocka_unit_test(that_it_is_called),    cmocka_unit_test(that_a_process_ends),
		cmocka_unit_test(any_of_several),       cmocka_unit_test(what_is_no_condition),
	};

	return cmocka_run_group_tests(tests, set_up, tear_down);
}
