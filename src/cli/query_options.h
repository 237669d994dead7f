/*
 * query_options: the command line options that `query` and `diff` share: which profiles, of which
 * time range, limited to the callers or callees of a function, and how they are drawn.
 *
 *	static const struct option long_options[] = {QUERY_OPTIONS, {"base-from", …}, {}};
 *	int code = query_options_parse(&options, &command, argc, argv, &renderer);
 */
#pragma once

#include "cli/cli.h"
#include "cli/output_options.h"
#include "cli/query_client.h"

enum { QUERY_FROM = 700, QUERY_TO, QUERY_BY, QUERY_CALLERS, QUERY_CALLEES };

#define QUERY_OPTIONS                                                                              \
	OUTPUT_OPTIONS, CLIENT_OPTIONS, {"from", required_argument, NULL, QUERY_FROM},             \
		{"to", required_argument, NULL, QUERY_TO},                                         \
		{"by", required_argument, NULL, QUERY_BY},                                         \
		{"callers", required_argument, NULL, QUERY_CALLERS},                               \
	{                                                                                          \
		"callees", required_argument, NULL, QUERY_CALLEES                                  \
	}

struct query_options {
	struct cli_output out;
	struct query_client_options client;
	const char *from, *to;
	const char *callers, *callees; /* at most one of them */
	bool is_table;                 /* the output ranks functions: show direct callers only */
};

void query_options_help(void); /* prints their lines of --help, except --from and --to */

struct query_command {
	const char *name;
	const struct option *options; /* QUERY_OPTIONS, its own, --help as 'h', and the end */
	void (*help)(void);
	/* Handles an option of its own; NULL: it has none. */
	bool (*option)(struct query_options *o, int opt, const char *arg);
};

/*
 * Parses the options; optind is at the first argument after them. -1 with *ret, the renderer that
 * was chosen; otherwise the exit code, after printing the help or reporting what is wrong.
 */
int query_options_parse(struct query_options *o, const struct query_command *c, int argc,
			char **argv, const struct renderer **ret);

/* Parses a time range; false after reporting what is wrong. */
bool query_options_range(const char *from, const char *to, struct timerange *ret);

/* Asks for the labels that the options need. */
void query_options_labels(const struct query_options *o, struct query_request *ask);

/* Cuts the profile to the callers or callees asked for; false if there is no such function. */
bool query_options_cut(struct profile **p, const struct query_options *o);
/* Reports that, and suggests functions with a similar name. */
void query_options_no_function(const struct profile *p, const struct query_options *o);

/* Writes to the path that cli_path() chooses; `what` becomes part of a new file's name. */
int query_options_write(const struct profile *p, const struct renderer *r,
			const struct cli_output *out, const char *what);

/* For one side of a comparison that is empty: warns if nothing was recorded in that range. */
void query_options_warn_empty(struct query_client *c, const struct query_request *ask);

/* Reports that the answer is empty, and the likely reason; returns the exit code. */
int query_options_explain_empty(struct query_client *c, const struct query_request *ask,
				const struct store_answer *a);
