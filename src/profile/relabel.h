/*
 * relabel: rules that change the labels of a series or target, or drop it, as Prometheus'
 * relabel_configs do:
 *
 *	value    the values of source_labels, joined by separator (;)
 *	replace  if regex ((.*)) matches the value, target_label becomes replacement ($1), in both
 *of which $1, ${1} and ${name} stand for groups; an empty result removes the label keep, drop
 *whether it is kept, by whether regex matches the value keepequal, dropequal … by whether the value
 *equals that of target_label hashmod              target_label becomes MD5(value) mod modulus
 *	lowercase, uppercase target_label becomes the value, with its ASCII letters changed
 *	labelmap             a label whose name regex matches is copied to the name replacement
 *	labeldrop, labelkeep removes the labels whose name regex matches, or does not match
 *
 * A regular expression must match the whole, and is PCRE2's, which has all that Prometheus' RE2
 *has. A label with an empty value is one that is not there.
 *
 * Rules come from a configuration, values from anywhere: an expression that needs too long does not
 * match, which is counted; a value has at most RELABEL_VALUE_MAX bytes, a set RELABEL_LABELS_MAX
 *labels.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/mem.h"

#define RELABEL_RULES_MAX   256
#define RELABEL_SOURCES_MAX 32
#define RELABEL_LABELS_MAX  64
#define RELABEL_VALUE_MAX   4096

struct relabel_label {
	const char *name, *value; /* in the set's own memory */
};

struct relabel_labels { /* embedded; zero-initialised is empty */
	struct relabel_label list[RELABEL_LABELS_MAX];
	size_t count;
	struct arena text;
	uint64_t refused; /* labels beyond RELABEL_LABELS_MAX, values that were cut */
};

/* Copies both. An empty value removes the label. */
void relabel_labels_set(struct relabel_labels *l, const char *name, const char *value);
const char *relabel_labels_get(const struct relabel_labels *l, const char *name); /* "": none */
void relabel_labels_clear(struct relabel_labels *l); /* keeps the memory */
void relabel_labels_done(struct relabel_labels *l);

/* A rule as it is written. All borrowed; NULL: not given. */
struct relabel_rule {
	const char *action, *separator, *regex, *target_label, *replacement, *modulus;
	const char *source_labels[RELABEL_SOURCES_MAX + 1]; /* ends with NULL */
};

struct relabel_error {
	char text[256]; /* one sentence, without a full stop */
};

struct relabel;

struct relabel *relabel_new(void); /* no rules: all is kept as it is */
void relabel_free(struct relabel *r);

/* 0, or -EINVAL with *ret_err for a rule that Prometheus would not take either. */
int relabel_add(struct relabel *r, const struct relabel_rule *written,
		struct relabel_error *ret_err);
size_t relabel_count(const struct relabel *r);

/* Whether any rule reads the values of this label. */
bool relabel_reads(const struct relabel *r, const char *name);

/* Whether it is kept, with its labels changed. What was dropped has whatever labels it had then. */
bool relabel_apply(struct relabel *r, struct relabel_labels *l);

/* How often an expression was given up, which took too long. */
uint64_t relabel_given_up(const struct relabel *r);

/* [a-zA-Z_][a-zA-Z0-9_]* */
bool relabel_is_name(const char *text);
