/*
 * shown: what `query` and `diff` have in common: which profiles, of what time, cut to the
 * callers or callees of a function, and how they look.
 *
 *	static const struct option long_options[] = {SHOWN_OPTIONS, {"base-from", …}, {}};
 *	int code = shown_parse(&shown, &command, argc, argv, &renderer);
 */
#pragma once

#include "cli/cli.h"
#include "cli/output_options.h"
#include "cli/source.h"

enum { SHOWN_FROM = 700, SHOWN_TO, SHOWN_BY, SHOWN_CALLERS, SHOWN_CALLEES };

#define SHOWN_OPTIONS                                                                              \
	OUTPUT_OPTIONS, SOURCE_OPTIONS, {"from", required_argument, NULL, SHOWN_FROM},             \
		{"to", required_argument, NULL, SHOWN_TO},                                         \
		{"by", required_argument, NULL, SHOWN_BY},                                         \
		{"callers", required_argument, NULL, SHOWN_CALLERS},                               \
	{                                                                                          \
		"callees", required_argument, NULL, SHOWN_CALLEES                                  \
	}

struct shown {
	struct cli_output out;
	struct source_options source;
	const char *from, *to;
	const char *callers, *callees; /* at most one of them */
	bool is_table;                 /* functions are ranked: of callers, those right below */
};

void shown_help(void); /* their lines of --help, but for --from and --to */

struct shown_command {
	const char *name;
	const struct option *options; /* SHOWN_OPTIONS, its own, --help as 'h', and the end */
	void (*help)(void);
	bool (*option)(struct shown *s, int opt, const char *arg); /* its own; NULL: none */
};

/*
 * Reads the options; optind is at what is left. -1 with *ret, what writes the profile; else the
 * exit code: --help was asked for, or something is wrong and was said.
 */
int shown_parse(struct shown *s, const struct shown_command *c, int argc, char **argv,
		const struct renderer **ret);

/* Parses a range; false after saying what is wrong. */
bool shown_range(const char *from, const char *to, struct timerange *ret);

/* The labels that the options need. */
void shown_keep(const struct shown *s, struct source_question *ask);

/* Replaces the profile by what was asked of it; false if there is no such function. */
bool shown_cut(struct profile **p, const struct shown *s);
void shown_no_function(const struct profile *p, const struct shown *s); /* says so */

/* Writes it where cli_path() says; `what` names a file that is made. */
int shown_write(const struct profile *p, const struct renderer *r, const struct cli_output *o,
		const char *what);

/* Of one side of a comparison that has nothing: says so, if that is because nobody recorded. */
void shown_warn_empty(struct source *s, const struct source_question *ask);

/* Says that there is nothing, and why that may be; returns the exit code. */
int shown_nothing(struct source *s, const struct source_question *ask,
		  const struct store_answer *a);
