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
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "base/mem.h"
#include "store/store.h"

#define SELECTOR_MAX      4096 /* bytes of a selector */
#define SELECTOR_MATCHERS 64

struct selector;

struct selector_error {
	char text[256]; /* one sentence */
};

/* 0; -EINVAL with *ret_err. */
int selector_parse(const char *text, struct selector **ret, struct selector_error *ret_err);
void selector_free(struct selector *s);
DEFINE_CLEANUP(struct selector *, selector_free)

/*
 * Before a selector is used: decides what a word alone means. `types` are those of what is stored;
 * "cpu" is always one. A word that is no type is from then on the process of that name.
 */
void selector_settle(struct selector *s, const struct store_names *types);

/* The same by the types of a range. 0, or what the store said; nothing is read unless needed. */
int selector_settle_by(struct selector *s, struct store *store, uint64_t from_ms, uint64_t to_ms,
		       struct store_error *ret_err);

/* Whether a word was taken for the name of a process. */
bool selector_is_process(const struct selector *s);

/* One condition more, before the others: the label has this value, or begins with it. */
void selector_require(struct selector *s, const char *label, const char *value);
void selector_require_prefix(struct selector *s, const char *label, const char *value);
void selector_require_comm(struct selector *s, const char *name); /* cut as the kernel cuts names */

/* Sets type and matchers of a query, borrowed until selector_free(). Once it is settled. */
void selector_query(const struct selector *s, struct store_query *q);
