/*
 * record_options: the command line of commands that record into a profile: whom, how long, which
 * frames, and where the result goes.
 *
 *	static const struct option long_options[] = {RECORD_OPTIONS, {"state", …}, {}};
 *	struct record_command c = {"offcpu", RECORD_SHORT "m:", long_options, set_option, &args};
 *	if (!record_options_parse(&c, argc, argv, &args.record)) …
 *	return record_options_run(&c, &args.record);
 */
#pragma once

#include "cli/cli.h"
#include "cli/recording.h"

enum {
	RECORD_THREADS = 768,
	RECORD_DELIMITED,
	RECORD_ANNOTATIONS,
	RECORD_TITLE,
	RECORD_TOP,
	RECORD_INLINES,
	RECORD_NO_INLINES,
	RECORD_LINES,
	RECORD_NO_LINES,
	RECORD_TABLES,
	RECORD_OPEN,
};

#define RECORD_SHORT "p:ad:UKo:f:qvh"
#define RECORD_OPTIONS                                                                             \
	TARGET_LONG, {"threads", no_argument, NULL, RECORD_THREADS},                               \
		{"delimited", no_argument, NULL, RECORD_DELIMITED},                                \
		{"annotations", no_argument, NULL, RECORD_ANNOTATIONS},                            \
		{"title", required_argument, NULL, RECORD_TITLE},                                  \
		{"top", required_argument, NULL, RECORD_TOP},                                      \
		{"inlines", no_argument, NULL, RECORD_INLINES},                                    \
		{"no-inlines", no_argument, NULL, RECORD_NO_INLINES},                              \
		{"lines", no_argument, NULL, RECORD_LINES},                                        \
		{"no-lines", no_argument, NULL, RECORD_NO_LINES},                                  \
		{"tables", required_argument, NULL, RECORD_TABLES},                                \
		{"open", no_argument, NULL, RECORD_OPEN},                                          \
	{                                                                                          \
		"help", no_argument, NULL, 'h'                                                     \
	}

/* Whether to use debug info: YES or NO if an option said so, otherwise decided by what is
 * recorded. */
enum detail { DETAIL_AUTO, DETAIL_YES, DETAIL_NO };

struct record_args {
	struct recording_options recording;
	struct cli_output output;
	enum detail inlines, lines;
	bool open;
	bool help; /* was asked for: nothing else counts */
};

struct record_command {
	const char *name;
	const char *short_options;
	const struct option *long_options;
	/* Sets an option of the command's own, by optarg; false after reporting what is wrong. */
	bool (*set)(void *ctx, int opt);
	void *ctx;
};

/* Options and SECONDS in any order, then -- and the program; false after reporting what is wrong.
 */
bool record_options_parse(const struct record_command *c, int argc, char **argv,
			  struct record_args *a);

/* What excludes each other, as a sentence; NULL if nothing does. */
const char *record_options_conflict(const struct record_args *a);

/* Prints their lines of --help: about debug info and tables; about the output. */
void record_options_help_detail(void);
void record_options_help_output(void);

/* Records, writes the profile and reports; returns the exit code. */
int record_options_run(const struct record_command *c, struct record_args *a);
