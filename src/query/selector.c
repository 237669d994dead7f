#include "query/selector.h"

#include <errno.h>
#include <stdarg.h>
#include <stdint.h>

#include "query/computed.h"

#define TYPES_MAX 100
#define COMM_MAX  15 /* bytes of a process' name that the kernel keeps */

struct selector {
	char type[WINDOW_TYPE_MAX];
	struct matcher *matchers;
	uint32_t count, cap;
	char *word; /* it is this alone; NULL: it has braces, or is resolved */
	bool has_type;
	bool is_process; /* a word was taken for the name of a process */
};

struct parser {
	const char *start, *at;
	struct selector_error *err;
};

__attribute__((format(printf, 2, 3))) static int wrong(struct parser *p, const char *fmt, ...)
{
	char what[200];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(what, sizeof(what), fmt, ap);
	va_end(ap);
	snprintf(p->err->text, sizeof(p->err->text), "%s at character %zu of the selector", what,
		 (size_t)(p->at - p->start) + 1);
	return -EINVAL;
}

static void skip_space(struct parser *p)
{
	while (*p->at == ' ' || (*p->at >= '\t' && *p->at <= '\r'))
		p->at++;
}

static bool is_word(char c, bool first)
{
	return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' ||
	       (!first && c >= '0' && c <= '9');
}

static int hex(char c)
{
	return c >= '0' && c <= '9'   ? c - '0'
	       : c >= 'a' && c <= 'f' ? c - 'a' + 10
	       : c >= 'A' && c <= 'F' ? c - 'A' + 10
				      : -1;
}

static size_t put_utf8(char *out, uint32_t c)
{
	if (c < 0x80) {
		out[0] = (char)c;
		return 1;
	}
	size_t n = c < 0x800 ? 2 : c < 0x10000 ? 3 : 4;
	for (size_t i = n - 1; i > 0; i--, c >>= 6)
		out[i] = (char)(0x80 | (c & 0x3f));
	out[0] = (char)(c | (0xf00u >> n & 0xff));
	return n;
}

/* Digits of an escape: exactly `count` of `base`, or -1. */
static int64_t escape_digits_of(struct parser *p, int count, int base)
{
	int64_t n = 0;

	for (int i = 0; i < count; i++) {
		int d = hex(*p->at);
		if (d < 0 || d >= base)
			return -1;
		n = n * base + d;
		p->at++;
	}
	return n;
}

/* What stands behind a backslash; appends to out and moves *len. */
static int parse_escape(struct parser *p, char quote, char *out, size_t *len)
{
	static const char letters[] = "abfnrtv\\", meant[] = "\a\b\f\n\r\t\v\\";
	const char *letter = *p->at ? strchr(letters, *p->at) : NULL;
	int64_t n;

	if (letter) {
		out[(*len)++] = meant[letter - letters];
		p->at++;
		return 0;
	}
	switch (*p->at) {
	case '"':
	case '\'':
		if (*p->at != quote)
			break;
		out[(*len)++] = *p->at++;
		return 0;
	case 'x':
		p->at++;
		n = escape_digits_of(p, 2, 16);
		if (n < 0)
			break;
		out[(*len)++] = (char)n;
		return n ? 0 : wrong(p, "a value cannot contain NUL");
	case 'u':
	case 'U':
		n = escape_digits_of(p, *p->at++ == 'u' ? 4 : 8, 16);
		if (n <= 0 || n > 0x10ffff || (n >= 0xd800 && n < 0xe000))
			break;
		*len += put_utf8(out + *len, (uint32_t)n);
		return 0;
	default:
		n = escape_digits_of(p, 3, 8);
		if (n <= 0 || n > 255)
			break;
		out[(*len)++] = (char)n;
		return 0;
	}
	return wrong(p, "unknown escape sequence");
}

/* A quoted string; an escape is never shorter than what it stands for. */
static int parse_quoted(struct parser *p, char **ret)
{
	char quote = *p->at++;
	CLEANUP(freep) char *out = mem_alloc(strlen(p->at) + 1);
	size_t len = 0;

	while (*p->at != quote) {
		if (!*p->at)
			return wrong(p, "the closing %c is missing", quote);
		if (*p->at != '\\' || quote == '`') {
			out[len++] = *p->at++;
			continue;
		}
		p->at++;
		int r = parse_escape(p, quote, out, &len);
		if (r)
			return r;
	}
	p->at++;
	out[len] = '\0';
	*ret = TAKE_PTR(out);
	return 0;
}

static bool is_quote(char c)
{
	return c == '"' || c == '\'' || c == '`';
}

static int parse_label(struct parser *p, char **ret)
{
	if (*p->at == '"' || *p->at == '\'')
		return parse_quoted(p, ret);
	if (!is_word(*p->at, true))
		return wrong(p, "a label name is expected");
	const char *start = p->at;
	while (is_word(*p->at, false))
		p->at++;
	*ret = mem_strndup(start, (size_t)(p->at - start));
	return 0;
}

static int parse_op(struct parser *p, enum matcher_op *ret)
{
	static const struct {
		const char *text;
		enum matcher_op op;
	} ops[] = {{"=~", MATCHER_REGEX},
		   {"!~", MATCHER_NOT_REGEX},
		   {"!=", MATCHER_NOT_EQUAL},
		   {"=", MATCHER_EQUAL}};

	for (size_t i = 0; i < ARRAY_SIZE(ops); i++) {
		size_t len = strlen(ops[i].text);
		if (strncmp(p->at, ops[i].text, len) == 0) {
			p->at += len;
			*ret = ops[i].op;
			return 0;
		}
	}
	return wrong(p, "one of = != =~ !~ is expected");
}

/* Takes its place in the list at `at`; what is there and after it moves up. */
static void insert(struct selector *s, uint32_t at, const struct matcher *m)
{
	MEM_GROW(s->matchers, s->count, s->cap);
	memmove(s->matchers + at + 1, s->matchers + at, (s->count - at) * sizeof(*m));
	s->matchers[at] = *m;
	s->count++;
}

static int parse_matcher(struct parser *p, struct selector *s)
{
	CLEANUP(freep) char *label = NULL, *value = NULL;
	struct matcher_error err;
	struct matcher m;
	enum matcher_op op = MATCHER_EQUAL;

	if (s->count == SELECTOR_MATCHERS)
		return wrong(p, "there are more than %d conditions", SELECTOR_MATCHERS);
	int r = parse_label(p, &label);
	if (r)
		return r;
	skip_space(p);
	r = parse_op(p, &op);
	if (r)
		return r;
	skip_space(p);
	if (!is_quote(*p->at))
		return wrong(p, "a value in quotes is expected");
	r = parse_quoted(p, &value);
	if (r)
		return r;
	if (matcher_init(&m, label, op, value, &err) != 0)
		return wrong(p, "%s: it ends", err.text);
	insert(s, s->count, &m);
	return 0;
}

static int parse_type(struct parser *p, struct selector *s)
{
	const char *start = p->at;

	while (is_word(*p->at, p->at == start) || (*p->at == ':' && p->at > start))
		p->at++;
	size_t len = (size_t)(p->at - start);
	if (len >= sizeof(s->type))
		return wrong(p, "type name too long; it ends");
	if (!len && *p->at != '{')
		return wrong(p, "a type (cpu) or { is expected");
	s->has_type = len > 0;
	if (len)
		snprintf(s->type, sizeof(s->type), "%.*s", (int)len, start);
	return 0;
}

/*
 * A word alone, as people write the names of processes: redis-server, python3.11, kworker/0:1. All
 * but what the syntax is made of may be in it.
 */
static bool parse_word(struct parser *p, struct selector *s)
{
	size_t len = strcspn(p->at, " \t\n\v\f\r{}\"'`=~!,");
	const char *end = p->at + len;

	if (!len || *p->at == ':' || end[strspn(end, " \t\n\v\f\r")])
		return false;
	s->word = mem_strndup(p->at, len);
	return true;
}

static int parse(struct parser *p, struct selector *s)
{
	skip_space(p);
	if (parse_word(p, s)) {
		snprintf(s->type, sizeof(s->type), "%s", s->word);
		s->has_type = true;
		return 0;
	}
	int r = parse_type(p, s);
	if (r)
		return r;
	skip_space(p);
	if (*p->at == '{') {
		p->at++;
		for (skip_space(p); *p->at != '}'; skip_space(p)) {
			r = parse_matcher(p, s);
			if (r)
				return r;
			skip_space(p);
			if (*p->at == ',')
				p->at++;
			else if (*p->at != '}')
				return wrong(p, "a comma or } is expected");
		}
		p->at++;
		skip_space(p);
	}
	return *p->at ? wrong(p, "unexpected text") : 0;
}

int selector_parse(const char *text, struct selector **ret, struct selector_error *ret_err)
{
	struct parser p = {text, text, ret_err};
	CLEANUP(selector_freep) struct selector *s = mem_alloc(sizeof(*s));

	if (strlen(text) > SELECTOR_MAX) {
		snprintf(ret_err->text, sizeof(ret_err->text),
			 "a selector can have at most %d bytes", SELECTOR_MAX);
		return -EINVAL;
	}
	snprintf(s->type, sizeof(s->type), "cpu");
	int r = parse(&p, s);
	if (!r)
		*ret = TAKE_PTR(s);
	return r;
}

void selector_free(struct selector *s)
{
	if (!s)
		return;
	for (uint32_t i = 0; i < s->count; i++)
		matcher_done(&s->matchers[i]);
	free(s->matchers);
	free(s->word);
	free(s);
}

static bool is_type(const char *word, const struct store_names *types)
{
	if (strcmp(word, "cpu") == 0)
		return true;
	for (uint32_t i = 0; i < types->count; i++)
		if (strcmp(types->names[i], word) == 0)
			return true;
	return false;
}

static void put_first(struct selector *s, const char *label, enum matcher_op op, const char *value)
{
	struct matcher_error none;
	struct matcher m;

	/* Only a regular expression can be wrong. */
	if (matcher_init(&m, label, op, value, &none) == 0)
		insert(s, 0, &m);
}

void selector_resolve(struct selector *s, const struct store_names *types)
{
	CLEANUP(freep) char *word = TAKE_PTR(s->word);

	if (!word || is_type(word, types))
		return;
	snprintf(s->type, sizeof(s->type), "cpu");
	selector_require_comm(s, word);
	s->has_type = false;
	s->is_process = true;
}

int selector_resolve_by(struct selector *s, struct store *store, uint64_t from_ms, uint64_t to_ms,
			struct store_error *ret_err)
{
	struct store_query q = {.from_ms = from_ms, .to_ms = to_ms, .max = TYPES_MAX};
	struct store_names types = {};

	if (!s->word)
		return 0;
	int r = computed_names(store, &q, STORE_TYPES, &types, ret_err);
	if (r)
		return r;
	selector_resolve(s, &types);
	store_names_done(&types);
	return 0;
}

void selector_require(struct selector *s, const char *label, const char *value)
{
	put_first(s, label, MATCHER_EQUAL, value);
}

void selector_require_prefix(struct selector *s, const char *label, const char *value)
{
	put_first(s, label, MATCHER_PREFIX, value);
}

void selector_require_comm(struct selector *s, const char *name)
{
	CLEANUP(freep) char *cut = mem_strndup(name, strnlen(name, COMM_MAX));

	put_first(s, "comm", MATCHER_EQUAL, cut);
}

/* An id of `digits` hexadecimal ones, in small letters, as the store has it. */
static bool require_id(struct selector *s, const char *label, const char *id, size_t digits)
{
	char small[33] = "";

	if (strlen(id) != digits || digits >= sizeof(small) ||
	    strspn(id, "0123456789abcdefABCDEF") != digits)
		return false;
	for (size_t i = 0; i < digits; i++)
		small[i] = (char)(id[i] >= 'A' && id[i] <= 'F' ? id[i] | 0x20 : id[i]);
	put_first(s, label, MATCHER_EQUAL, small);
	return true;
}

bool selector_require_trace(struct selector *s, const char *id)
{
	return require_id(s, STORE_TRACE, id, 32);
}

bool selector_require_span(struct selector *s, const char *id)
{
	return require_id(s, STORE_SPAN, id, 16);
}

bool selector_has_type(const struct selector *s)
{
	return s->has_type;
}

bool selector_is_process(const struct selector *s)
{
	return s->is_process;
}

void selector_write_value(FILE *out, const char *value)
{
	fputc('"', out);
	for (; *value; value++) {
		if (*value == '"' || *value == '\\')
			fputc('\\', out);
		fputc(*value, out);
	}
	fputc('"', out);
}

void selector_query(const struct selector *s, struct store_query *q)
{
	q->type = s->type;
	q->matchers = s->matchers;
	q->matcher_count = s->count;
}

char *selector_subject(const char *text, const char *base, const struct store_names *hosts)
{
	const char *what = text ? text : "cpu", *other = base ? base : what;
	bool is_same = strcmp(what, other) == 0;
	char many[32];

	snprintf(many, sizeof(many), "%u hosts", hosts->count);
	const char *host = !hosts->count ? "" : hosts->count == 1 ? hosts->names[0] : many;
	if (is_same && *host && strcmp(what, "cpu") == 0)
		return mem_strdup(host);
	return mem_printf("%s%s%s%s%s", what, is_same ? "" : " against ", is_same ? "" : other,
			  *host ? " on " : "", host);
}
