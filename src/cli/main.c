#include <malloc.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "base/library.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/nearest.h"
#include "cli/cli.h"

const struct command commands[] = {
	{"record", cmd_record, "profile the machine, a process or a program now"},
	{"profile", cmd_profile, "the same, with the flags and output of BCC's profile"},
	{"offcpu", cmd_offcpu,
	 "what threads wait for now, and how long: time off the CPU by stack"},
	{"offcputime", cmd_offcputime, "the same, with the flags and output of BCC's offcputime"},
	{"syscalls", cmd_syscalls, "count and time system calls, by call, process or thread"},
	{"syscount", cmd_syscount, "the same, with the flags and output of BCC's syscount"},
	{"stat", cmd_stat, "count events, as perf stat does: time, switches, faults, cycles"},
	{"trace", cmd_trace, "show each system call, as strace does, without stopping the process"},
	{"bpf", cmd_bpf, "what each BPF program in the kernel costs, and where its time goes"},
	{"top", cmd_top, "what processes do, live: CPU, waiting, and the hottest functions"},
	{"run", cmd_run, "sample every process continuously, and store and serve the profiles"},
	{"agent", cmd_agent, "sample continuously, and send the profiles to a server"},
	{"serve", cmd_serve, "store what agents send, and answer queries over HTTP"},
	{"query", cmd_query, "show stored profiles: tables, flame graphs, pprof"},
	{"diff", cmd_diff, "compare two time ranges, two selectors or two files"},
	{"changes", cmd_changes, "what takes more or less CPU time than before, beyond chance"},
	{"explain", cmd_explain, "all that is known of a program's last minutes, on one page"},
	{"labels", cmd_labels, "list the labels to select by"},
	{"findings", cmd_findings,
	 "say what looks wrong on this machine, now or over a time range"},
	{"symbols", cmd_symbols, "give the server debug files, to name stripped programs"},
	{"flame", cmd_flame, "convert folded stacks, pprof or perf script to any format"},
	{"doctor", cmd_doctor, "check what this kernel and your permissions allow"},
	{},
};

static void help(FILE *out)
{
	fputs("smolder: what is this machine doing? An always-on profiler for Linux.\n\n"
	      "Usage: smolder COMMAND [options] [SECONDS] [-- program args...]\n\n",
	      out);
	for (const struct command *c = commands; c->name; c++)
		fprintf(out, "  %-10s %s\n", c->name, c->summary);
	fputs("\n'smolder COMMAND --help' lists a command's options; 'smolder doctor' checks this "
	      "machine.\n",
	      out);
}

static const struct command *find(const char *name)
{
	for (const struct command *c = commands; c->name; c++)
		if (strcmp(c->name, name) == 0)
			return c;
	return NULL;
}

/* With "smolder NAME" in argv[0]: what getopt says of options begins with it. */
static int start(const struct command *c, int argc, char **argv)
{
	CLEANUP(freep) char *name = mem_printf("smolder %s", c->name);

	argv[0] = name;
	return c->run(argc, argv);
}

static int unknown(const char *word)
{
	const char *names[ARRAY_SIZE(commands)] = {};

	for (size_t i = 0; commands[i].name; i++)
		names[i] = commands[i].name;
	const char *meant = nearest_word(word, names);
	if (word[0] == '-')
		log_error("the command must come before its options, as in 'smolder record %s'; "
			  "'smolder --help' lists the commands",
			  word);
	else if (meant)
		log_error("there is no command '%s', did you mean 'smolder %s'? 'smolder --help' "
			  "lists them",
			  word, meant);
	else
		log_error("there is no command '%s'; 'smolder --help' lists them", word);
	return EXIT_USAGE;
}

/* "help", "help record": --help of that command. */
static int help_on(const char *word)
{
	const struct command *c = word ? find(word) : NULL;
	char name[32], option[] = "--help";

	if (word && !c)
		return unknown(word);
	if (!c) {
		help(stdout);
		return cli_printed();
	}
	snprintf(name, sizeof(name), "%s", c->name);
	return start(c, 2, (char *[]){name, option, NULL});
}

int main(int argc, char **argv)
{
	/* A reader that goes away (| head) and a limit of file size are errors of writing. */
	signal(SIGPIPE, SIG_IGN);
	signal(SIGXFSZ, SIG_IGN);
	library_begin();
	/* What is large and short-lived (tables being made) goes back to the system at once. */
	mallopt(M_MMAP_THRESHOLD, 256 << 10);
	/* Threads that make tables, or come and go with queries: their memory is better shared.
	 */
	mallopt(M_ARENA_MAX, 2);

	/* A symbolic link by the name of a command is that command. */
	const char *self = strrchr(argv[0], '/');
	const struct command *c = find(self ? self + 1 : argv[0]);
	if (c)
		return c->run(argc, argv);

	if (argc < 2) {
		help(stderr);
		return EXIT_USAGE;
	}
	const char *word = argv[1];
	if (strcmp(word, "--help") == 0 || strcmp(word, "-h") == 0 || strcmp(word, "help") == 0)
		return help_on(argv[2]);
	if (strcmp(word, "--version") == 0 || strcmp(word, "-V") == 0) {
		puts("smolder " SMOLDER_VERSION);
		return cli_printed();
	}
	c = find(word);
	return c ? start(c, argc - 1, argv + 1) : unknown(word);
}
