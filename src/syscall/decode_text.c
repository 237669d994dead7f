#include "syscall/decode_internal.h"

#include <stdarg.h>

#include "base/mem.h"

#define CUT_MARK "..."

/* Room for `more` bytes and a NUL; false: no more fits, and the line ends in "...". */
static bool reserve(struct decode_text *t, size_t more)
{
	if (t->cut)
		return false;
	if (t->len + more > DECODE_MAX - sizeof(CUT_MARK)) {
		t->cut = true;
		memcpy(t->bytes + t->len, CUT_MARK, sizeof(CUT_MARK));
		t->len += sizeof(CUT_MARK) - 1;
		return false;
	}
	size_t need = t->len + more + sizeof(CUT_MARK) + 1;
	if (need > t->cap) {
		t->cap = MAX(need, t->cap ? t->cap * 2 : 1024);
		t->bytes = mem_resize_array(t->bytes, t->cap, 1);
	}
	return true;
}

void decode_text_done(struct decode_text *t)
{
	free(t->bytes);
	*t = (struct decode_text){};
}

void text_add_bytes(struct decode_text *t, const char *s, size_t len)
{
	if (!reserve(t, len))
		return;
	memcpy(t->bytes + t->len, s, len);
	t->len += len;
	t->bytes[t->len] = '\0';
}

void text_add(struct decode_text *t, const char *s)
{
	text_add_bytes(t, s, strlen(s));
}

void text_addf(struct decode_text *t, const char *fmt, ...)
{
	char buffer[512];
	va_list ap;

	va_start(ap, fmt);
	int n = vsnprintf(buffer, sizeof(buffer), fmt, ap);
	va_end(ap);
	if (n > 0)
		text_add_bytes(t, buffer, MIN((size_t)n, sizeof(buffer) - 1));
}

static void add_number(struct decode_text *t, uint64_t v, unsigned base)
{
	char digits[24], *at = digits + sizeof(digits);

	do {
		*--at = "0123456789abcdef"[v % base];
	} while (v /= base);
	text_add_bytes(t, at, (size_t)(digits + sizeof(digits) - at));
}

void text_unsigned(struct decode_text *t, uint64_t v)
{
	add_number(t, v, 10);
}

void text_int(struct decode_text *t, int64_t v)
{
	if (v < 0)
		text_add_bytes(t, "-", 1);
	add_number(t, v < 0 ? -(uint64_t)v : (uint64_t)v, 10);
}

void text_hex(struct decode_text *t, uint64_t v)
{
	if (v)
		text_add_bytes(t, "0x", 2);
	add_number(t, v, 16);
}

void text_address(struct decode_text *t, uint64_t v)
{
	if (v)
		text_hex(t, v);
	else
		text_add(t, "NULL");
}

void text_octal(struct decode_text *t, uint64_t v)
{
	if (v)
		text_add_bytes(t, "0", 1);
	add_number(t, v, 8);
}

const char *named_find(const struct named *names, uint64_t v)
{
	for (; names->name; names++)
		if (names->value == v)
			return names->name;
	return NULL;
}

void text_name(struct decode_text *t, const struct named *names, uint64_t v, const char *unknown)
{
	const char *name = named_find(names, v);

	if (name)
		text_add(t, name);
	else
		text_addf(t, "%#llx /* %s??? */", (unsigned long long)v, unknown);
}

void text_flags(struct decode_text *t, const struct named *names, uint64_t v, const char *unknown)
{
	const char *zero = v ? NULL : named_find(names, 0);
	const char *bar = "";

	if (!v) {
		text_add(t, zero ? zero : "0");
		return;
	}
	for (; names->name && v; names++) {
		if (!names->value || (v & names->value) != names->value)
			continue;
		text_add(t, bar);
		text_add(t, names->name);
		v &= ~names->value;
		bar = "|";
	}
	if (!v)
		return;
	text_add(t, bar);
	text_hex(t, v);
	if (!*bar && unknown)
		text_addf(t, " /* %s??? */", unknown);
}

static size_t quote_byte(char *to, unsigned char c, unsigned char next, bool hex)
{
	static const char plain[] = "\t\n\v\f\r\\\"", letter[] = "tnvfr\\\"";
	const char *at = c ? strchr(plain, c) : NULL;

	if (hex)
		return (size_t)sprintf(to, "\\x%02x", c);
	if (at) {
		to[0] = '\\';
		to[1] = letter[at - plain];
		return 2;
	}
	if (c >= ' ' && c < 0x7f) {
		to[0] = (char)c;
		return 1;
	}
	/* As short as it can be, unless what follows would be read as one more digit. */
	return (size_t)sprintf(to, next >= '0' && next <= '7' ? "\\%03o" : "\\%o", c);
}

void text_quote(struct decode_text *t, const void *bytes, size_t len, unsigned flags)
{
	const unsigned char *s = bytes;

	text_add_bytes(t, "\"", 1);
	for (size_t i = 0; i < len && !t->cut; i++) {
		char quoted[8];
		unsigned char next = i + 1 < len ? s[i + 1] : 0;
		size_t quoted_len = quote_byte(quoted, s[i], next, flags & QUOTE_HEX);
		text_add_bytes(t, quoted, quoted_len);
	}
	text_add(t, flags & QUOTE_CUT ? "\"..." : "\"");
}

void text_buffer(const struct decoding *d, const void *bytes, size_t have, uint64_t whole,
		 unsigned flags)
{
	size_t shown = MIN(have, d->o->string_max);

	text_quote(d->out, bytes, shown, flags | (shown < whole ? QUOTE_CUT : 0));
}
