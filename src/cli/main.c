#include <malloc.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "cli/cli.h"

const struct command commands[] = {
	{"record", cmd_record, "on-CPU profile of the machine, a process or a program"},
	{"profile", cmd_profile, "the same, with BCC profile's flags and output"},
	{"run", cmd_run, "sample every process, all the time, and keep it"},
	{"agent", cmd_agent, "the same, sent to a server elsewhere"},
	{"serve", cmd_serve, "keep what collectors send, and answer over HTTP"},
	{"query", cmd_query, "what was stored, of any time: tables, flame graphs, pprof"},
	{"diff", cmd_diff, "two times, two selectors or two files compared"},
	{"labels", cmd_labels, "what there is to select by"},
	{"flame", cmd_flame, "folded, pprof or perf script in, any format out"},
	{"doctor", cmd_doctor, "what this kernel and these permissions allow"},
	{},
};

static void help(FILE *out)
{
	fputs("smolder: what is this machine doing? A profiler for Linux.\n\n"
	      "Usage: smolder COMMAND [options] [SECONDS] [-- program args...]\n\n",
	      out);
	for (const struct command *c = commands; c->name; c++)
		fprintf(out, "  %-10s %s\n", c->name, c->summary);
	fputs("\n'smolder COMMAND --help' tells a command's options; 'smolder doctor' what works "
	      "here.\n",
	      out);
}

static const struct command *find(const char *name)
{
	for (const struct command *c = commands; c->name; c++)
		if (strcmp(c->name, name) == 0)
			return c;
	return NULL;
}

int main(int argc, char **argv)
{
	/* A reader that goes away (| head) and a limit of file size are errors of writing. */
	signal(SIGPIPE, SIG_IGN);
	signal(SIGXFSZ, SIG_IGN);
	/* What is large and short-lived (tables being made) goes back to the system at once. */
	mallopt(M_MMAP_THRESHOLD, 256 << 10);

	/* A symbolic link by the name of a command is that command. */
	const char *self = strrchr(argv[0], '/');
	const struct command *c = find(self ? self + 1 : argv[0]);
	if (c)
		return c->run(argc, argv);

	if (argc < 2) {
		help(stderr);
		return EXIT_USAGE;
	}
	if (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0 ||
	    strcmp(argv[1], "help") == 0) {
		help(stdout);
		return 0;
	}
	if (strcmp(argv[1], "--version") == 0 || strcmp(argv[1], "-V") == 0) {
		puts("smolder " SMOLDER_VERSION);
		return 0;
	}

	c = find(argv[1]);
	if (!c) {
		fprintf(stderr, "smolder: there is no command '%s'; 'smolder --help' lists them\n",
			argv[1]);
		return EXIT_USAGE;
	}
	return c->run(argc - 1, argv + 1);
}
