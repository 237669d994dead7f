#include "query/selector.h"

#include <errno.h>
#include <stdarg.h>
#include <stdint.h>

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#define MATCH_LIMIT 100000 /* steps; a sane pattern on a name of 100 bytes takes some hundreds */
#define DEPTH_LIMIT 2000
#define HEAP_LIMIT  1024 /* KiB */
#define TYPES_MAX   100
#define COMM_MAX    15 /* bytes of a process' name that the kernel keeps */

enum op { OP_IS, OP_IS_NOT, OP_LIKE, OP_NOT_LIKE };

struct matcher {
	char *label;
	char *value;
	enum op op;
	pcre2_code *code; /* of OP_LIKE and OP_NOT_LIKE */
};

struct selector {
	char type[WINDOW_TYPE_MAX];
	struct matcher matchers[SELECTOR_MATCHERS];
	size_t count;
	char *word;      /* it is this alone; NULL: it has braces, or is settled */
	bool is_process; /* a word was taken for the name of a process */
	pcre2_match_context *context;
	pcre2_match_data *data;
	const struct matcher *failed; /* its pattern ran into a limit */
	int failure;                  /* PCRE2's code */
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
		return n ? 0 : wrong(p, "there is no NUL in a value");
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
	return wrong(p, "an escape that is not known");
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
		return wrong(p, "a label's name is expected");
	const char *start = p->at;
	while (is_word(*p->at, false))
		p->at++;
	*ret = mem_strndup(start, (size_t)(p->at - start));
	return 0;
}

static int parse_op(struct parser *p, enum op *ret)
{
	static const struct {
		const char *text;
		enum op op;
	} ops[] = {{"=~", OP_LIKE}, {"!~", OP_NOT_LIKE}, {"!=", OP_IS_NOT}, {"=", OP_IS}};

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

static int compile(struct parser *p, struct matcher *m)
{
	size_t len = strlen(m->value);
	PCRE2_SIZE offset;
	int code;

	if (len > SELECTOR_PATTERN_MAX)
		return wrong(p, "a regular expression has at most %d bytes: it ends",
			     SELECTOR_PATTERN_MAX);
	m->code =
		pcre2_compile((PCRE2_SPTR)m->value, len,
			      PCRE2_UTF | PCRE2_ANCHORED | PCRE2_ENDANCHORED |
				      PCRE2_DOLLAR_ENDONLY | PCRE2_DOTALL | PCRE2_NEVER_BACKSLASH_C,
			      &code, &offset, NULL);
	if (m->code)
		return 0;

	PCRE2_UCHAR why[120];
	pcre2_get_error_message(code, why, sizeof(why));
	return wrong(p,
		     "the regular expression of %.40s is wrong (%s, after %zu bytes of it): it "
		     "ends",
		     m->label, (const char *)why, offset);
}

static int parse_matcher(struct parser *p, struct selector *s)
{
	struct matcher *m = &s->matchers[s->count];

	if (s->count == SELECTOR_MATCHERS)
		return wrong(p, "there are more than %d conditions", SELECTOR_MATCHERS);
	s->count++; /* what is allocated below is freed with the selector */
	int r = parse_label(p, &m->label);
	if (r)
		return r;
	skip_space(p);
	r = parse_op(p, &m->op);
	if (r)
		return r;
	skip_space(p);
	if (!is_quote(*p->at))
		return wrong(p, "a value in quotes is expected");
	r = parse_quoted(p, &m->value);
	if (r)
		return r;
	return m->op == OP_LIKE || m->op == OP_NOT_LIKE ? compile(p, m) : 0;
}

static int parse_type(struct parser *p, struct selector *s)
{
	const char *start = p->at;

	while (is_word(*p->at, p->at == start) || (*p->at == ':' && p->at > start))
		p->at++;
	size_t len = (size_t)(p->at - start);
	if (len >= sizeof(s->type))
		return wrong(p, "no type has a name that long: it ends");
	if (!len && *p->at != '{')
		return wrong(p, "a type (cpu) or { is expected");
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
	return *p->at ? wrong(p, "nothing is expected") : 0;
}

int selector_parse(const char *text, struct selector **ret, struct selector_error *ret_err)
{
	struct parser p = {text, text, ret_err};
	CLEANUP(selector_freep) struct selector *s = mem_alloc(sizeof(*s));

	if (strlen(text) > SELECTOR_MAX) {
		snprintf(ret_err->text, sizeof(ret_err->text), "a selector has at most %d bytes",
			 SELECTOR_MAX);
		return -EINVAL;
	}
	snprintf(s->type, sizeof(s->type), "cpu");
	int r = parse(&p, s);
	if (r)
		return r;

	s->context = pcre2_match_context_create(NULL);
	s->data = pcre2_match_data_create(1, NULL);
	if (!s->context || !s->data)
		return -ENOMEM;
	pcre2_set_match_limit(s->context, MATCH_LIMIT);
	pcre2_set_depth_limit(s->context, DEPTH_LIMIT);
	pcre2_set_heap_limit(s->context, HEAP_LIMIT);
	*ret = TAKE_PTR(s);
	return 0;
}

void selector_free(struct selector *s)
{
	if (!s)
		return;
	for (size_t i = 0; i < s->count; i++) {
		free(s->matchers[i].label);
		free(s->matchers[i].value);
		pcre2_code_free(s->matchers[i].code);
	}
	pcre2_match_context_free(s->context);
	pcre2_match_data_free(s->data);
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

void selector_settle(struct selector *s, const struct store_names *types)
{
	CLEANUP(freep) char *word = TAKE_PTR(s->word);

	if (!word || is_type(word, types))
		return;
	snprintf(s->type, sizeof(s->type), "cpu");
	s->matchers[s->count++] =
		(struct matcher){.label = mem_strdup("comm"),
				 .op = OP_IS,
				 .value = mem_strndup(word, strnlen(word, COMM_MAX))};
	s->is_process = true;
}

int selector_settle_by(struct selector *s, struct store *store, uint64_t from_ms, uint64_t to_ms)
{
	struct store_query q = {.from_ms = from_ms, .to_ms = to_ms};
	struct store_names types = {};

	if (!s->word)
		return 0;
	int r = store_labels(store, &q, NULL, true, TYPES_MAX, &types);
	if (r)
		return r;
	selector_settle(s, &types);
	store_names_done(&types);
	return 0;
}

const char *selector_process(const struct selector *s)
{
	return s->is_process ? s->matchers[0].value : NULL;
}

const char *selector_type(const struct selector *s)
{
	return s->type;
}

static bool like(struct selector *s, const struct matcher *m, const char *value)
{
	int r = pcre2_match(m->code, (PCRE2_SPTR)value, strlen(value), 0, 0, s->data, s->context);

	/* A value that is not UTF-8 matches no pattern; all else is a limit. */
	if (r < 0 && r != PCRE2_ERROR_NOMATCH &&
	    !(r <= PCRE2_ERROR_UTF8_ERR1 && r >= PCRE2_ERROR_UTF8_ERR21)) {
		s->failed = m;
		s->failure = r;
	}
	return r >= 0;
}

bool selector_match(void *ctx, const struct store_label *labels, size_t count)
{
	struct selector *s = ctx;

	for (size_t i = 0; i < s->count && !s->failed; i++) {
		const struct matcher *m = &s->matchers[i];
		const char *value = "";
		for (size_t l = 0; l < count; l++)
			if (strcmp(labels[l].key, m->label) == 0) {
				value = labels[l].value;
				break;
			}
		bool same = m->code ? like(s, m, value) : strcmp(value, m->value) == 0;
		if (same != (m->op == OP_IS || m->op == OP_LIKE))
			return false;
	}
	return !s->failed;
}

bool selector_failed(const struct selector *s, struct selector_error *ret_err)
{
	PCRE2_UCHAR why[100];

	if (!s->failed)
		return false;
	pcre2_get_error_message(s->failure, why, sizeof(why));
	snprintf(ret_err->text, sizeof(ret_err->text),
		 "the regular expression of %.60s takes too long (%s); write a simpler one",
		 s->failed->label, (const char *)why);
	return true;
}
