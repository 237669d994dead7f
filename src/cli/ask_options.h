/*
 * ask_options: the options of commands that ask what is stored of a time range, and print the
 * answer for people or as JSON: whom to ask, from when to when.
 *
 *	static const struct option long_options[] = {ASK_OPTIONS, {"at", …}, {}};
 *	int code = ask_options_parse(&ask, &command, &own, argc, argv);
 */
#pragma once

#include <getopt.h>
#include <stdbool.h>

#include "cli/query_client.h"

enum { ASK_FROM = 800, ASK_TO, ASK_JSON, ASK_OWN };

#define ASK_OPTIONS                                                                                \
	CLIENT_OPTIONS, {"from", required_argument, NULL, ASK_FROM},                               \
		{"to", required_argument, NULL, ASK_TO}, {"quiet", no_argument, NULL, 'q'},        \
	{                                                                                          \
		"help", no_argument, NULL, 'h'                                                     \
	}

/* For those that have it. */
#define ASK_OPTION_JSON                                                                            \
	{                                                                                          \
		"json", no_argument, NULL, ASK_JSON                                                \
	}

struct ask_options {
	struct query_client_options client;
	const char *from, *to; /* as given; NULL: not given */
	bool as_json;
};

struct ask_command {
	const char *name;
	const struct option *options; /* ASK_OPTIONS, its own from ASK_OWN on, and the end */
	void (*help)(void);
	/* Handles an option of its own, false: reported as wrong; NULL: it has none. */
	bool (*option)(void *own, int opt, const char *arg);
};

/*
 * optind is then at the first argument after the options. -1; or the exit code, after printing the
 * help or reporting what is wrong.
 */
int ask_options_parse(struct ask_options *o, const struct ask_command *c, void *own, int argc,
		      char **argv);
