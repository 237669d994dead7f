/*
 * bcc_options: what the commands that record with BCC's flags and BCC's output share: `profile` and
 * `offcputime`.
 */
#pragma once

#include <getopt.h>
#include <stdbool.h>

#include "cli/recording.h"
#include "render/render.h"

struct bcc_args {
	struct recording_options recording;
	struct render_options render;
	bool folded, help;
};

struct bcc_command {
	const char *options; /* as getopt_long takes them; the long ones begin with BCC_LONG */
	const struct option *long_options;
	int threads;                              /* the short option of --tid */
	bool (*set)(void *ctx, int option);       /* Handles one of the command's own options. */
	const char *(*conflict)(const void *ctx); /* Returns why options conflict, or NULL. */
	void *ctx;
};

enum { BCC_STORAGE = 1024 };
#define BCC_LONG(threads)                                                                          \
	{"pid", required_argument, NULL, 'p'}, {"tid", required_argument, NULL, threads},          \
		{"user-stacks-only", no_argument, NULL, 'U'},                                      \
		{"kernel-stacks-only", no_argument, NULL, 'K'},                                    \
		{"delimited", no_argument, NULL, 'd'}, {"folded", no_argument, NULL, 'f'},         \
		{"stack-storage-size", required_argument, NULL, BCC_STORAGE},                      \
	{                                                                                          \
		"help", no_argument, NULL, 'h'                                                     \
	}

/* Options, then SECONDS; false after reporting what is wrong. */
bool bcc_parse(const struct bcc_command *c, int argc, char **argv, struct bcc_args *a);

/* Of the line that BCC begins with: "1, 2, 3", "user + kernel", and its end, flushed. */
void bcc_print_ids(const struct bcc_args *a);
const char *bcc_stacks(const struct bcc_args *a);
void bcc_print_duration(const struct bcc_args *a);

/* Records and prints, values in `unit` if that is not NULL; the exit code. `what` may be lost. */
int bcc_record(struct bcc_args *a, const char *unit, const char *what);
