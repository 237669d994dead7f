#include "profile/relabel.h"

#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <nettle/md5.h>

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#define PATTERN_MAX 4096
#define STEPS_LIMIT 100000
#define DEPTH_LIMIT 2000
#define HEAP_LIMIT  1024 /* KiB */
#define GROUPS_MAX  64

enum action {
	REPLACE,
	KEEP,
	DROP,
	KEEPEQUAL,
	DROPEQUAL,
	HASHMOD,
	LOWERCASE,
	UPPERCASE,
	LABELMAP,
	LABELDROP,
	LABELKEEP,
};

static const char *const action_names[] = {
	[REPLACE] = "replace",     [KEEP] = "keep",           [DROP] = "drop",
	[KEEPEQUAL] = "keepequal", [DROPEQUAL] = "dropequal", [HASHMOD] = "hashmod",
	[LOWERCASE] = "lowercase", [UPPERCASE] = "uppercase", [LABELMAP] = "labelmap",
	[LABELDROP] = "labeldrop", [LABELKEEP] = "labelkeep",
};

struct rule {
	enum action action;
	char *sources[RELABEL_SOURCES_MAX];
	size_t source_count;
	char *separator, *target, *replacement;
	uint64_t modulus;
	pcre2_code *regex;
};

struct relabel {
	struct rule *rules;
	size_t count, cap;
	pcre2_match_context *limits;
	pcre2_match_data *match; /* of the latest that matched */
	uint64_t given_up;
};

/* ---- sets of labels ------------------------------------------------------------------------ */

static size_t find(const struct relabel_labels *l, const char *name)
{
	size_t i = 0;

	while (i < l->count && strcmp(l->list[i].name, name) != 0)
		i++;
	return i;
}

void relabel_labels_set(struct relabel_labels *l, const char *name, const char *value)
{
	size_t at = find(l, name), len = strlen(value);

	if (!len) {
		if (at < l->count)
			l->list[at] = l->list[--l->count];
		return;
	}
	if (at == RELABEL_LABELS_MAX) {
		l->refused++;
		return;
	}
	l->refused += len > RELABEL_VALUE_MAX;
	if (at == l->count) {
		l->list[at].name = arena_strndup(&l->text, name, strlen(name));
		l->count++;
	}
	l->list[at].value = arena_strndup(&l->text, value, MIN(len, (size_t)RELABEL_VALUE_MAX));
}

const char *relabel_labels_get(const struct relabel_labels *l, const char *name)
{
	size_t at = find(l, name);

	return at < l->count ? l->list[at].value : "";
}

void relabel_labels_clear(struct relabel_labels *l)
{
	l->count = 0;
	arena_reset(&l->text);
}

void relabel_labels_done(struct relabel_labels *l)
{
	arena_done(&l->text);
	*l = (struct relabel_labels){};
}

/* ---- rules --------------------------------------------------------------------------------- */

struct relabel *relabel_new(void)
{
	struct relabel *r = mem_alloc(sizeof(*r));

	r->limits = pcre2_match_context_create(NULL);
	r->match = pcre2_match_data_create(GROUPS_MAX, NULL);
	if (!r->limits || !r->match)
		abort();
	pcre2_set_match_limit(r->limits, STEPS_LIMIT);
	pcre2_set_depth_limit(r->limits, DEPTH_LIMIT);
	pcre2_set_heap_limit(r->limits, HEAP_LIMIT);
	return r;
}

static void rule_done(struct rule *rule)
{
	for (size_t i = 0; i < rule->source_count; i++)
		free(rule->sources[i]);
	free(rule->separator);
	free(rule->target);
	free(rule->replacement);
	pcre2_code_free(rule->regex);
}

void relabel_free(struct relabel *r)
{
	if (!r)
		return;
	for (size_t i = 0; i < r->count; i++)
		rule_done(&r->rules[i]);
	free(r->rules);
	pcre2_match_context_free(r->limits);
	pcre2_match_data_free(r->match);
	free(r);
}

static bool is_word(char c)
{
	return isalnum((unsigned char)c) || c == '_';
}

bool relabel_is_name(const char *text)
{
	if (!*text || isdigit((unsigned char)*text))
		return false;
	while (is_word(*text))
		text++;
	return !*text;
}

/* A name in which $1, ${1} and such may stand for parts. */
static bool is_name_template(const char *text)
{
	if (!*text || isdigit((unsigned char)*text))
		return false;
	while (*text) {
		if (*text == '$' && text[1] == '{') {
			size_t len = 0;
			while (is_word(text[2 + len]))
				len++;
			if (!len || text[2 + len] != '}')
				return false;
			text += len + 3;
		} else if (*text == '$' && is_word(text[1])) {
			text += 2;
		} else if (is_word(*text)) {
			text++;
		} else {
			return false;
		}
	}
	return true;
}

/* `what`: the words that it is about, or NULL. */
static int wrong(struct relabel_error *e, const char *why, const char *what)
{
	if (what)
		snprintf(e->text, sizeof(e->text), "%s '%.100s'", why, what);
	else
		snprintf(e->text, sizeof(e->text), "%s", why);
	return -EINVAL;
}

static int find_action(const char *name, enum action *ret, struct relabel_error *e)
{
	for (size_t i = 0; i < ARRAY_SIZE(action_names); i++) {
		if (strcasecmp(action_names[i], name) == 0) {
			*ret = (enum action)i;
			return 0;
		}
	}
	return wrong(e, "there is no action", name);
}

static int compile(const char *text, pcre2_code **ret, struct relabel_error *e)
{
	PCRE2_UCHAR why[120];
	PCRE2_SIZE offset;
	int code;

	if (strlen(text) > PATTERN_MAX)
		return wrong(e, "the regex is longer than 4096 bytes", NULL);
	*ret = pcre2_compile((PCRE2_SPTR)text, PCRE2_ZERO_TERMINATED,
			     PCRE2_UTF | PCRE2_ANCHORED | PCRE2_ENDANCHORED | PCRE2_DOLLAR_ENDONLY |
				     PCRE2_DOTALL | PCRE2_NEVER_BACKSLASH_C,
			     &code, &offset, NULL);
	if (*ret)
		return 0;
	pcre2_get_error_message(code, why, sizeof(why));
	snprintf(e->text, sizeof(e->text), "the regex '%.80s' is invalid: %s", text,
		 (const char *)why);
	return -EINVAL;
}

/* What Prometheus requires of a rule, by its action. */
static int check(const struct relabel_rule *w, enum action action, uint64_t modulus,
		 struct relabel_error *e)
{
	const char *target = w->target_label ? w->target_label : "";

	switch (action) {
	case LABELDROP:
	case LABELKEEP:
		if (w->source_labels[0] || w->target_label || w->modulus || w->separator ||
		    w->replacement)
			return wrong(e, "only regex goes with the action", action_names[action]);
		return 0;
	case LABELMAP:
		return !w->replacement || is_name_template(w->replacement)
			       ? 0
			       : wrong(e, "this replacement is no label name:", w->replacement);
	case KEEP:
	case DROP:
		return 0;
	case HASHMOD:
		if (!modulus)
			return wrong(e, "hashmod needs a modulus that is not 0", NULL);
		break;
	case REPLACE:
		return is_name_template(target)
			       ? 0
			       : wrong(e, "this target_label is no label name:", target);
	case KEEPEQUAL:
	case DROPEQUAL:
		if (w->regex || w->modulus || w->separator || w->replacement)
			return wrong(e, "only source_labels and target_label go with the action",
				     action_names[action]);
		break;
	case LOWERCASE:
	case UPPERCASE:
		break;
	}
	return relabel_is_name(target) ? 0
				       : wrong(e, "this target_label is no label name:", target);
}

static int parse_modulus(const char *text, uint64_t *ret, struct relabel_error *e)
{
	char *end;

	*ret = 0;
	if (!text)
		return 0;
	errno = 0;
	*ret = strtoull(text, &end, 10);
	if (!isdigit((unsigned char)*text) || *end || errno)
		return wrong(e, "modulus takes a number, not", text);
	return 0;
}

int relabel_add(struct relabel *r, const struct relabel_rule *written,
		struct relabel_error *ret_err)
{
	struct rule rule = {};

	if (r->count == RELABEL_RULES_MAX)
		return wrong(ret_err, "there are more than 256 rules", NULL);
	int e = written->action ? find_action(written->action, &rule.action, ret_err) : 0;
	e = e ? e : parse_modulus(written->modulus, &rule.modulus, ret_err);
	e = e ? e : check(written, rule.action, rule.modulus, ret_err);
	for (size_t i = 0; !e && written->source_labels[i]; i++)
		if (!relabel_is_name(written->source_labels[i]))
			e = wrong(ret_err,
				  "this source label is no label name:", written->source_labels[i]);
	e = e ? e : compile(written->regex ? written->regex : "(.*)", &rule.regex, ret_err);
	if (e)
		return e;
	for (size_t i = 0; written->source_labels[i]; i++)
		rule.sources[rule.source_count++] = mem_strdup(written->source_labels[i]);
	rule.separator = mem_strdup(written->separator ? written->separator : ";");
	rule.target = mem_strdup(written->target_label ? written->target_label : "");
	rule.replacement = mem_strdup(written->replacement ? written->replacement : "$1");
	MEM_GROW(r->rules, r->count, r->cap);
	r->rules[r->count++] = rule;
	return 0;
}

size_t relabel_count(const struct relabel *r)
{
	return r->count;
}

bool relabel_reads(const struct relabel *r, const char *name)
{
	for (size_t i = 0; i < r->count; i++) {
		const struct rule *rule = &r->rules[i];
		if (rule->action == LABELMAP || strcmp(rule->target, name) == 0)
			return true;
		for (size_t k = 0; k < rule->source_count; k++)
			if (strcmp(rule->sources[k], name) == 0)
				return true;
	}
	return false;
}

uint64_t relabel_given_up(const struct relabel *r)
{
	return r->given_up;
}

/* ---- application --------------------------------------------------------------------------- */

/* The whole must match; the groups are in r->match then. */
static bool matches(struct relabel *r, const struct rule *rule, const char *value)
{
	int found = pcre2_match(rule->regex, (PCRE2_SPTR)value, strlen(value), 0, 0, r->match,
				r->limits);
	bool is_utf8 = !(found <= PCRE2_ERROR_UTF8_ERR1 && found >= PCRE2_ERROR_UTF8_ERR21);

	/* More groups than there is room for is no failure. */
	r->given_up += found < 0 && found != PCRE2_ERROR_NOMATCH && is_utf8;
	return found >= 0;
}

static void put(struct relabel_labels *l, char **text, size_t *len, const char *more, size_t n)
{
	size_t room = RELABEL_VALUE_MAX - *len;

	l->refused += n > room;
	n = MIN(n, room);
	memcpy(*text + *len, more, n);
	*len += n;
	(*text)[*len] = '\0';
}

/* A group by its number or name. Of one that is not there, or did not take part, nothing. */
static void put_group(struct relabel_labels *l, struct relabel *r, const struct rule *rule,
		      const char *value, const char *name, size_t name_len, char **text,
		      size_t *len)
{
	const PCRE2_SIZE *at = pcre2_get_ovector_pointer(r->match);
	char group[64];
	int number;

	if (name_len >= sizeof(group))
		return;
	snprintf(group, sizeof(group), "%.*s", (int)name_len, name);
	if (strspn(group, "0123456789") == name_len)
		number = name_len > 3 ? -1 : atoi(group);
	else
		number = pcre2_substring_number_from_name(rule->regex, (PCRE2_SPTR)group);
	uint32_t groups;
	pcre2_pattern_info(rule->regex, PCRE2_INFO_CAPTURECOUNT, &groups);
	if (number < 0 || (uint32_t)number > groups || number >= GROUPS_MAX ||
	    at[2 * number] == PCRE2_UNSET)
		return;
	put(l, text, len, value + at[2 * number], at[2 * number + 1] - at[2 * number]);
}

/* As Go's regexp.Expand: a name is as long as it can be, $$ is a $, and so is one before no name.
 */
static const char *expand(struct relabel_labels *l, struct relabel *r, const struct rule *rule,
			  const char *template, const char *value)
{
	char *text = arena_alloc(&l->text, RELABEL_VALUE_MAX + 1);
	size_t len = 0;

	text[0] = '\0';
	for (const char *at = template; *at;) {
		size_t plain = strcspn(at, "$");
		put(l, &text, &len, at, plain);
		at += plain;
		if (!*at)
			break;
		bool braced = at[1] == '{';
		const char *name = at + 1 + braced;
		size_t n = 0;
		while (is_word(name[n]))
			n++;
		if (at[1] == '$') {
			put(l, &text, &len, "$", 1);
			at += 2;
		} else if (!n || (braced && name[n] != '}')) {
			put(l, &text, &len, "$", 1);
			at++;
		} else {
			put_group(l, r, rule, value, name, n, &text, &len);
			at = name + n + braced;
		}
	}
	return text;
}

static const char *join(struct relabel_labels *l, const struct rule *rule)
{
	char *text = arena_alloc(&l->text, RELABEL_VALUE_MAX + 1);
	size_t len = 0;

	text[0] = '\0';
	for (size_t i = 0; i < rule->source_count; i++) {
		const char *value = relabel_labels_get(l, rule->sources[i]);
		if (i)
			put(l, &text, &len, rule->separator, strlen(rule->separator));
		put(l, &text, &len, value, strlen(value));
	}
	return text;
}

static void replace(struct relabel *r, const struct rule *rule, struct relabel_labels *l,
		    const char *value)
{
	if (!matches(r, rule, value))
		return;
	const char *target = expand(l, r, rule, rule->target, value);
	if (relabel_is_name(target))
		relabel_labels_set(l, target, expand(l, r, rule, rule->replacement, value));
}

static void set_hash(const struct rule *rule, struct relabel_labels *l, const char *value)
{
	uint8_t digest[MD5_DIGEST_SIZE];
	struct md5_ctx md5;
	uint64_t sum = 0;
	char text[32];

	md5_init(&md5);
	md5_update(&md5, strlen(value), (const uint8_t *)value);
	md5_digest(&md5, sizeof(digest), digest);
	for (size_t i = 8; i < sizeof(digest); i++)
		sum = sum << 8 | digest[i];
	snprintf(text, sizeof(text), "%" PRIu64, sum % rule->modulus);
	relabel_labels_set(l, rule->target, text);
}

static void set_case(const struct rule *rule, struct relabel_labels *l, const char *value)
{
	char *text = arena_strndup(&l->text, value, strlen(value));

	for (char *c = text; *c; c++)
		if ((unsigned char)*c < 0x80)
			*c = (char)(rule->action == LOWERCASE ? tolower(*c) : toupper(*c));
	relabel_labels_set(l, rule->target, text);
}

static int by_name(const void *a, const void *b)
{
	return strcmp(((const struct relabel_label *)a)->name,
		      ((const struct relabel_label *)b)->name);
}

/* Rules about names see the labels as they were before the rule. */
static void change_names(struct relabel *r, const struct rule *rule, struct relabel_labels *l)
{
	struct relabel_label before[RELABEL_LABELS_MAX];
	size_t count = l->count;

	memcpy(before, l->list, sizeof(before));
	qsort(before, count, sizeof(before[0]), by_name);
	for (size_t i = 0; i < count; i++) {
		bool match = matches(r, rule, before[i].name);
		if (rule->action == LABELMAP && match)
			relabel_labels_set(l, expand(l, r, rule, rule->replacement, before[i].name),
					   before[i].value);
		else if (rule->action != LABELMAP && match == (rule->action == LABELDROP))
			relabel_labels_set(l, before[i].name, "");
	}
}

static bool apply(struct relabel *r, const struct rule *rule, struct relabel_labels *l)
{
	const char *value = join(l, rule);

	switch (rule->action) {
	case KEEP:
		return matches(r, rule, value);
	case DROP:
		return !matches(r, rule, value);
	case KEEPEQUAL:
		return strcmp(relabel_labels_get(l, rule->target), value) == 0;
	case DROPEQUAL:
		return strcmp(relabel_labels_get(l, rule->target), value) != 0;
	case REPLACE:
		replace(r, rule, l, value);
		break;
	case HASHMOD:
		set_hash(rule, l, value);
		break;
	case LOWERCASE:
	case UPPERCASE:
		set_case(rule, l, value);
		break;
	case LABELMAP:
	case LABELDROP:
	case LABELKEEP:
		change_names(r, rule, l);
		break;
	}
	return true;
}

bool relabel_apply(struct relabel *r, struct relabel_labels *l)
{
	for (size_t i = 0; i < r->count; i++)
		if (!apply(r, &r->rules[i], l))
			return false;
	return true;
}
