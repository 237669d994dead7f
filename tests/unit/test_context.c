/* What processes say of themselves: where it is found, and what is read of it. */
#include "unit/unit.h"

#include <stdbool.h>
#include <stdint.h>

#include "process/context.h"
#include "workloads/otel.h"

static void mappings_of_each_form_are_found(void **state)
{
	static const char text[] =
		"00400000-00401000 r--p 00000000 fe:00 42    /usr/bin/OTEL_CTX\n"
		"7f0000001000-7f0000003000 rw-p 00000000 00:01 7      /memfd:OTEL_CTX (deleted)\n"
		"7f0000004000-7f0000006000 ---p 00000000 00:01 7      /memfd:OTEL_CTX (deleted)\n"
		"7f0000007000-7f0000008000 r--p 00000000 00:00 0      [anon:OTEL_CTX]\n"
		"7f0000008000-7f0000009000 r--p 00000000 00:00 0      [anon:OTEL]\n"
		"7f0000009000-7f000000a000 rw-s 00000000 00:00 0      [anon_shmem:OTEL_CTX]\n"
		"7f000000a000-7f000000b000 r--p 00000000 00:00 0      [anon:OTEL_CTX";
	uint64_t at[CONTEXT_FOUND_MAX];

	(void)state;
	assert_int_equal(context_find(text, strlen(text), at), 3);
	assert_int_equal(at[0], 0x7f0000001000);
	assert_int_equal(at[1], 0x7f0000007000);
	assert_int_equal(at[2], 0x7f0000009000);
	assert_int_equal(context_find("", 0, at), 0);
}

static void a_hostile_list_costs_no_more_than_its_length(void **state)
{
	static const char line[] = "1-2 r--p 0 0:0 1 /tmp/OTEL_CTX\n";
	size_t count = 200000, len = strlen(line);
	char *text = malloc(count * len + 1);
	uint64_t at[CONTEXT_FOUND_MAX], before = otel_now();

	(void)state;
	for (size_t i = 0; i < count; i++)
		memcpy(text + i * len, line, len);
	text[count * len] = '\0';
	assert_int_equal(context_find(text, count * len, at), 0);
	assert_true(otel_now() - before < 2000000000u);
	free(text);
}

static void attributes_are_read(void **state)
{
	struct context_payload p;
	struct otel_bytes b = {};

	(void)state;
	otel_context(&b, "shop", "2.4.1", "staging");
	assert_int_equal(context_payload_read(b.at, b.len, &p), 0);
	assert_string_equal(p.service, "shop");
	assert_string_equal(p.version, "2.4.1");
	assert_string_equal(p.environment, "staging");
	assert_true(p.has_threads);
}

static struct context_payload read_one(const char *key, const char *value)
{
	struct otel_bytes resource = {}, b = {};
	struct context_payload p;

	otel_attribute(&resource, 1, key, value);
	otel_field(&b, 1, resource.at, resource.len);
	assert_int_equal(context_payload_read(b.at, b.len, &p), 0);
	return p;
}

static void what_says_nothing_is_nothing(void **state)
{
	char all[800];

	(void)state;
	assert_string_equal(read_one("service.name", "unknown_service:java").service, "");
	assert_string_equal(read_one("service.names", "x").service, "");
	assert_string_equal(read_one("deployment.environment", "old").environment, "old");
	assert_string_equal(read_one("service.name", "a\x1b[2J").service, "a\xef\xbf\xbd[2J");
	memset(all, 'x', sizeof(all));
	all[sizeof(all) - 1] = '\0';
	assert_int_equal(strlen(read_one("service.version", all).version), CONTEXT_VALUE_MAX);
}

static void each_cut_of_a_context_is_harmless(void **state)
{
	struct context_payload p;
	struct otel_bytes b = {};
	unsigned whole = 0;

	(void)state;
	otel_context(&b, "shop", "2.4.1", "staging");
	for (size_t len = 0; len < b.len; len++) {
		uint8_t *exact = malloc(len + 1);
		memcpy(exact, b.at, len);
		whole += context_payload_read(exact, len, &p) == 0;
		free(exact);
	}
	assert_int_equal(whole, 2); /* nothing, and the resource alone */
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(mappings_of_each_form_are_found),
		cmocka_unit_test(a_hostile_list_costs_no_more_than_its_length),
		cmocka_unit_test(attributes_are_read),
		cmocka_unit_test(what_says_nothing_is_nothing),
		cmocka_unit_test(each_cut_of_a_context_is_harmless),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
