/*
 * output_options: the command line options shared by all commands that write a profile: which
 * format, to which file, and how it is drawn.
 *
 *	static const struct option long_options[] = {OUTPUT_OPTIONS, {"from", …}, {}};
 *	if (output_options_owns(opt)) return output_options_set(&output, opt, optarg);
 */
#pragma once

#include "cli/cli.h"

enum {
	OUTPUT_REVERSE = 512,
	OUTPUT_MIN_FRACTION,
	OUTPUT_ANNOTATIONS,
	OUTPUT_TITLE,
	OUTPUT_WIDTH,
	OUTPUT_ICICLE,
	OUTPUT_IDLE,
	OUTPUT_TOP,
};

#define OUTPUT_SHORT "o:f:q"
#define OUTPUT_OPTIONS                                                                             \
	{"output", required_argument, NULL, 'o'}, {"format", required_argument, NULL, 'f'},        \
		{"reverse", no_argument, NULL, OUTPUT_REVERSE},                                    \
		{"min-fraction", required_argument, NULL, OUTPUT_MIN_FRACTION},                    \
		{"annotations", no_argument, NULL, OUTPUT_ANNOTATIONS},                            \
		{"title", required_argument, NULL, OUTPUT_TITLE},                                  \
		{"width", required_argument, NULL, OUTPUT_WIDTH},                                  \
		{"icicle", no_argument, NULL, OUTPUT_ICICLE},                                      \
		{"idle", no_argument, NULL, OUTPUT_IDLE},                                          \
		{"top", required_argument, NULL, OUTPUT_TOP},                                      \
	{                                                                                          \
		"quiet", no_argument, NULL, 'q'                                                    \
	}

/* Prints their lines of --help, except -o and -f, which differ between commands. */
void output_options_help(void);
bool output_options_owns(int opt);
/* Sets one of them; false after reporting what is wrong with its argument. */
bool output_options_set(struct cli_output *o, int opt, const char *arg);
