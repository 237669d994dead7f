/*
 * Another kind of store, by the table of operations alone: it answers nothing, and writes down what
 * it was asked as SQL. So a question reaches a store as data that says all there is to know.
 */
#include "unit/unit.h"

#include "query/selector.h"
#include "store/operations.h"

struct fake {
	struct store_options o;
	char sql[1024];
	int fails; /* what sum returns */
	bool closed;
};

static struct fake fake;

static int fake_open(const char *where, const struct store_options *o, void **ret,
		     struct store_error *ret_err)
{
	fake = (struct fake){.o = *o};
	*ret = &fake;
	if (strcmp(where, "sql://there") == 0)
		return 0;
	snprintf(ret_err->text, sizeof(ret_err->text), "%s does not answer", where);
	return -ECONNREFUSED;
}

static void fake_close(void *self)
{
	((struct fake *)self)->closed = true;
}

static void write_condition(FILE *f, const struct matcher *m)
{
	static const char *const forms[] = {
		[MATCHER_EQUAL] = " AND %s = '%s'",
		[MATCHER_NOT_EQUAL] = " AND %s != '%s'",
		[MATCHER_REGEX] = " AND match(%s, '^(%s)$')",
		[MATCHER_NOT_REGEX] = " AND NOT match(%s, '^(%s)$')",
		[MATCHER_PREFIX] = " AND startsWith(%s, '%s')",
	};

	assert_true(m->op < ARRAY_SIZE(forms));
	assert_int_equal(m->compiled != NULL, m->op == MATCHER_REGEX || m->op == MATCHER_NOT_REGEX);
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
	fprintf(f, forms[m->op], m->label, m->value);
#pragma GCC diagnostic pop
}

static int fake_sum(void *self, const struct store_query *q, struct profile *into,
		    struct store_answer *ret, struct store_error *ret_err)
{
	struct fake *s = self;
	FILE *f = fmemopen(s->sql, sizeof(s->sql), "w");

	(void)into;
	assert_string_equal(ret_err->text, ""); /* whatever was in it before */
	fputs("SELECT stack", f);
	for (size_t i = 0; i < q->by_count; i++)
		fprintf(f, ", %s", q->by[i]);
	fprintf(f, ", sum(value) FROM samples WHERE type = '%s' AND ms >= %lu AND ms < %lu",
		q->type, q->from_ms, q->to_ms);
	for (size_t i = 0; i < q->matcher_count; i++)
		write_condition(f, &q->matchers[i]);
	fclose(f);
	ret->samples = 7;
	return s->fails;
}

static int fake_names(void *self, const struct store_query *q, enum store_names_of of,
		      struct store_names *ret, struct store_error *ret_err)
{
	(void)self, (void)q, (void)ret_err;
	assert_int_equal(of, STORE_TYPES);
	*ret = (struct store_names){.names = mem_alloc_array(1, sizeof(char *)), .count = 1};
	ret->names[0] = mem_strdup("heap");
	return 0;
}

static const struct store_operations fake_operations = {
	.prefix = "sql://",
	.open = fake_open,
	.close = fake_close,
	.sum = fake_sum,
	.names = fake_names,
};

static struct store *open_fake(void)
{
	struct store *s;

	assert_int_equal(store_open_kind(&fake_operations, "sql://there", NULL, &s, NULL), 0);
	return s;
}

/* As the server does it: parsed, settled by what is stored, asked. */
static const char *ask(const char *text, const char *container)
{
	static const char *const by[] = {"comm", "pid"};
	struct store_query q = {.from_ms = 10000, .to_ms = 20000, .by = by, .by_count = 2};
	struct selector_error err = {};
	struct store_answer a = {};
	struct selector *selector;
	struct store *s = open_fake();

	assert_int_equal(selector_parse(text, &selector, &err), 0);
	if (container)
		selector_require_prefix(selector, "container", container);
	assert_int_equal(selector_resolve_by(selector, s, q.from_ms, q.to_ms, NULL), 0);
	selector_query(selector, &q);
	assert_int_equal(store_sum(s, &q, NULL, &a, NULL), 0);
	assert_int_equal(a.samples, 7);
	selector_free(selector);
	store_close(s);
	assert_true(fake.closed);
	return fake.sql;
}

#define SELECT "SELECT stack, comm, pid, sum(value) FROM samples WHERE type = "
#define RANGE  " AND ms >= 10000 AND ms < 20000"

static void a_question_can_be_translated(void **state)
{
	(void)state;
	assert_string_equal(ask("cpu", NULL), SELECT "'cpu'" RANGE);
	assert_string_equal(ask("heap", NULL), SELECT "'heap'" RANGE);
	assert_string_equal(ask("nginx", NULL), SELECT "'cpu'" RANGE " AND comm = 'nginx'");
	assert_string_equal(
		ask("cpu{comm=~\"a.*\", pod!=\"\", unit!~'x|y', pid='7'}", "0123456789ab"),
		SELECT "'cpu'" RANGE " AND startsWith(container, '0123456789ab')"
		       " AND match(comm, '^(a.*)$') AND pod != ''"
		       " AND NOT match(unit, '^(x|y)$') AND pid = '7'");
}

static void what_a_kind_does_not_say_is_said(void **state)
{
	(void)state;
	struct store_query q = {.type = "cpu"};
	struct store_error e = {.text = "of before"};
	struct store_answer a;
	struct store *s;

	assert_int_equal(store_open_kind(&fake_operations, "sql://gone", NULL, &s, &e),
			 -ECONNREFUSED);
	assert_string_equal(e.text, "sql://gone does not answer");
	s = open_fake();
	assert_int_equal(fake.o.max_bytes, (uint64_t)STORE_MAX_GIB << 30); /* defaults are in */
	fake.fails = -EIO;
	assert_int_equal(store_sum(s, &q, NULL, &a, &e), -EIO);
	assert_string_equal(e.text, "the store could not be read: Input/output error");
	fake.fails = -ENODATA;
	assert_int_equal(store_sum(s, &q, NULL, &a, &e), -ENODATA);
	assert_non_null(strstr(e.text, "are not kept for that long"));
	store_close(s);
	store_close(NULL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_question_can_be_translated),
		cmocka_unit_test(what_a_kind_does_not_say_is_said),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
