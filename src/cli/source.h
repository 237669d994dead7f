/*
 * source: where stored profiles come from: a server, the store on this machine, or files.
 *
 * Asked for nothing else, it is the local server if one answers, and otherwise the store itself.
 * All that goes wrong is said here.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "profile/profile.h"
#include "query/quality.h"
#include "query/timerange.h"
#include "store/store.h"

enum { SOURCE_SERVER = 600, SOURCE_STORE, SOURCE_TOKEN, SOURCE_CA, SOURCE_TIMEOUT };

#define SOURCE_OPTIONS                                                                             \
	{"server", required_argument, NULL, SOURCE_SERVER},                                        \
		{"store", required_argument, NULL, SOURCE_STORE},                                  \
		{"token-file", required_argument, NULL, SOURCE_TOKEN},                             \
		{"ca-file", required_argument, NULL, SOURCE_CA},                                   \
	{                                                                                          \
		"timeout", required_argument, NULL, SOURCE_TIMEOUT                                 \
	}

struct source_options {      /* of the command line */
	const char *server;  /* URL; NULL: not given */
	const char *store;   /* directory; NULL: not given */
	const char *token;   /* file; NULL: not given */
	const char *ca;      /* file; NULL: not given */
	uint64_t timeout_ms; /* 0: none */
};

void source_help(void);
bool source_owns(int opt);
bool source_option(struct source_options *o, int opt, const char *arg);

/* What --server means: "host" is "http://host:7117". NULL after saying what is wrong with it.
 * Caller frees. */
char *source_url(const char *given);

struct source;
struct source *source_open(const struct source_options *o); /* NULL after saying why */
void source_close(struct source *s);

struct source_question {
	const char *selector;
	struct timerange range;
	const char *const *keep; /* labels of the answer */
	size_t keep_count;
};

/* Whether a selector (NULL: none) can be understood, before anything is asked; false after saying
 * why not, also of what looks like a file that is not there. */
bool source_selector(const char *selector);

/* Adds to `into`: 0, or an exit code after saying why. */
int source_profile(struct source *s, const struct source_question *q, struct profile *into,
		   struct store_answer *ret);

/* Names of labels (name NULL), or the values of one. Ended by store_names_done(). */
int source_names(struct source *s, const struct source_question *q, const char *name,
		 struct store_names *ret);

/* Whose profiles an answer holds, for a title: the selector, and the hosts. Caller frees. */
char *source_subject(struct source *s, const struct source_question *q);

/* Whether an argument is a file (it is there) rather than a selector; "-" is one. */
bool source_is_file(const char *arg);
int source_file(const char *path, struct profile *into); /* 0, or 1 after saying why */
const char *source_file_name(const char *path);          /* for a title; NULL: standard input */

/* Says which files of the store are missing from an answer, and why; false: none are. */
bool source_trouble(const struct store_answer *a);

/* The time that something is stored of; false: it is not known, or nothing is. */
bool source_span(struct source *s, uint64_t *ret_from_ms, uint64_t *ret_to_ms);
/* Since when (ms since 1970) there is somebody who will store something soon; 0: nobody, or that is
 * long ago. */
uint64_t source_starting(struct source *s);
void source_time(uint64_t ms, char ret[static 32]); /* "14:02:05", with the day if not today */

/* " --server URL" or " --store DIR" as it was given, else "": for commands that are suggested. */
const char *source_hint(const struct source *s);

/* Says what would name the largest part of what has no name; often nothing. */
void source_advise(const struct quality *q);

/*
 * "14:02:00 to 14:05:00: 1,234 samples, 0 lost, 99.2 % of user stacks complete, 1.2 % of frames
 * without a name", what else is missing, and what would help, on stderr.
 */
void source_report(const struct profile *p, const struct store_answer *a, const char *what);
