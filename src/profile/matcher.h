/*
 * matcher: a condition on a label of a series, as data: comm = "nginx", pod !~ "test-.*".
 *
 * A query has a list of them (query/selector.h parses it), and the store gets that list unchanged.
 * A store with a query language translates label, operator and value; one that reads series itself
 * checks their labels with matching_accepts().
 *
 * A label that a series does not have is "". Regular expressions are PCRE2's, on UTF-8; a dot
 * matches any character, and the expression must match the whole value.
 *
 * Patterns may be hostile: PCRE2 runs them with limits on steps, depth and memory. Hitting a limit
 * is an error (matching_failed), not a mismatch.
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
	MATCHER_PREFIX, /* the label's value starts with this one */
};

struct matcher {
	char *label, *value; /* owned */
	enum matcher_op op;
	struct pcre2_real_code_8 *compiled; /* NULL unless it is a regular expression */
};

struct matcher_error {
	char text[256]; /* one sentence, without a full stop */
};

/* Copies both strings. 0, or -EINVAL with *ret_err for an invalid regular expression. */
int matcher_init(struct matcher *m, const char *label, enum matcher_op op, const char *value,
		 struct matcher_error *ret_err);
void matcher_done(struct matcher *m);

struct matcher_label { /* of a series; borrowed */
	const char *key, *value;
};

/* Evaluates a list of matchers on one thread. Threads may share the list, which does not change. */
struct matching {                   /* embedded */
	const struct matcher *list; /* borrowed */
	size_t count;
	/* Private. */
	struct pcre2_real_match_context_8 *limits; /* created for the first pattern */
	struct pcre2_real_match_data_8 *data;
	const struct matcher *failed; /* its pattern hit a limit … */
	int why;                      /* … this one, as PCRE2 numbers them */
};

void matching_init(struct matching *m, const struct matcher *list, size_t count);
void matching_done(struct matching *m);

/* Whether a series with these labels satisfies all matchers. After a failure always false. */
bool matching_accepts(struct matching *m, const struct matcher_label *labels, size_t count);

/* Whether a pattern hit a limit; the answers are then useless. */
bool matching_failed(const struct matching *m, struct matcher_error *ret_err);
