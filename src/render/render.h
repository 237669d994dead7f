/*
 * render: writes a profile in a file format. One function per format, one table of them.
 */
#pragma once

#include <stdbool.h>
#include <stdio.h>

#include "profile/profile.h"
#include "query/quality.h"
#include "query/tree.h"

struct render_options {
	const char *title;   /* NULL: made from the subject and the time range */
	const char *subject; /* whose profile: "nginx (1234) on web-1"; NULL: unknown */
	struct tree_options tree;
	bool annotations; /* flamegraph.pl's marks after names: "_[k]", "_[j]", "_[i]" */
	unsigned width;   /* svg: pixels; 0: 1200 */
	unsigned top;     /* top: rows; 0: 30. tree: the same, 0: all. dot: functions; 0: 80 */
	unsigned terminal_columns; /* top, tree: of the terminal; 0: there is none, and 100 are
				      meant */
	bool icicle;               /* svg, html: root at the top */
	/* folded, text: if all samples stand for the same time, print their number, as perf and
	   BCC's tools do */
	bool counted;
	struct quality_help help; /* columns: what its hint may name */
};

struct renderer {
	const char *name;
	const char *extensions; /* comma-separated, without the dot: "svg", "pb.gz,pprof" */
	const char *help;       /* one line */
	/* 0 or -errno; write errors may be left to ferror(out). -EOPNOTSUPP: the format cannot
	   show a difference (tree.base); -ENODATA: the profile lacks what the format is for. */
	int (*render)(const struct profile *p, const struct render_options *o, FILE *out);
	bool has_title; /* so that it reads the options' subject */
};

extern const struct renderer renderers[]; /* ends with a NULL name */

/* The functions in that table: render_X() is in X.c. tree_json writes the format `columns`. */
int render_folded(const struct profile *p, const struct render_options *o, FILE *out);
int render_text(const struct profile *p, const struct render_options *o, FILE *out);
int render_json(const struct profile *p, const struct render_options *o, FILE *out);
int render_speedscope(const struct profile *p, const struct render_options *o, FILE *out);
int render_svg(const struct profile *p, const struct render_options *o, FILE *out);
int render_pprof(const struct profile *p, const struct render_options *o, FILE *out);
int render_pgo(const struct profile *p, const struct render_options *o, FILE *out);
int render_html(const struct profile *p, const struct render_options *o, FILE *out);
int render_tree(const struct profile *p, const struct render_options *o, FILE *out);
int render_tree_json(const struct profile *p, const struct render_options *o, FILE *out);
int render_dot(const struct profile *p, const struct render_options *o, FILE *out);
int render_top(const struct profile *p, const struct render_options *o, FILE *out);

const struct renderer *render_by_name(const char *name); /* NULL if there is none */
const struct renderer *render_by_path(const char *path); /* by extension, NULL if not known */
