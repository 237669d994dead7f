/*
 * cli: the commands. One file per command, one table of them in main.c.
 *
 * A command gets argv with "smolder NAME" in argv[0], which getopt's messages begin with, and
 * returns the exit code: 0; 1 for a failure that it has reported in one sentence on stderr; 2 for
 * arguments that are wrong on any machine.
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
int cmd_top(int argc, char **argv);
int cmd_offcpu(int argc, char **argv);
int cmd_offcputime(int argc, char **argv);
int cmd_syscalls(int argc, char **argv);
int cmd_syscount(int argc, char **argv);
int cmd_stat(int argc, char **argv);
int cmd_bpf(int argc, char **argv);
int cmd_serve(int argc, char **argv);
int cmd_trace(int argc, char **argv);
int cmd_query(int argc, char **argv);
int cmd_diff(int argc, char **argv);
int cmd_changes(int argc, char **argv);
int cmd_explain(int argc, char **argv);
int cmd_labels(int argc, char **argv);
int cmd_findings(int argc, char **argv);
int cmd_flame(int argc, char **argv);
int cmd_symbols(int argc, char **argv);
int cmd_doctor(int argc, char **argv);
int cmd_run(int argc, char **argv);
int cmd_agent(int argc, char **argv);

/*
 * What every command that writes a profile shares: -o FILE|-, -f FORMAT and how it is drawn.
 */
struct cli_output {
	const char *path;   /* -o; NULL: the command's default */
	const char *format; /* -f; NULL: by the extension of path */
	bool to_invoker;    /* under sudo, the file belongs to the user who called it */
	struct render_options options;
};

/* Finds the renderer, `fallback` if neither -f nor -o names one. NULL after listing the formats. */
const struct renderer *cli_renderer(const struct cli_output *o, const char *fallback);

/* Whether a file can be created there, to be checked before the work; reports why if not. */
bool cli_writable(const char *path);

/*
 * Where the output goes without -o, the same for all commands: text formats (top, tree, text,
 * folded) go to standard output. So do the others if that is a pipe or a file; if it is a
 * terminal, or a program that was started writes to it (`shared`), they go to NAME.EXTENSION in the
 * current directory. Caller frees.
 */
char *cli_path(const struct cli_output *o, const struct renderer *r, const char *name, bool shared);

/* "smolder-nginx-20261115T010203Z", with only characters that are safe in a file name. Caller
 * frees. */
char *cli_file_name(const char *of);

/*
 * Writes the complete profile or nothing: 0, or 1 after reporting why. "-" is stdout; if its reader
 * goes away (| head), that is not a failure.
 */
int cli_write(const struct profile *p, const struct renderer *r, const struct cli_output *o,
	      const char *path);

/* Flushes what a command printed with stdio: 0, or 1 after reporting why that failed. */
int cli_printed(void);

/*
 * A file that is read while it is written, and so is written in place: "-" is stdout, NULL is
 * `usual`, which is stdout or stderr. `mode` as of fopen. NULL after reporting why not.
 */
FILE *cli_open_lines(const char *path, const char *mode, FILE *usual);
/* Ends the use of it: 0, or 1 after reporting what failed; not that a pipe's reader is gone. */
int cli_close_lines(FILE *f, const char *path);

/* "DOING: 3 s left" or "DOING for 3 s: Ctrl-C to stop", as a line that the next one overwrites.
 * Times are of CLOCK_MONOTONIC; `until_ns` 0: no end. */
void cli_progress(const char *doing, uint64_t began_ns, uint64_t until_ns);

/* Width of the terminal on standard output; 0 if that is not a terminal. */
unsigned cli_terminal_columns(void);

/* Parses the number given to an option; false after reporting what is wrong with it. */
bool cli_number(const char *option, const char *arg, uint64_t min, uint64_t max, uint64_t *ret);

/* The value of the word given to an option, in a table of at most 15 that ends with a NULL name;
 * false after reporting that it is none of them. */
struct cli_word {
	const char *name;
	int value;
};
bool cli_word(const char *option, const char *arg, const struct cli_word *words, int *ret);

/*
 * Parses seconds, with a fraction if need be, or with a unit: "5", "0.5", "2m"; false after
 * reporting what is wrong, which for a word is how `command` starts a program.
 */
bool cli_seconds(const char *command, const char *arg, uint64_t *ret_ms);

/* What getopt left over: SECONDS, or nothing; false after reporting what else it is. */
bool cli_plain_seconds(const char *command, int argc, char **argv, uint64_t *ret_ms);

/* -q, -v and -h: whether the option is one of them, which is done then. */
bool cli_takes(int option, bool *ret_help);

/* "Try 'smolder COMMAND --help'." on stderr; returns EXIT_USAGE. */
int cli_usage(const char *command);

/* The directory that caches unwind tables between runs; NULL if there is none. Caller frees. */
char *cli_cache_dir(void);
