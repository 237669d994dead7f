#include "unit/unit.h"

#include <time.h>

#include "query/selector.h"
#include "query/timerange.h"

/* ---- selectors ---------------------------------------------------------------------------- */

static const struct matcher_label nginx[] = {
	{"comm", "nginx"}, {"pid", "12"}, {"unit", "web.service"}, {"a.b", "x\"y\n"}};

/* Whether a selector takes a series with these labels; *ret_why: a pattern ran into a limit. */
static bool accepts(const struct selector *s, const struct matcher_label *labels, size_t count,
		    struct matcher_error *ret_why)
{
	struct store_query q;
	struct matching m;

	selector_query(s, &q);
	matching_init(&m, q.matchers, q.matcher_count);
	bool yes = matching_accepts(&m, labels, count);
	if (matching_failed(&m, ret_why)) {
		assert_false(yes);
		assert_false(matching_accepts(&m, nginx, 1)); /* and stays so */
	}
	matching_done(&m);
	return yes;
}

static bool matches(const char *text)
{
	struct selector_error err = {};
	struct matcher_error why = {};
	struct selector *s;

	if (selector_parse(text, &s, &err))
		fail_msg("%s: %s", text, err.text);
	bool yes = accepts(s, nginx, ARRAY_SIZE(nginx), &why);
	assert_string_equal(why.text, "");
	selector_free(s);
	return yes;
}

static void operators_match_as_in_prometheus(void **state)
{
	(void)state;
	static const struct {
		const char *text;
		bool yes;
	} cases[] = {
		{"cpu", true},
		{" cpu { } ", true},
		{"{comm=\"nginx\"}", true},
		{"cpu{comm=\"ngin\"}", false},
		{"cpu{comm!=\"ngin\"}", true},
		{"cpu{comm=~\"ngin\"}", false}, /* anchored at both ends */
		{"cpu{comm=~\"ngin.\"}", true},
		{"cpu{comm=~\"a|nginx|b\"}", true},
		{"cpu{comm=~\"a|ngin|b\"}", false},
		{"cpu{comm!~\"ngin\"}", true},
		{"cpu{comm!~\"n.*\"}", false},
		{"cpu{comm=\"nginx\",pid=\"12\",}", true},
		{"cpu{comm=\"nginx\",pid=\"13\"}", false},
		{"cpu{pod=\"\"}", true}, /* a label that is not there is empty */
		{"cpu{pod!=\"\"}", false},
		{"cpu{pod=~\".*\"}", true},
		{"cpu{pod=~\".+\"}", false},
		{"cpu{comm='\\x6eginx'}", true},
		{"cpu{comm=\"\\156\\u0067inx\"}", true},
		{"cpu{comm=`nginx`}", true},
		{"cpu{comm=~`n\\w+`}", true},
		{"cpu{unit=~\"web\\\\.service\"}", true},
		{"cpu{'a.b'=\"x\\\"y\\n\"}", true},
		{"cpu{\"a.b\"=~'x.y.'}", true}, /* a dot is any character */
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++)
		if (matches(cases[i].text) != cases[i].yes)
			fail_msg("%s should be %d", cases[i].text, cases[i].yes);
}

static void types_have_colons(void **state)
{
	(void)state;
	struct selector_error err = {};
	struct store_query q;
	struct selector *s;

	assert_int_equal(selector_parse("heap:inuse_space{a='b'}", &s, &err), 0);
	selector_query(s, &q);
	assert_string_equal(q.type, "heap:inuse_space");
	selector_free(s);
	assert_int_equal(selector_parse("{}", &s, &err), 0);
	selector_query(s, &q);
	assert_string_equal(q.type, "cpu");
	selector_free(s);
}

/* What a store gets: translated into its own language, these three are all it needs. */
static void matchers_are_data(void **state)
{
	(void)state;
	static const struct {
		const char *label, *value;
		enum matcher_op op;
	} want[] = {{"comm", "tokio-runtime-w", MATCHER_EQUAL},
		    {"container", "0123456789ab", MATCHER_PREFIX},
		    {"pid", "12", MATCHER_EQUAL},
		    {"a", "1", MATCHER_NOT_EQUAL},
		    {"b", "2.*", MATCHER_NOT_REGEX}};
	const struct matcher_label in[] = {
		{"comm", "tokio-runtime-w"}, {"container", "0123456789abcdef"}, {"pid", "12"}};
	const struct matcher_label out[] = {in[0], {"container", "123456789abcdef"}, in[2]};
	struct selector_error err = {};
	struct matcher_error why = {};
	struct store_query q;
	struct selector *s;

	assert_int_equal(selector_parse("{a!='1', b!~'2.*'}", &s, &err), 0);
	selector_require(s, "pid", "12");
	selector_require_prefix(s, "container", "0123456789ab");
	selector_require_comm(s, "tokio-runtime-worker");
	selector_query(s, &q);
	assert_int_equal(q.matcher_count, ARRAY_SIZE(want));
	for (size_t i = 0; i < ARRAY_SIZE(want); i++) {
		assert_string_equal(q.matchers[i].label, want[i].label);
		assert_string_equal(q.matchers[i].value, want[i].value);
		assert_int_equal(q.matchers[i].op, want[i].op);
	}
	assert_true(accepts(s, in, ARRAY_SIZE(in), &why));
	assert_false(accepts(s, out, ARRAY_SIZE(out), &why));
	selector_free(s);
}

static void a_word_that_is_no_type_is_a_process(void **state)
{
	(void)state;
	char *heap[] = {(char *)"heap"};
	const struct store_names types = {.names = heap, .count = 1};
	static const struct {
		const char *text, *type, *process;
	} cases[] = {
		{"cpu", "cpu", NULL},
		{"heap", "heap", NULL},
		{"nginx", "cpu", "nginx"},
		{" nginx ", "cpu", "nginx"},
		{"redis-server", "cpu", "redis-server"},
		{"python3.11", "cpu", "python3.11"},
		{"kworker/0:1", "cpu", "kworker/0:1"},
		{"7zz", "cpu", "7zz"},
		{"tokio-runtime-worker", "cpu", "tokio-runtime-w"}, /* as the kernel cuts it */
		{"nginx{}", "nginx", NULL}, /* who writes braces means a type */
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		struct selector_error err = {};
		struct store_query q;
		struct selector *s;
		assert_int_equal(selector_parse(cases[i].text, &s, &err), 0);
		selector_resolve(s, &types);
		selector_resolve(s, &types); /* once more changes nothing */
		selector_query(s, &q);
		assert_string_equal(q.type, cases[i].type);
		assert_int_equal(selector_is_process(s), cases[i].process != NULL);
		if (cases[i].process) {
			assert_int_equal(q.matcher_count, 1);
			assert_int_equal(q.matchers[0].op, MATCHER_EQUAL);
			assert_string_equal(q.matchers[0].label, "comm");
			assert_string_equal(q.matchers[0].value, cases[i].process);
		}
		selector_free(s);
	}
}

static void wrong_ones_are_told_where(void **state)
{
	(void)state;
	static const struct {
		const char *text, *says;
	} cases[] = {
		{"", "a type (cpu) or { is expected at character 1"},
		{"cpu{comm}", "one of = != =~ !~ is expected at character 9"},
		{"cpu{comm=nginx}", "a value in quotes is expected at character 10"},
		{"cpu{comm=\"nginx}", "the closing \" is missing at character 17"},
		{"cpu{comm=\"a\" pid=\"1\"}", "a comma or } is expected at character 14"},
		{"cpu{comm=\"a\"} x", "unexpected text at character 15"},
		{"cpu{comm=\"\\q\"}", "unknown escape sequence"},
		{"cpu{comm=\"\\'\"}", "unknown escape sequence"},
		{"cpu{comm=\"\\x00\"}", "cannot contain NUL"},
		{"cpu{comm=\"\\ud800\"}", "unknown escape sequence"},
		{"cpu{comm=~\"(\"}", "the regular expression for comm is invalid"},
		{"cpu{comm=~\"\\\\C\"}", "the regular expression for comm is invalid"},
		{"cpu{comm=~\"((a{1,999}){1,999}){1,999}\"}", "is invalid"},
		{"cpu{", "a label name is expected"},
		{"{,}", "a label name is expected"},
		{":x", "a type (cpu) or {"},
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		struct selector_error err = {};
		struct selector *s = NULL;
		assert_int_equal(selector_parse(cases[i].text, &s, &err), -EINVAL);
		if (!strstr(err.text, cases[i].says))
			fail_msg("'%s' says '%s'", cases[i].text, err.text);
	}
}

static void a_pattern_without_end_is_an_error(void **state)
{
	(void)state;
	const struct matcher_label labels[] = {
		{"comm", "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa!"}};
	static const char *const texts[] = {"cpu{comm=~\"(a+)+\"}", "cpu{comm!~\"(a|a|aa)+[bc]\"}"};

	for (size_t i = 0; i < ARRAY_SIZE(texts); i++) {
		struct selector_error err = {};
		struct selector *s;
		assert_int_equal(selector_parse(texts[i], &s, &err), 0);
		struct matcher_error why = {};
		assert_false(accepts(s, labels, 1, &why));
		assert_non_null(strstr(why.text, "takes too long"));
		selector_free(s);
	}
}

static void there_are_caps(void **state)
{
	(void)state;
	struct selector_error err = {};
	struct selector *s;
	char text[SELECTOR_MAX + 100] = "{";

	for (int i = 0; i <= SELECTOR_MATCHERS; i++)
		strcat(text, "a='',");
	strcat(text, "}");
	assert_int_equal(selector_parse(text, &s, &err), -EINVAL);
	assert_non_null(strstr(err.text, "more than 64"));

	memset(text, 'a', sizeof(text) - 1);
	text[sizeof(text) - 1] = '\0';
	assert_int_equal(selector_parse(text, &s, &err), -EINVAL);
	assert_non_null(strstr(err.text, "at most 4096"));

	text[MATCHER_PATTERN_MAX + 1] = '\0';
	CLEANUP(freep) char *pattern = mem_printf("{a=~'%s'}", text);
	assert_int_equal(selector_parse(pattern, &s, &err), -EINVAL);
	assert_non_null(strstr(err.text, "at most 1024"));
}

/* ---- times -------------------------------------------------------------------------------- */

/* 2026-11-15 10:00:00 in Berlin, an hour east of UTC; summer time ended on 2026-10-25. */
#define NOW  1794733200000ull
#define HOUR 3600000ull

static void in_berlin(void)
{
	setenv("TZ", "CET-1CEST,M3.5.0,M10.5.0/3", 1);
	tzset();
}

static void moments_are_understood(void **state)
{
	(void)state;
	static const struct {
		const char *text;
		uint64_t ms;
	} cases[] = {
		{"now", NOW},
		{"now-1h", NOW - HOUR},
		{"1h", NOW - HOUR},
		{"-1h", NOW - HOUR},
		{"5m", NOW - 5 * 60000},
		{"-1h30m", NOW - HOUR - HOUR / 2},
		{"now-1d12h", NOW - 36 * HOUR},
		{"now-1h+5m", NOW - 55 * 60000},
		{"now-250ms", NOW - 250},
		{"now-2w", NOW - 14 * 24 * HOUR},
		{"09:30", NOW - HOUR / 2},
		{"9:30:05", NOW - HOUR / 2 + 5000},
		{"10:00", NOW},
		{"10:01", NOW + 60000 - 24 * HOUR}, /* yesterday's: today's has not come */
		{"today", NOW - 10 * HOUR},
		{"today 14:02", NOW + 4 * HOUR + 120000},
		{"yesterday", NOW - 34 * HOUR},
		{"yesterday 14:02", NOW - 20 * HOUR + 120000},
		{"2026-11-15", NOW - 10 * HOUR},
		{"2026-11-15 09:00", NOW - HOUR},
		{"2026-11-15T09:00:00.250", NOW - HOUR + 250},
		{"2026-11-15T09:00:00Z", NOW},
		{"2026-11-15T09:00:00.5z", NOW + 500},
		{"2026-11-15T09:00:00+01:00", NOW - HOUR},
		{"2026-11-15T09:00:00-0530", NOW + 11 * HOUR / 2},
		{"2026-10-24", NOW - 22 * 24 * HOUR - 11 * HOUR}, /* in summer time */
		{"1794733200", NOW},
		{"1794733200.25", NOW + 250},
		{"1794733200000", NOW},
	};

	in_berlin();
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		struct timerange_error err;
		uint64_t ms;
		if (timerange_moment(cases[i].text, NOW, &ms, &err))
			fail_msg("%s", err.text);
		if (ms != cases[i].ms)
			fail_msg("%s: %+lld ms", cases[i].text, (long long)(ms - cases[i].ms));
	}
}

static void other_words_are_not(void **state)
{
	(void)state;
	static const char *const cases[] = {"",
					    "soon",
					    "now-",
					    "now-1",
					    "now-1y",
					    "now 1h",
					    "25:00",
					    "14:60",
					    "-1",
					    "2026-13-01",
					    "2026-11-15T",
					    "2026-11-15T25:00Z",
					    "14:02x",
					    "yesterday14:02",
					    "today ",
					    "99999999999999999999",
					    "now-99999999999w",
					    "2026-11-15T09:00:00+1",
					    "1e9",
					    "now-1h-",
					    "--5m",
					    "-",
					    "5m5",
					    "+5m"};

	in_berlin();
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		struct timerange_error err = {};
		uint64_t ms;
		int r = timerange_moment(cases[i], NOW, &ms, &err);
		if (r != -EINVAL)
			fail_msg("'%s' was understood as %llu", cases[i], (unsigned long long)ms);
		assert_non_null(strstr(err.text, "use now"));
	}
}

static void ranges_begin_before_they_end(void **state)
{
	(void)state;
	static const struct {
		const char *from, *to;
		int64_t from_off, to_off; /* from now */
	} cases[] = {
		{NULL, NULL, -(int64_t)HOUR, 0},
		{"now-2h", "", -2 * (int64_t)HOUR, 0},
		{"", "now-2h", -3 * (int64_t)HOUR, -2 * (int64_t)HOUR},
		{"08:00", "09:00", -2 * (int64_t)HOUR, -(int64_t)HOUR},
		{"23:50", "00:10", -10 * (int64_t)HOUR - 600000, -10 * (int64_t)HOUR + 600000},
		{"09:00", "18:00", -(int64_t)HOUR, 8 * (int64_t)HOUR},
		{"yesterday 14:00", "14:05", -20 * (int64_t)HOUR, -20 * (int64_t)HOUR + 300000},
	};
	struct timerange range;
	struct timerange_error err;

	in_berlin();
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		if (timerange_parse(cases[i].from, cases[i].to, NOW, &range, &err))
			fail_msg("%s", err.text);
		assert_int_equal((int64_t)(range.from_ms - NOW), cases[i].from_off);
		assert_int_equal((int64_t)(range.to_ms - NOW), cases[i].to_off);
	}
	assert_int_equal(timerange_parse("now", "now-1h", NOW, &range, &err), -EINVAL);
	assert_non_null(strstr(err.text, "empty"));
	assert_int_equal(timerange_parse("x", NULL, NOW, &range, &err), -EINVAL);
	assert_int_equal(timerange_parse(NULL, "x", NOW, &range, &err), -EINVAL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(operators_match_as_in_prometheus),
		cmocka_unit_test(types_have_colons),
		cmocka_unit_test(matchers_are_data),
		cmocka_unit_test(a_word_that_is_no_type_is_a_process),
		cmocka_unit_test(wrong_ones_are_told_where),
		cmocka_unit_test(a_pattern_without_end_is_an_error),
		cmocka_unit_test(there_are_caps),
		cmocka_unit_test(moments_are_understood),
		cmocka_unit_test(other_words_are_not),
		cmocka_unit_test(ranges_begin_before_they_end),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
