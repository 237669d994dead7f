/*
 * render: a profile becomes a file. One function a format, one table of them.
 */
#pragma once

#include <stdbool.h>
#include <stdio.h>

#include "profile/profile.h"
#include "query/tree.h"

struct render_options {
	const char *title;   /* NULL: made from the subject and the profile's time */
	const char *subject; /* whose profile: "nginx (1234) on web-1"; NULL: not known */
	struct tree_options tree;
	bool annotations; /* "_[k]" behind kernel frames, "_[j]", "_[i]": flamegraph.pl's marks */
	unsigned width;   /* svg: pixels; 0: 1200 */
	unsigned top;     /* top: rows; 0: 30. tree: the same, 0: all */
	unsigned terminal_columns; /* top, tree: of the terminal; 0: there is none, and 100 are
				      meant */
	bool icicle;               /* svg, html: root at the top */
	/* folded, text: where all samples are worth the same time, their number, as perf's and
	   BCC's tools print it */
	bool counted;
};

struct renderer {
	const char *name;
	const char *extensions; /* comma-separated, without the dot: "svg", "pb.gz,pprof" */
	const char *help;       /* one line */
	/* 0 or -errno; errors of writing may be left to ferror(out). -EOPNOTSUPP: the format has
	   no way to show a difference (tree.base). */
	int (*render)(const struct profile *p, const struct render_options *o, FILE *out);
};

extern const struct renderer renderers[]; /* ends with a NULL name */

/* The functions in that table, each in the file of its name. */
int render_folded(const struct profile *p, const struct render_options *o, FILE *out);
int render_text(const struct profile *p, const struct render_options *o, FILE *out);
int render_json(const struct profile *p, const struct render_options *o, FILE *out);
int render_speedscope(const struct profile *p, const struct render_options *o, FILE *out);
int render_svg(const struct profile *p, const struct render_options *o, FILE *out);
int render_pprof(const struct profile *p, const struct render_options *o, FILE *out);
int render_html(const struct profile *p, const struct render_options *o, FILE *out);
int render_tree(const struct profile *p, const struct render_options *o, FILE *out);
int render_tree_json(const struct profile *p, const struct render_options *o, FILE *out);
int render_top(const struct profile *p, const struct render_options *o, FILE *out);

const struct renderer *render_by_name(const char *name); /* NULL if there is none */
const struct renderer *render_by_path(const char *path); /* by extension, NULL if not known */
