/* Findings: in messages, and in the store. */
#include "unit/unit.h"

#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

#include "profile/window.h"
#include "store/store.h"

#define NOW (1794700000000ull)

static char dir[] = "/tmp/test_findings_XXXXXX";

static struct finding a_finding(uint64_t id, uint64_t began_ms, uint64_t until_ms)
{
	struct finding f = {.id = id,
			    .began_ms = began_ms,
			    .until_ms = until_ms,
			    .pid = 7,
			    .tid = 8,
			    .sure = 0.9};

	memset(f.instance, 3, sizeof(f.instance));
	FINDING_SET(f.kind, "busy-poll");
	FINDING_SET(f.host, "web-1");
	FINDING_SET(f.comm, "poller");
	FINDING_SET(f.headline, "poller calls epoll_wait.");
	FINDING_SET(f.stack, "main;loop;epoll_wait");
	finding_fact(&f, "calls_per_second", 12.5);
	return f;
}

static struct window a_message(struct finding *f, uint32_t count, uint64_t at_ms)
{
	struct window w = {.start_ms = at_ms,
			   .length_ms = 10000,
			   .type = "findings",
			   .unit = "findings",
			   .sequence = 1,
			   .epoch = 1,
			   .findings = f,
			   .finding_count = count};

	memset(w.instance, 3, sizeof(w.instance));
	return w;
}

static void a_finding_arrives_as_it_was_sent(void **state)
{
	(void)state;
	struct profile *p = profile_new(), *copy = profile_new();
	struct finding f[2] = {a_finding(1, NOW, NOW + 5000), a_finding(2, NOW, NOW)};
	struct window w = a_message(f, 2, NOW), r;
	struct entries_mark mark = {};
	struct pack out = {};

	window_write(&w, p, &mark, SIZE_MAX / 2, &out);
	assert_int_equal(window_read(out.bytes, out.len, copy, &r), 0);
	assert_true(window_is_findings(&r));
	assert_int_equal(r.finding_count, 2);
	assert_memory_equal(r.findings, f, sizeof(f));
	window_done(&r);
	/* A byte more or less is refused. */
	pack_u64(&out, 0);
	assert_int_equal(window_read(out.bytes, out.len, profile_new(), &r), -EBADMSG);
	assert_int_equal(window_read(out.bytes, out.len - 2, profile_new(), &r), -EBADMSG);
	pack_done(&out);
	profile_free(p);
	profile_free(copy);
}

static void hostile_text_is_cleaned_and_cut(void **state)
{
	(void)state;
	struct finding f = a_finding(1, NOW, NOW);
	char longest[5000];

	FINDING_SET(f.comm, "a\x1b[31mb\nc");
	assert_null(strpbrk(f.comm, "\x1b\n"));
	memset(longest, 'x', sizeof(longest));
	longest[sizeof(longest) - 1] = '\0';
	FINDING_SET(f.stack, longest);
	assert_int_equal(strlen(f.stack), sizeof(f.stack) - 1);
	for (int i = 0; i < 2 * FINDING_FACTS; i++)
		finding_fact(&f, "n", i);
	assert_int_equal(f.fact_count, FINDING_FACTS);

	/* As a message has it, too: any byte of it may be wrong. */
	struct pack out = {};
	finding_write(&f, &out);
	for (size_t i = 0; i < out.len; i++) {
		struct finding r;
		uint8_t was = out.bytes[i];
		out.bytes[i] ^= 0x9b;
		struct unpack in = {out.bytes, out.bytes + out.len, false};
		finding_read(&in, &r);
		out.bytes[i] = was;
		if (!in.bad) {
			assert_null(strpbrk(r.headline, "\x1b\n\r"));
			assert_true(r.sure >= 0 && r.sure <= 1 && r.until_ms >= r.began_ms);
		}
	}
	pack_done(&out);
}

static uint32_t count_in(struct store *s, uint64_t from_ms, uint64_t to_ms, struct finding *ret)
{
	struct store_query q = {.from_ms = from_ms, .to_ms = to_ms};
	struct store_findings f;

	assert_int_equal(store_findings(s, &q, &f, NULL), 0);
	uint32_t count = f.count;
	if (ret && count)
		*ret = f.findings[0];
	store_findings_done(&f);
	return count;
}

/* What is told again replaces what was told, also over midnight; ranges find what lasts into them.
 */
static void the_store_has_each_once(void **state)
{
	(void)state;
	struct store_options o = {.retention_ms = 100 * 86400000ull};
	uint64_t midnight = NOW / 86400000 * 86400000 + 86400000;
	struct profile *dict = profile_new();
	struct store *s;
	struct finding got;

	assert_int_equal(store_open(dir, &o, &s, NULL), 0);
	for (int i = 0; i < 4; i++) {
		uint64_t now = midnight - 20000 + (uint64_t)i * 10000;
		struct finding f = a_finding(5, midnight - 20000, now);
		struct window w = a_message(&f, 1, now);
		assert_int_equal(store_append(s, dict, &w, now, NULL), 0);
	}
	assert_int_equal(count_in(s, midnight - 30000, midnight + 30000, &got), 1);
	assert_int_equal(got.began_ms, midnight - 20000);
	assert_int_equal(got.until_ms, midnight + 10000);
	assert_string_equal(got.headline, "poller calls epoll_wait.");
	assert_int_equal(got.fact_count, 1);
	assert_int_equal(count_in(s, midnight + 5000, midnight + 30000, NULL), 1);
	assert_int_equal(count_in(s, midnight + 10001, midnight + 30000, NULL), 0);
	assert_int_equal(count_in(s, midnight - 90000, midnight - 20000, NULL), 0);

	/* They are no profile. */
	struct store_query q = {.from_ms = midnight - 30000, .to_ms = midnight + 30000, .max = 10};
	struct store_names types;
	assert_int_equal(store_names(s, &q, STORE_TYPES, &types, NULL), 0);
	assert_int_equal(types.count, 0);
	store_names_done(&types);
	store_close(s);
	profile_free(dict);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_finding_arrives_as_it_was_sent),
		cmocka_unit_test(hostile_text_is_cleaned_and_cut),
		cmocka_unit_test(the_store_has_each_once),
	};

	if (!mkdtemp(dir))
		return 1;
	int failed = cmocka_run_group_tests(tests, NULL, NULL);
	char command[64];
	snprintf(command, sizeof(command), "rm -rf %s", dir);
	return system(command) || failed;
}
