/*
 * selector: which series are meant, in the syntax of Prometheus.
 *
 *	cpu                                        all of type cpu
 *	cpu{comm="nginx", pod!="", unit=~"a.*"}    of these labels; != and !~ are their opposites
 *	{comm="nginx"}                             the type is "cpu" then
 *	postgres                                   a word that is no type: cpu{comm="postgres"}
 *
 * A label that a series does not have is "". Regular expressions match the whole value. Values
 * are quoted with ", ' or `; in the first two \ is an escape as in Go. A label's name may be
 * quoted too, for those that are not [a-zA-Z_][a-zA-Z0-9_]*.
 *
 * A word alone is a type if something of that type is stored, and the name of a process otherwise,
 * cut as the kernel cuts names. Only the store knows, so who reads it says so: selector_settle().
 *
 * Patterns are hostile: PCRE2 runs them with limits on steps, depth and memory. One that hits a
 * limit is an error (selector_failed), not a "no".
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "base/mem.h"
#include "store/store.h"

#define SELECTOR_MAX         4096 /* bytes of a selector */
#define SELECTOR_MATCHERS    64
#define SELECTOR_PATTERN_MAX 1024

struct selector;

struct selector_error {
	char text[256]; /* one sentence */
};

/* 0; -EINVAL with *ret_err. */
int selector_parse(const char *text, struct selector **ret, struct selector_error *ret_err);
void selector_free(struct selector *s);
DEFINE_CLEANUP(struct selector *, selector_free)

const char *selector_type(const struct selector *s); /* borrowed */

/*
 * Before a selector is used: decides what a word alone means. `types` are those of what is stored;
 * "cpu" is always one. A word that is no type is from then on the process of that name.
 */
void selector_settle(struct selector *s, const struct store_names *types);

/* The same by the types of a range. 0, or what the store said; nothing is read unless needed. */
int selector_settle_by(struct selector *s, struct store *store, uint64_t from_ms, uint64_t to_ms);

/* The name of a process that a word was taken for; NULL: none was. Borrowed. */
const char *selector_process(const struct selector *s);

/* A store_match_fn; ctx is the selector. After a failure it says false at once. */
bool selector_match(void *ctx, const struct store_label *labels, size_t count);

/* Whether some match ran into a limit: what was matched since is of no use. */
bool selector_failed(const struct selector *s, struct selector_error *ret_err);
