/* Addresses to listen on. */
#include "unit/unit.h"

#include "base/mem.h"
#include "serve/listen.h"

/* What a person types to reach it from the same machine. */
static void its_url_is_one_that_can_be_opened(void **state)
{
	static const struct {
		const char *listen;
		bool tls;
		const char *url;
	} cases[] = {
		{"127.0.0.1:7117", false, "http://127.0.0.1:7117"},
		{"7118", false, "http://127.0.0.1:7118"},
		{"localhost:7118", true, "https://localhost:7118"},
		{":7118", false, "http://127.0.0.1:7118"},
		{"0.0.0.0:7118", true, "https://127.0.0.1:7118"},
		{"10.1.2.3:80", false, "http://10.1.2.3:80"},
		{"[::1]:7118", false, "http://[::1]:7118"},
		{"[::]:7118", false, "http://[::1]:7118"},
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		CLEANUP(freep) char *url = listen_url(cases[i].listen, cases[i].tls);
		assert_string_equal(url, cases[i].url);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(its_url_is_one_that_can_be_opened),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
