/*
 * shown: what `query` and `diff` have in common beyond where profiles come from: the range, labels
 * that the answer must keep, and callers or callees of a function.
 */
#pragma once

#include "cli/cli.h"
#include "cli/source.h"

struct shown_options {
	const char *callers, *callees; /* at most one of them */
};

/* Parses a range; false after saying what is wrong. */
bool shown_range(const char *from, const char *to, struct timerange *ret);

/* The labels that the options need. */
void shown_keep(const struct cli_output *o, struct source_question *ask);

/* Replaces the profile by what was asked of it; false if there is no such function. */
bool shown_cut(struct profile **p, const struct shown_options *o);
void shown_no_function(const struct profile *p, const struct shown_options *o); /* says so */

/* Says that there is nothing, and why that may be; returns the exit code. */
int shown_nothing(struct source *s, const struct source_question *ask,
		  const struct store_answer *a);
