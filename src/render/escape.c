#include "render/escape.h"

#include <string.h>

/* Writes s, but for the characters that `replace` has something for: that instead. */
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

void escape_url(FILE *out, const char *s)
{
	for (const unsigned char *c = (const unsigned char *)s; *c; c++)
		if ((*c >= '0' && *c <= '9') || (*c >= 'a' && *c <= 'z') ||
		    (*c >= 'A' && *c <= 'Z') || strchr("-._~", *c))
			putc_unlocked(*c, out);
		else
			fprintf(out, "%%%02X", *c);
}

size_t escape_digits(char ret[static ESCAPE_DIGITS], uint64_t n)
{
	size_t len = 1;

	for (uint64_t rest = n; rest >= 10; rest /= 10)
		len++;
	for (size_t i = len; i-- > 0; n /= 10)
		ret[i] = (char)('0' + n % 10);
	return len;
}

void escape_number(FILE *out, uint64_t n)
{
	char digits[ESCAPE_DIGITS];

	fwrite_unlocked(digits, 1, escape_digits(digits, n), out);
}
