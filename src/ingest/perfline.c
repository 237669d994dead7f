#include "ingest/perfline.h"

#include <string.h>

#define NSEC_PER_SEC 1000000000ull

/* A place in the line, moved over each field that is recognised. */
struct cursor {
	const char *at, *end;
};

static bool is_space(char c)
{
	return c == ' ' || c == '\t';
}

static bool is_digit(char c)
{
	return c >= '0' && c <= '9';
}

static int hex(char c)
{
	return is_digit(c)            ? c - '0'
	       : c >= 'a' && c <= 'f' ? c - 'a' + 10
	       : c >= 'A' && c <= 'F' ? c - 'A' + 10
				      : -1;
}

static void skip_space(struct cursor *c)
{
	while (c->at < c->end && is_space(*c->at))
		c->at++;
}

static struct perf_text trim(const char *s, const char *end)
{
	while (s < end && is_space(*s))
		s++;
	while (end > s && is_space(end[-1]))
		end--;
	return (struct perf_text){s, (size_t)(end - s)};
}

/* The next word, up to a space, without moving. */
static struct perf_text word(const struct cursor *c)
{
	const char *end = c->at;

	while (end < c->end && !is_space(*end))
		end++;
	return (struct perf_text){c->at, (size_t)(end - c->at)};
}

static size_t digits(const char *s, size_t len)
{
	size_t n = 0;

	while (n < len && is_digit(s[n]))
		n++;
	return n;
}

static void pass(struct cursor *c, size_t n)
{
	c->at += n;
	skip_space(c);
}

/* "123" or "123/456". */
static bool take_ids(struct cursor *c, struct perf_header *h)
{
	struct perf_text w = word(c);
	size_t n = digits(w.s, w.len);

	if (n == 0 || n > 10)
		return false;
	if (n == w.len) {
		h->tid = w;
	} else {
		size_t m = digits(w.s + n + 1, w.len - n - 1);
		if (w.s[n] != '/' || m == 0 || m > 10 || n + 1 + m != w.len)
			return false;
		h->pid = (struct perf_text){w.s, n};
		h->tid = (struct perf_text){w.s + n + 1, m};
	}
	pass(c, w.len);
	return true;
}

/* "[003]" */
static bool take_cpu(struct cursor *c)
{
	struct perf_text w = word(c);

	if (w.len < 3 || w.s[0] != '[' || w.s[w.len - 1] != ']' ||
	    digits(w.s + 1, w.len - 2) != w.len - 2)
		return false;
	pass(c, w.len);
	return true;
}

/* "1899.678725:", seconds with six or nine decimals */
static bool take_time(struct cursor *c, uint64_t *ret_ns)
{
	struct perf_text w = word(c);
	size_t whole = digits(w.s, w.len);

	if (whole == 0 || whole > 9 || whole >= w.len || w.s[whole] != '.')
		return false;
	size_t part = digits(w.s + whole + 1, w.len - whole - 1);
	if (part == 0 || part > 9 || whole + part + 2 != w.len || w.s[w.len - 1] != ':')
		return false;

	uint64_t sec = 0, ns = 0, unit = NSEC_PER_SEC;
	for (size_t i = 0; i < whole; i++)
		sec = sec * 10 + (uint64_t)(w.s[i] - '0');
	for (size_t i = 0; i < part; i++)
		ns += (uint64_t)(w.s[whole + 1 + i] - '0') * (unit /= 10);
	*ret_ns = sec * NSEC_PER_SEC + ns;
	pass(c, w.len);
	return true;
}

/* "cycles:u:", with the period before it or without */
static bool take_event(struct cursor *c, struct perf_text *ret)
{
	struct cursor at = *c;
	struct perf_text w = word(&at);

	if (w.len && digits(w.s, w.len) == w.len) {
		pass(&at, w.len);
		w = word(&at);
	}
	if (w.len < 2 || w.s[w.len - 1] != ':' || is_digit(w.s[0]))
		return false;
	pass(&at, w.len);
	*c = at;
	*ret = (struct perf_text){w.s, w.len - 1};
	return true;
}

/* What follows the comm. True if it is a row of known fields to the end of the line. */
static bool take_fields(struct cursor c, struct perf_header *h)
{
	bool ids = take_ids(&c, h);

	h->has_cpu = take_cpu(&c);
	h->has_time = take_time(&c, &h->time_ns);
	take_event(&c, &h->event);
	h->sure = h->has_cpu || h->has_time || h->event.len;

	struct perf_text rest = trim(c.at, c.end);
	h->has_frame = rest.len && perfline_frame(rest.s, rest.len, &h->frame);
	if (h->event.len) /* behind it may stand what a tracepoint prints */
		return true;
	return (ids || h->sure) && (rest.len == 0 || (h->has_frame && h->frame.symbol.len));
}

/* perf prints "%s %5d": a lone number with less room before it is a part of the comm. */
static bool is_padded(const struct perf_header *h)
{
	struct perf_text id = h->pid.len ? h->pid : h->tid;

	return !h->comm.len || id.s + id.len >= h->comm.s + h->comm.len + 6;
}

/*
 * Where the comm ends is known only by what follows it, and a comm may hold anything. A time is the
 * best sign; a number behind the comm is the next, then an event or a CPU. Without these, the last
 * number that fits is the thread's ("Web Content 3    12").
 */
bool perfline_header(const char *s, size_t len, struct perf_header *ret)
{
	struct cursor c = {s, s + len};
	int best = 0;

	skip_space(&c);
	const char *start = c.at;
	while (c.at < c.end) {
		struct perf_header h = {.comm = trim(start, c.at)};
		bool fits = take_fields(c, &h) && (h.sure || is_padded(&h));
		int rank = fits ? 1 + 2 * h.sure + 4 * (h.tid.len > 0) : 0;

		if (fits && (h.has_time || rank > best || (rank == best && !h.sure))) {
			*ret = h;
			best = rank;
		}
		if (h.has_time)
			return fits;
		pass(&c, word(&c).len);
	}
	return best > 0;
}

/* The start of the parenthesis that ends the text and follows a space; NULL if there is none. */
static const char *last_parenthesis(const char *s, size_t len)
{
	int depth = 0;

	if (len == 0 || s[len - 1] != ')')
		return NULL;
	for (const char *at = s + len; at-- > s;) {
		depth += (*at == ')') - (*at == '(');
		if (depth == 0)
			return at == s || is_space(at[-1]) ? at : NULL;
	}
	return NULL;
}

/* Cuts "+0x1c" off. */
static struct perf_text without_offset(struct perf_text symbol)
{
	size_t n = symbol.len;

	while (n && hex(symbol.s[n - 1]) >= 0)
		n--;
	if (n < symbol.len && n > 3 && memcmp(symbol.s + n - 3, "+0x", 3) == 0)
		symbol.len = n - 3;
	return symbol;
}

static bool same(struct perf_text t, const char *word)
{
	return t.len == strlen(word) && memcmp(t.s, word, t.len) == 0;
}

bool perfline_frame(const char *s, size_t len, struct perf_frame *ret)
{
	struct perf_text text = trim(s, s + len);
	struct perf_frame f = {};
	size_t n = 0;

	for (; n < text.len && hex(text.s[n]) >= 0; n++)
		f.addr = f.addr << 4 | (uint64_t)hex(text.s[n]);
	if (n == 0 || n > 16 || (n < text.len && !is_space(text.s[n])))
		return false;

	text = trim(text.s + n, text.s + text.len);
	const char *open = last_parenthesis(text.s, text.len);
	if (open) {
		f.module = (struct perf_text){open + 1, text.len - (size_t)(open - text.s) - 2};
		text = trim(text.s, open);
		f.inlined = same(f.module, "inlined");
		if (f.inlined)
			f.module.len = 0;
		if (same(f.module, "[unknown]"))
			f.module.len = 0;
	}
	f.symbol = without_offset(text);
	if (same(f.symbol, "[unknown]"))
		f.symbol.len = 0;
	*ret = f;
	return true;
}

bool perfline_source(const char *s, size_t len, struct perf_text *ret_file, uint32_t *ret_line)
{
	struct perf_text text = trim(s, s + len);
	size_t n = text.len;
	uint64_t line = 0;

	while (n && is_digit(text.s[n - 1]))
		n--;
	if (n < 2 || n == text.len || text.len - n > 9 || text.s[n - 1] != ':')
		return false;
	for (size_t i = n; i < text.len; i++)
		line = line * 10 + (uint64_t)(text.s[i] - '0');
	*ret_file = (struct perf_text){text.s, n - 1};
	*ret_line = (uint32_t)line;
	return true;
}
