/*
 * cli: the commands. One file a command, one table of them in main.c.
 *
 * A command gets argv with "smolder NAME" in argv[0], which getopt's messages begin with, and
 * returns the exit code: 0, 1 for a failure it has said in one sentence on stderr, 2 for arguments
 * that make no sense, whatever else is so on this machine.
 */
#pragma once

#include <getopt.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "base/loop.h"
#include "collect/sampler.h"
#include "render/render.h"

enum { EXIT_USAGE = 2 };

struct command {
	const char *name;
	int (*run)(int argc, char **argv);
	const char *summary; /* one line for smolder --help */
};

extern const struct command commands[]; /* ends with a NULL name */

int cmd_record(int argc, char **argv);
int cmd_profile(int argc, char **argv);
int cmd_serve(int argc, char **argv);
int cmd_query(int argc, char **argv);
int cmd_diff(int argc, char **argv);
int cmd_labels(int argc, char **argv);
int cmd_flame(int argc, char **argv);
int cmd_doctor(int argc, char **argv);
int cmd_run(int argc, char **argv);
int cmd_agent(int argc, char **argv);

/*
 * What every command that writes a profile shares: -o FILE|-, -f FORMAT and how it is drawn.
 */
struct cli_output {
	const char *path;   /* -o; NULL: the command's default */
	const char *format; /* -f; NULL: by the extension of path */
	bool to_invoker;    /* under sudo the file belongs to who called it */
	struct render_options options;
};

/* Finds the renderer, or says which are known; `fallback` when neither -f nor -o names one. */
const struct renderer *cli_renderer(const struct cli_output *o, const char *fallback);

/* Whether a file can be made there, before work that would be for nothing; says why if not. */
bool cli_writable(const char *path);

/*
 * Where the output goes without -o, by one rule for all commands: what people read (top, tree,
 * text, folded) to standard output, and so every format where that is a pipe or a file; otherwise,
 * on a terminal or where a program that was started writes there (`shared`), to NAME.EXTENSION in
 * this folder. Caller frees.
 */
char *cli_path(const struct cli_output *o, const struct renderer *r, const char *name, bool shared);

/* "smolder-nginx-20261115T010203Z", with only what is safe in a file name. Caller frees. */
char *cli_file_name(const char *of);

/*
 * Writes the profile whole or not at all: 0, or 1 after saying why. "-" is stdout; a reader of it
 * that goes away (| head) has had enough, which is no failure.
 */
int cli_write(const struct profile *p, const struct renderer *r, const struct cli_output *o,
	      const char *path);

/* For what commands print with stdio: 0, or 1 after saying why it could not be written. */
int cli_printed(void);

/* Columns of the terminal that standard output is; 0: it is none. */
unsigned cli_terminal_columns(void);

/* The one of `names` (ends with NULL) that a word with a slip or two was meant to be, or NULL. */
const char *cli_meant(const char *word, const char *const *names);

/* Parses a number of an option; says what is wrong with it and returns false. */
bool cli_number(const char *option, const char *arg, uint64_t min, uint64_t max, uint64_t *ret);

/* "Try 'smolder COMMAND --help'." on stderr; returns EXIT_USAGE. */
int cli_usage(const char *command);

/* Where unwind tables stay from run to run: NULL if there is no such place. Caller frees. */
char *cli_cache_dir(void);
