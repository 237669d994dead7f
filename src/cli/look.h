/*
 * look: the options of every command that turns a profile into a picture or text: how it looks.
 *
 *	static const struct option long_options[] = {LOOK_OPTIONS, {"from", …}, {}};
 *	if (look_owns(opt)) return look_option(&output, opt, optarg);
 */
#pragma once

#include "cli/cli.h"

enum {
	LOOK_REVERSE = 512,
	LOOK_MIN_FRACTION,
	LOOK_ANNOTATIONS,
	LOOK_TITLE,
	LOOK_WIDTH,
	LOOK_ICICLE,
	LOOK_TOP,
};

#define LOOK_SHORT "o:f:q"
#define LOOK_OPTIONS                                                                               \
	{"output", required_argument, NULL, 'o'}, {"format", required_argument, NULL, 'f'},        \
		{"reverse", no_argument, NULL, LOOK_REVERSE},                                      \
		{"min-fraction", required_argument, NULL, LOOK_MIN_FRACTION},                      \
		{"annotations", no_argument, NULL, LOOK_ANNOTATIONS},                              \
		{"title", required_argument, NULL, LOOK_TITLE},                                    \
		{"width", required_argument, NULL, LOOK_WIDTH},                                    \
		{"icicle", no_argument, NULL, LOOK_ICICLE},                                        \
		{"top", required_argument, NULL, LOOK_TOP},                                        \
	{                                                                                          \
		"quiet", no_argument, NULL, 'q'                                                    \
	}

void look_help(void); /* their lines of --help, but for -o and -f: commands differ in those */
bool look_owns(int opt);
bool look_option(struct cli_output *o, int opt, const char *arg); /* false after saying why */
