/*
 * stat_print: writes what `stat` counted as perf stat does: in its columns of text, its fields
 * between separators (-x), or its lines of JSON (-j), so that whatever reads those reads these.
 */
#pragma once

#include <stdbool.h>
#include <stdio.h>

#include "cli/stat_table.h"

enum stat_format { STAT_TEXT, STAT_SEPARATED, STAT_JSON };

struct stat_view {
	FILE *out;
	enum stat_format format;
	const char *separator; /* of STAT_SEPARATED */
	const char *thousands; /* between groups of three digits of text; "": nothing */
	const char *cgroup;    /* a column of its own; NULL: none */
	enum counters_by by;
	bool has_runs;     /* -r: how far each value may be off is a column */
	bool at_intervals; /* -I: so is the time */
};

/* "Performance counter stats for …"; of text without intervals only, as is the end. */
void stat_print_title(const struct stat_view *v, const char *of, unsigned runs);

/* The names of the columns of intervals; of text only. */
void stat_print_columns(const struct stat_view *v);

/* `at`: when, in seconds from the start, if at_intervals. */
void stat_print_rows(const struct stat_view *v, const struct stat_table *t, double at);

/* How long it took; `user` and `kernel`: the CPU time of the program, negative: there is none. */
void stat_print_end(const struct stat_view *v, const struct stat_table *t, double user,
		    double kernel);
