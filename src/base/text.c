#include "base/text.h"

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#define REPLACEMENT "\xef\xbf\xbd"
#define ELLIPSIS    "\xe2\x80\xa6"

int text_is_plain(const char *s, size_t len)
{
	if (len > TEXT_MAX)
		return false;
	for (size_t i = 0; i < len; i++)
		if ((unsigned char)s[i] < 0x20 || (unsigned char)s[i] >= 0x7f)
			return false;
	return true;
}

/* The length of the valid UTF-8 sequence at s, or 0. */
static size_t decode(const unsigned char *s, size_t len, uint32_t *ret_cp)
{
	static const uint32_t least[] = {0, 0, 0x80, 0x800, 0x10000};
	size_t n = s[0] < 0x80                   ? 1
		   : s[0] >= 0xc2 && s[0] < 0xe0 ? 2
		   : s[0] >= 0xe0 && s[0] < 0xf0 ? 3
		   : s[0] >= 0xf0 && s[0] < 0xf5 ? 4
						 : 0;
	if (n == 0 || n > len)
		return 0;

	uint32_t cp = n == 1 ? s[0] : s[0] & (0x7fu >> n);
	for (size_t i = 1; i < n; i++) {
		if ((s[i] & 0xc0) != 0x80)
			return 0;
		cp = cp << 6 | (s[i] & 0x3f);
	}
	if (cp < least[n] || cp > 0x10ffff || (cp >= 0xd800 && cp < 0xe000))
		return 0;
	*ret_cp = cp;
	return n;
}

/* Control characters, and marks that change the direction of text. */
static bool unfit(uint32_t cp)
{
	return cp < 0x20 || (cp >= 0x7f && cp < 0xa0) || cp == 0x61c || cp == 0x200e ||
	       cp == 0x200f || (cp >= 0x2028 && cp <= 0x202e) || (cp >= 0x2066 && cp <= 0x2069) ||
	       cp == 0xfeff || (cp & 0xfffe) == 0xfffe;
}

size_t text_clean(const char *s, size_t len, char ret[static TEXT_MAX + 1])
{
	size_t n = 0;

	for (size_t i = 0; i < len;) {
		uint32_t cp;
		size_t step = decode((const unsigned char *)s + i, len - i, &cp);
		bool keep = step && !unfit(cp);
		size_t width = keep ? step : strlen(REPLACEMENT);
		size_t tail = i + (step ? step : 1) < len ? strlen(ELLIPSIS) : 0;

		if (n + width + tail > TEXT_MAX) {
			memcpy(ret + n, ELLIPSIS, strlen(ELLIPSIS));
			n += strlen(ELLIPSIS);
			break;
		}
		memcpy(ret + n, keep ? s + i : REPLACEMENT, width);
		n += width;
		i += step ? step : 1;
	}
	ret[n] = '\0';
	return n;
}

const char *text_parse_hex(const char *s, const char *end, uint64_t *ret)
{
	uint64_t v = 0;

	for (; s < end; s++) {
		unsigned c = (unsigned char)*s;
		unsigned d = c - '0' < 10 ? c - '0' : (c | 32) - 'a' < 6 ? (c | 32) - 'a' + 10 : 16;
		if (d == 16)
			break;
		if (v >> 60)
			return NULL;
		v = v << 4 | d;
	}
	*ret = v;
	return s;
}

char *text_hex_bytes(const uint8_t *bytes, size_t len, char *ret)
{
	static const char digits[] = "0123456789abcdef";

	for (size_t i = 0; i < len; i++) {
		ret[2 * i] = digits[bytes[i] >> 4];
		ret[2 * i + 1] = digits[bytes[i] & 15];
	}
	ret[2 * len] = '\0';
	return ret;
}

bool text_parse_hex_bytes(const char *s, size_t s_len, uint8_t *ret, size_t len)
{
	if (s_len != 2 * len)
		return false;
	for (size_t i = 0; i < len; i++) {
		const char *end = s + 2 * i + 2;
		uint64_t byte = 0;
		if (text_parse_hex(end - 2, end, &byte) != end)
			return false;
		ret[i] = (uint8_t)byte;
	}
	return true;
}

void text_clean_to(const char *s, size_t len, char *ret, size_t size)
{
	char clean[TEXT_MAX + 1] = "";
	size_t all = text_clean(s, len, clean), n = all < size ? all : size - 1;

	while (n && n < all && n <= TEXT_MAX && ((unsigned char)clean[n] & 0xc0) == 0x80)
		n--;
	memcpy(ret, clean, n);
	ret[n] = '\0';
}
