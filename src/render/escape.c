#include "render/escape.h"

#include <string.h>

/* Writes s, with what `replace` returns in place of the characters that it does not return NULL
 * for. */
static void escape(FILE *out, const char *s, size_t len, const char *(*replace)(char c))
{
	size_t from = 0;

	for (size_t i = 0; i < len; i++) {
		const char *r = replace(s[i]);
		if (!r)
			continue;
		fwrite_unlocked(s + from, 1, i - from, out);
		fputs_unlocked(r, out);
		from = i + 1;
	}
	fwrite_unlocked(s + from, 1, len - from, out);
}

static const char *json_character(char c)
{
	switch (c) {
	case '"':
		return "\\\"";
	case '\\':
		return "\\\\";
	case '<':
		return "\\u003c";
	case '>':
		return "\\u003e";
	case '&':
		return "\\u0026";
	default:
		return (unsigned char)c < 0x20 ? "\\ufffd" : NULL;
	}
}

void escape_json(FILE *out, const char *s, size_t len)
{
	putc_unlocked('"', out);
	escape(out, s, len, json_character);
	putc_unlocked('"', out);
}

static const char *xml_character(char c)
{
	switch (c) {
	case '<':
		return "&lt;";
	case '>':
		return "&gt;";
	case '&':
		return "&amp;";
	case '"':
		return "&quot;";
	case '\'':
		return "&#39;";
	default:
		return (unsigned char)c < 0x20 ? "\xef\xbf\xbd" : NULL;
	}
}

void escape_xml(FILE *out, const char *s, size_t len)
{
	escape(out, s, len, xml_character);
}

void escape_number(FILE *out, uint64_t n)
{
	char digits[20];
	size_t at = sizeof(digits);

	do
		digits[--at] = (char)('0' + n % 10);
	while (n /= 10);
	fwrite_unlocked(digits + at, 1, sizeof(digits) - at, out);
}
