/*
 * target: whom a command that records is about: processes, threads, a control group, a program that
 * it starts, or the whole machine.
 *
 *	target_find()    they are there; sets the filter
 *	target_start()   starts the program, held before its first instruction
 *	target_watch()   the loop stops when all of them have ended
 *	target_go()      lets the program run
 *	target_wait()    until the program has ended
 *
 * What goes wrong is reported here, in one sentence; functions return 0 or the exit code.
 */
#pragma once

#include <getopt.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/loop.h"
#include "bpf/wire.h"
#include "cli/program.h"

#define TARGET_IDS_MAX 1024

struct target_options {
	uint32_t pids[TARGET_IDS_MAX], tids[TARGET_IDS_MAX];
	unsigned pid_count, tid_count;
	const char *cgroup; /* path, NULL: any */
	const char *comm;   /* NULL: any */
	char **program;     /* NULL, or what to start, as the invoking user */
	bool machine;       /* with a program: everything while it runs */
};

struct target { /* zero-initialised is none */
	const struct target_options *options;
	struct loop *loop;
	struct program program;
	bool has_program;
	int program_status;
	int pidfds[TARGET_IDS_MAX];
	unsigned pidfd_count, alive;
	uint32_t program_id;
};

/*
 * The options that say whom, as the commands of our own have them (those with BCC's flags do not):
 * -p, -L, -a, --cgroup and --comm, once getopt_long has found one.
 */
enum { TARGET_CGROUP = 1024, TARGET_COMM };
#define TARGET_LONG                                                                                \
	{"cgroup", required_argument, NULL, TARGET_CGROUP},                                        \
	{                                                                                          \
		"comm", required_argument, NULL, TARGET_COMM                                       \
	}

/* Whether it is all processes that there are. */
bool target_is_machine(const struct target_options *o);

bool target_takes(int c);                         /* whether it is one of them … */
bool target_set(struct target_options *o, int c); /* … false after reporting what is wrong */

/* Parses "1,2,3" given to an option; false after reporting what is wrong. */
bool target_ids(const char *option, const char *arg, uint32_t *list, unsigned *count);

/*
 * Takes the program that stands after "--" as one to start. How many words stand before that, which
 * are for getopt; -1 after reporting that nothing stands after it.
 */
int target_words(int argc, char **argv, struct target_options *o);

/* What excludes each other in the options, as a sentence; NULL if nothing does. */
const char *target_conflict(const struct target_options *o);

int target_find(struct target *t, const struct target_options *o, struct wire_filter *filter);
int target_start(struct target *t);
int target_watch(struct target *t, struct loop *l); /* 0 or -errno */
int target_go(struct target *t);
void target_wait(struct target *t);

/* The pids or tids to filter by, the program's as well. Borrowed. */
const uint32_t *target_list(const struct target *t, size_t *ret_count);

/* Of the program: 0 if there is none, or it still runs. */
int target_exit_code(const struct target *t);

/* "nginx", "machine": the target's name, with only what is safe in a file name. */
void target_name(const struct target_options *o, char *ret, size_t size);

void target_done(struct target *t); /* a program that was never let go ends */
