/*
 * matcher: a condition on a label of a series, as data: comm = "nginx", pod !~ "test-.*".
 *
 * Who asks a question makes a list of them (query/selector.h parses one), and a store gets that
 * list as it is. A store that has a language of its own translates label, operator and value into
 * it; one that reads series itself holds their labels against the list with matching_accepts().
 *
 * A label that a series does not have is "". Regular expressions are those of PCRE2, over UTF-8,
 * where a dot is any character, and they match the whole value, not a part of it.
 *
 * Patterns are hostile: PCRE2 runs them with limits on steps, depth and memory. One that hits a
 * limit is an error (matching_failed), not a "no".
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#define MATCHER_PATTERN_MAX 1024 /* bytes of a regular expression */

enum matcher_op {
	MATCHER_EQUAL,
	MATCHER_NOT_EQUAL,
	MATCHER_REGEX,
	MATCHER_NOT_REGEX,
	MATCHER_PREFIX, /* the label's value begins with this one */
};

struct matcher {
	char *label, *value; /* owned */
	enum matcher_op op;
	struct pcre2_real_code_8 *compiled; /* the value, if it is a regular expression; or NULL */
};

struct matcher_error {
	char text[256]; /* one sentence, without its full stop */
};

/* Copies both strings. 0, or -EINVAL with *ret_err for a regular expression that is wrong. */
int matcher_init(struct matcher *m, const char *label, enum matcher_op op, const char *value,
		 struct matcher_error *ret_err);
void matcher_done(struct matcher *m);

struct matcher_label { /* of a series; borrowed */
	const char *key, *value;
};

/* A list at work, on one thread. The list itself does not change, and several threads may use it.
 */
struct matching {                   /* embedded */
	const struct matcher *list; /* borrowed */
	size_t count;
	/* Private. */
	struct pcre2_real_match_context_8 *limits; /* made when the first pattern is met */
	struct pcre2_real_match_data_8 *data;
	const struct matcher *failed; /* its pattern ran into a limit … */
	int why;                      /* … this one, as PCRE2 numbers them */
};

void matching_init(struct matching *m, const struct matcher *list, size_t count);
void matching_done(struct matching *m);

/* Whether a series with these labels fits all matchers. After a failure it says false at once. */
bool matching_accepts(struct matching *m, const struct matcher_label *labels, size_t count);

/* Whether some pattern ran into a limit: what was accepted since is of no use. */
bool matching_failed(const struct matching *m, struct matcher_error *ret_err);
