/*
 * describe: amounts and facts about a profile, in words for people.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "base/text.h"
#include "query/quality.h"
#include "query/tree.h"
#include "render/render.h"

#define DESCRIBE_MAX 256

/* "1,234", "1.50 s", "3.2 MiB": an amount of a unit, without the unit's name if that is obvious. */
const char *describe_amount(uint64_t amount, const char *unit, char ret[static DESCRIBE_MAX]);

/* The same with the unit: "1,234 samples", "1 sample", "1.50 s". */
const char *describe_quantity(uint64_t amount, const char *unit, char ret[static DESCRIBE_MAX]);

/* "+1.50 s", "-3": the change from `base` to `now`. */
const char *describe_change(uint64_t now, uint64_t base, const char *unit,
			    char ret[static DESCRIBE_MAX]);

/* "cpu: 1,234 samples, 10.0 s at 99 Hz, 0 lost, 3 truncated", "wall: 40.0 s (31.2 s idle) in …":
 * where the numbers come from; when comparing, followed by "; base: …". */
const char *describe_profile(const struct profile *p, const struct tree *t,
			     char ret[static DESCRIBE_MAX]);

/*
 * The title given, made printable; else whose profile it is and its time range, in local time:
 * "nginx (1234) on web-1, 2026-11-15 14:02:05 UTC".
 */
const char *describe_title(const struct profile *p, const struct render_options *o,
			   char ret[static TEXT_MAX + 1]);

/* ", 99.2 % of user stacks complete, 1.2 % of frames unnamed": as far as known. */
const char *describe_quality(const struct quality *q, char ret[static DESCRIBE_MAX]);

/* "user", "kernel", "inlined", … */
const char *describe_kind(enum frame_kind kind);

/* flamegraph.pl's mark after a name: "_[k]", "_[i]", "_[j]" or "". */
const char *describe_annotation(enum frame_kind kind);

/* Whether all samples stand for the same time, ignoring the period that an input file claims. */
bool describe_is_counted(const struct profile *p);

/* Tree options for formats whose lines end in a number: see render_options.counted. */
struct tree_options describe_lines(const struct profile *p, const struct render_options *o);

/* How many bytes of s fit into `columns` columns, and how many columns those take. */
size_t describe_fit(const char *s, size_t len, size_t columns, size_t *ret_columns);

/* Words that fill lines: the first begins at column `at`, where the output is, the others after
 * `indent` spaces. Ends with a newline. */
void describe_wrap(FILE *out, const char *text, unsigned at, unsigned indent, unsigned columns);
