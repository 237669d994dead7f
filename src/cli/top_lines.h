/*
 * top_lines: what `smolder top` shows, as lines of text: those of the screen and those of -b are
 * the same. Names in them are clean (base/text.h).
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

#include "query/top_view.h"

#define TOP_LINE 4096 /* room for any line, with its NUL */

struct top_header {         /* what is shown beside the view */
	const char *source; /* "this machine" */
	bool wall;          /* was asked for */
	bool is_paused;
	double every; /* how many seconds an interval should have */
};

struct top_span { /* of a line, in columns */
	size_t from, to;
};

/* Each writes one line. */
void top_lines_title(const struct top_view *v, const struct top_header *h,
		     char ret[static TOP_LINE]);
/* The finding that takes most, and how many there are: empty if there is none. */
void top_lines_finding(const struct top_view *v, char ret[static TOP_LINE]);
void top_lines_sum(const struct top_view *v, char ret[static TOP_LINE]);
void top_lines_columns(const struct top_view *v, char ret[static TOP_LINE],
		       struct top_span *ret_sorted);
void top_lines_row(const struct top_view *v, const struct top_row *r, char ret[static TOP_LINE]);

/* Of the selected row: its name, and the heads and lines of its functions and stacks. */
void top_lines_selected(const struct top_view *v, char ret[static TOP_LINE]);
extern const char top_lines_functions[], top_lines_stacks[];
void top_lines_function(const struct top_function *f, char ret[static TOP_LINE]);
void top_lines_stack(const struct top_view *v, const struct top_stack *s,
		     char ret[static TOP_LINE]);

/* What stands instead of functions where there are none. */
const char *top_lines_no_functions(const struct top_view *v);

/* All of it as plain text, of at most `rows` rows of the table (0: all) and the same number of
 * functions and stacks. */
void top_lines_print(const struct top_view *v, const struct top_header *h, unsigned rows,
		     FILE *out);
