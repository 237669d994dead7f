#include "profile/matcher.h"

#include <errno.h>

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include "base/mem.h"

#define STEPS_LIMIT 100000 /* a sane pattern needs some hundreds for a name of 100 bytes */
#define DEPTH_LIMIT 2000
#define HEAP_LIMIT  1024 /* KiB */

static int compile(struct matcher *m, struct matcher_error *ret_err)
{
	size_t len = strlen(m->value);
	PCRE2_UCHAR why[120];
	PCRE2_SIZE offset;
	int code;

	if (len > MATCHER_PATTERN_MAX) {
		snprintf(ret_err->text, sizeof(ret_err->text),
			 "a regular expression may have at most %d bytes", MATCHER_PATTERN_MAX);
		return -EINVAL;
	}
	m->compiled =
		pcre2_compile((PCRE2_SPTR)m->value, len,
			      PCRE2_UTF | PCRE2_ANCHORED | PCRE2_ENDANCHORED |
				      PCRE2_DOLLAR_ENDONLY | PCRE2_DOTALL | PCRE2_NEVER_BACKSLASH_C,
			      &code, &offset, NULL);
	if (m->compiled)
		return 0;
	pcre2_get_error_message(code, why, sizeof(why));
	snprintf(ret_err->text, sizeof(ret_err->text),
		 "the regular expression for %.40s is invalid: %s (at byte %zu)", m->label,
		 (const char *)why, offset);
	return -EINVAL;
}

int matcher_init(struct matcher *m, const char *label, enum matcher_op op, const char *value,
		 struct matcher_error *ret_err)
{
	struct matcher made = {.label = mem_strdup(label), .value = mem_strdup(value), .op = op};
	int r = op == MATCHER_REGEX || op == MATCHER_NOT_REGEX ? compile(&made, ret_err) : 0;

	if (r)
		matcher_done(&made);
	else
		*m = made;
	return r;
}

void matcher_done(struct matcher *m)
{
	free(m->label);
	free(m->value);
	pcre2_code_free(m->compiled);
}

void matching_init(struct matching *m, const struct matcher *list, size_t count)
{
	*m = (struct matching){.list = list, .count = count};
}

void matching_done(struct matching *m)
{
	pcre2_match_context_free(m->limits);
	pcre2_match_data_free(m->data);
}

static bool prepare(struct matching *m)
{
	if (m->data)
		return true;
	m->limits = m->limits ? m->limits : pcre2_match_context_create(NULL);
	if (!m->limits)
		return false;
	pcre2_set_match_limit(m->limits, STEPS_LIMIT);
	pcre2_set_depth_limit(m->limits, DEPTH_LIMIT);
	pcre2_set_heap_limit(m->limits, HEAP_LIMIT);
	m->data = pcre2_match_data_create(1, NULL);
	return m->data;
}

static bool fits_regex(struct matching *m, const struct matcher *one, const char *value)
{
	int r = prepare(m) ? pcre2_match(one->compiled, (PCRE2_SPTR)value, strlen(value), 0, 0,
					 m->data, m->limits)
			   : PCRE2_ERROR_NOMEMORY;

	/* A value that is not UTF-8 matches no pattern; all other errors are limits. */
	if (r < 0 && r != PCRE2_ERROR_NOMATCH &&
	    !(r <= PCRE2_ERROR_UTF8_ERR1 && r >= PCRE2_ERROR_UTF8_ERR21)) {
		m->failed = one;
		m->why = r;
	}
	return r >= 0;
}

static bool fits(struct matching *m, const struct matcher *one, const char *value)
{
	switch (one->op) {
	case MATCHER_EQUAL:
		return strcmp(value, one->value) == 0;
	case MATCHER_NOT_EQUAL:
		return strcmp(value, one->value) != 0;
	case MATCHER_REGEX:
		return fits_regex(m, one, value);
	case MATCHER_NOT_REGEX:
		return !fits_regex(m, one, value);
	case MATCHER_PREFIX:
		return strncmp(value, one->value, strlen(one->value)) == 0;
	}
	return false;
}

static const char *value_of(const struct matcher_label *labels, size_t count, const char *key)
{
	for (size_t i = 0; i < count; i++)
		if (strcmp(labels[i].key, key) == 0)
			return labels[i].value;
	return "";
}

bool matching_accepts(struct matching *m, const struct matcher_label *labels, size_t count)
{
	for (size_t i = 0; i < m->count && !m->failed; i++)
		if (!fits(m, &m->list[i], value_of(labels, count, m->list[i].label)))
			return false;
	return !m->failed;
}

bool matching_failed(const struct matching *m, struct matcher_error *ret_err)
{
	PCRE2_UCHAR why[100];

	if (!m->failed)
		return false;
	pcre2_get_error_message(m->why, why, sizeof(why));
	snprintf(ret_err->text, sizeof(ret_err->text),
		 "the regular expression for %.60s takes too long (%s): use a simpler one",
		 m->failed->label, (const char *)why);
	return true;
}
