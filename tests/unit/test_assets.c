/*
 * The page in the binary: what it names is there, packed, and no more than it may be.
 */
#include <zlib.h>

#include "serve/assets.h"
#include "unit.h"

#define PAGE_MAX (1 << 20)

/* The unpacked text, with a 0 behind it; caller frees. */
static char *unpack(const struct asset *a)
{
	char *text = malloc(PAGE_MAX + 1);
	z_stream z = {
		.next_in = (unsigned char *)(uintptr_t)a->bytes,
		.avail_in = (uInt)a->len,
		.next_out = (unsigned char *)text,
		.avail_out = PAGE_MAX,
	};

	assert_int_equal(inflateInit2(&z, 16 + MAX_WBITS), Z_OK);
	assert_int_equal(inflate(&z, Z_FINISH), Z_STREAM_END);
	text[z.total_out] = '\0';
	inflateEnd(&z);
	return text;
}

static void the_page_names_its_parts(void **state)
{
	(void)state;
	const struct asset *page = assets_find("/");

	assert_non_null(page);
	assert_ptr_equal(page, assets_find("/index.html"));
	assert_false(page->fixed);
	assert_non_null(strstr(page->type, "text/html"));
	char *html = unpack(page);
	size_t parts = 0;
	for (size_t i = 0; assets_at(i); i++) {
		const struct asset *a = assets_at(i);
		if (a == page)
			continue;
		parts++;
		assert_true(a->fixed);
		assert_ptr_equal(assets_find(a->path), a);
		assert_non_null(strstr(html, a->path + 1));
	}
	assert_true(parts >= 3); /* a script, a style, an icon */
	free(html);
}

static void nothing_is_inline_or_from_elsewhere(void **state)
{
	(void)state;
	char *html = unpack(assets_find("/"));

	assert_null(strstr(html, "<style"));
	assert_null(strstr(html, "style="));
	assert_null(strstr(html, "http:"));
	assert_null(strstr(html, "https:"));
	for (const char *s = html; (s = strstr(s, "<script")); s++)
		assert_true(strstr(s, " src=\"assets/") < strchr(s, '>'));
	free(html);
}

static void all_of_it_is_small(void **state)
{
	(void)state;
	size_t sum = 0;

	for (size_t i = 0; assets_at(i); i++) {
		const struct asset *a = assets_at(i);
		assert_true(a->etag[0] == '"' && strlen(a->etag) == 14);
		assert_true(a->bytes[0] == 0x1f && a->bytes[1] == 0x8b);
		sum += a->len;
	}
	assert_true(sum > 10000);
	assert_true(sum <= 81000);
}

static void other_paths_are_not_there(void **state)
{
	(void)state;
	assert_null(assets_find(""));
	assert_null(assets_find("/assets/"));
	assert_null(assets_find("/assets/../"));
	assert_null(assets_find("//"));
	assert_null(assets_find("/assets/app.js"));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_page_names_its_parts),
		cmocka_unit_test(nothing_is_inline_or_from_elsewhere),
		cmocka_unit_test(all_of_it_is_small),
		cmocka_unit_test(other_paths_are_not_there),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
