/*
 * selector: selects series, in the syntax of Prometheus.
 *
 *	cpu                                        everything of type cpu
 *	cpu{comm="nginx", pod!="", unit=~"a.*"}    by labels; != and !~ negate
 *	{comm="nginx"}                             the type defaults to cpu
 *	postgres                                   a word that is not a type: cpu{comm="postgres"}
 *
 * A label that a series does not have is "". Regular expressions match the whole value. Values
 * are quoted with ", ' or `; in the first two \ is an escape as in Go. A label name that is not
 * [a-zA-Z_][a-zA-Z0-9_]* must be quoted too.
 *
 * The labels trace_id and span_id select, of all series, the samples that were taken in such a span
 * (STORE_TRACE, STORE_SPAN of store/store.h).
 *
 * A word alone is a type if something of that type is stored, else the name of a process, cut to 15
 * bytes as the kernel does. Only the store knows, so its reader decides: selector_resolve().
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

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
 * Decides what a word alone means; to be called before a selector is used. `types` are the stored
 * types; "cpu" is always one. A word that is none of them is taken for a process name.
 */
void selector_resolve(struct selector *s, const struct store_names *types);

/* The same, with the types stored in a range. 0 or the store's error; reads only if needed. */
int selector_resolve_by(struct selector *s, struct store *store, uint64_t from_ms, uint64_t to_ms,
			struct store_error *ret_err);

/* Whether a word was taken for a process name. */
bool selector_is_process(const struct selector *s);

/* Whether a type was written; it is cpu in any case. */
bool selector_has_type(const struct selector *s);

/* Adds a condition before the others: the label has this value, or begins with it. */
void selector_require(struct selector *s, const char *label, const char *value);
void selector_require_prefix(struct selector *s, const char *label, const char *value);
void selector_require_comm(struct selector *s, const char *name); /* cut as the kernel cuts names */

/* Samples of this trace (32 hexadecimal digits), or this span (16), alone; false: that is none. */
#define SELECTOR_TRACE_HELP "a trace id has 32 hexadecimal digits"
#define SELECTOR_SPAN_HELP  "a span id has 16 hexadecimal digits"
bool selector_require_trace(struct selector *s, const char *id);
bool selector_require_span(struct selector *s, const char *id);

/* Writes a label's value as a selector has it, with quotes: "a \"b\"". */
void selector_write_value(FILE *out, const char *value);

/* Sets type and matchers of a query, borrowed until selector_free(). Resolve it first. */
void selector_query(const struct selector *s, struct store_query *q);

/*
 * Whose profile a selector's is, for a title: "nginx on web-1"; of everything of type cpu, the host
 * alone. NULL is "cpu". `base` is what it is compared with, NULL or the same: nothing else. `hosts`
 * are the values of the label host. Caller frees.
 */
char *selector_subject(const char *text, const char *base, const struct store_names *hosts);
