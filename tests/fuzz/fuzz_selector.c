/* Any text as a selector, and as a moment: parsed, and matched against a few series. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "query/selector.h"
#include "query/timerange.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const struct matcher_label labels[] = {
		{"comm", "nginx"}, {"a", "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa!"}};
	struct selector_error err = {};
	struct timerange_error time_err = {};
	struct matcher_error why = {};
	struct store_query q;
	struct matching m;
	struct selector *s;
	uint64_t ms;
	char *text = malloc(size + 1);

	memcpy(text, data, size);
	text[size] = '\0';
	if (selector_parse(text, &s, &err) == 0) {
		selector_resolve(s, &(struct store_names){});
		selector_query(s, &q);
		matching_init(&m, q.matchers, q.matcher_count);
		for (size_t n = 0; n <= 2; n++)
			matching_accepts(&m, labels, n);
		if (matching_failed(&m, &why) && !*why.text)
			__builtin_trap();
		matching_done(&m);
		selector_free(s);
	} else if (!*err.text) {
		__builtin_trap();
	}
	if (timerange_moment(text, 1794733200000, &ms, &time_err) && !*time_err.text)
		__builtin_trap();
	free(text);
	return 0;
}
