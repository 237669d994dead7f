#include <string.h>

#include "base/log.h"
#include "base/mem.h"
#include "cli/cli.h"
#include "cli/query_client.h"
#include "cli/target.h"
#include "cli/top_live.h"
#include "cli/top_server.h"
#include "cli/top_session.h"

#define RATE     99
#define RATE_MAX 10000
#define ROWS     20

static void help(void)
{
	puts("Usage: smolder top [options]\n"
	     "\n"
	     "Shows what processes do, live: their time on a CPU, waiting for one and blocked, "
	     "and\n"
	     "under the selected one its hottest functions and stacks; and what looks wrong, on\n"
	     "top. h lists the keys.\n"
	     "\n"
	     "What to show:\n"
	     "  -p PID[,PID]      only these processes\n"
	     "  -L TID[,TID]      only these threads\n"
	     "  --cgroup PATH     only processes in this control group or below it\n"
	     "  --comm NAME       only processes with this name\n"
	     "  --by WHAT         a row is a process (default), thread or container\n"
	     "  --sort COLUMN     cpu (default), runnable, blocked, idle, switches, threads, pid\n"
	     "                    or name\n"
	     "  --search TEXT     only rows whose name, number or container has this\n"
	     "  --wall            where all of their time goes, not only that on a CPU\n"
	     "  --findings no     do not look for what is wrong, which looks closely at the "
	     "system\n"
	     "                    calls of a suspect for a second (yes)\n"
	     "How:\n"
	     "  -b                print plain text, no screen, for scripts and files\n"
	     "  -n COUNT          end after so many intervals\n"
	     "  -l LINES          with -b: rows, functions and stacks to print (20; 0: all)\n"
	     "  -d SECONDS        how often (1)\n"
	     "  -F HZ             samples per second per CPU (99)\n"
	     "From a server, which has a new window every ten seconds:");
	query_client_help();
	puts("  -q, --quiet           print nothing but errors\n"
	     "  -h, --help            print this help\n"
	     "\n"
	     "Examples:\n"
	     "  sudo smolder top\n"
	     "  sudo smolder top -b -n 1 --comm nginx\n"
	     "  smolder top --server http://127.0.0.1:7117");
}

enum { OPT_BY = 256, OPT_SORT, OPT_SEARCH, OPT_WALL, OPT_FINDINGS };

static const struct option long_options[] = {
	TARGET_LONG,
	CLIENT_OPTIONS,
	{"by", required_argument, NULL, OPT_BY},
	{"sort", required_argument, NULL, OPT_SORT},
	{"search", required_argument, NULL, OPT_SEARCH},
	{"wall", no_argument, NULL, OPT_WALL},
	{"findings", required_argument, NULL, OPT_FINDINGS},
	{"quiet", no_argument, NULL, 'q'},
	{"help", no_argument, NULL, 'h'},
	{},
};

struct args {
	struct top_live_options live;
	struct query_client_options client;
	struct top_session_options session;
	bool help, has_lines, has_rate;
};

/* Which of some words it is; false after listing them. */
static bool find_word(const char *option, const char *arg, const char *const *words, int count,
		      int *ret)
{
	char list[256] = "";

	for (int i = 0; i < count; i++) {
		if (strcmp(arg, words[i]) == 0) {
			*ret = i;
			return true;
		}
		size_t n = strlen(list);
		snprintf(list + n, sizeof(list) - n, "%s%s", i ? ", " : "", words[i]);
	}
	log_error("%s takes one of %s, not '%s'", option, list, arg);
	return false;
}

static bool set_word(struct args *a, int c)
{
	static const char *const no_yes[] = {"no", "yes"};
	struct top_options *v = &a->session.view;
	int found = 0;

	switch (c) {
	case OPT_BY:
		if (!find_word("--by", optarg, top_by_names, TOP_BYS, &found))
			return false;
		v->by = (enum top_by)found;
		return true;
	case OPT_SORT:
		if (!find_word("--sort", optarg, top_sort_names, TOP_SORTS, &found))
			return false;
		v->sort = (enum top_sort)found;
		return true;
	case OPT_FINDINGS:
		if (!find_word("--findings", optarg, no_yes, 2, &found))
			return false;
		a->live.findings = found;
		return true;
	default:
		if (strlen(optarg) >= sizeof(v->search) || strpbrk(optarg, "\r\n\t\033")) {
			log_error("--search takes a text of at most %zu characters",
				  sizeof(v->search) - 1);
			return false;
		}
		snprintf(v->search, sizeof(v->search), "%s", optarg);
		return true;
	}
}

static bool set_option(struct args *a, int c)
{
	uint64_t lines;

	if (c != 'a' && target_takes(c))
		return target_set(&a->live.target, c);
	if (query_client_owns(c))
		return query_client_set(&a->client, c, optarg);
	switch (c) {
	case 'b':
		a->session.batch = true;
		return true;
	case 'n':
		return cli_number("-n", optarg, 1, UINT32_MAX, &a->session.count);
	case 'l':
		a->has_lines = true;
		if (!cli_number("-l", optarg, 0, TOP_FUNCTIONS, &lines))
			return false;
		a->session.rows = (unsigned)lines;
		return true;
	case 'd':
		return cli_seconds("top", optarg, &a->session.every_ms);
	case 'F':
		a->has_rate = true;
		return cli_number("-F", optarg, 1, RATE_MAX, &a->live.frequency);
	case OPT_BY:
	case OPT_SORT:
	case OPT_SEARCH:
	case OPT_FINDINGS:
		return set_word(a, c);
	case OPT_WALL:
		a->session.wall = true;
		return true;
	default:
		return cli_takes(c, &a->help);
	}
}

static bool is_stored(const struct args *a)
{
	return a->client.server || a->client.store;
}

static const char *conflict(const struct args *a)
{
	const struct target_options *t = &a->live.target;

	if (is_stored(a) && (!target_is_machine(t) || a->has_rate || !a->live.findings))
		return "-p, -L, --cgroup, --comm, -F and --findings are for this machine's kernel: "
		       "with "
		       "--server or --store use --search";
	if (!is_stored(a) && (a->client.token || a->client.ca || a->client.timeout_ms))
		return "--token-file, --ca-file and --timeout need --server URL";
	if (a->has_lines && !a->session.batch)
		return "-l is for plain text: it needs -b";
	if (a->session.view.sort == TOP_SORT_IDLE && !a->session.wall && !is_stored(a))
		return "idle time is known only with --wall";
	if (a->session.every_ms < 100)
		return "-d takes at least 0.1 seconds";
	return target_conflict(t);
}

static bool parse(int argc, char **argv, struct args *a)
{
	for (int c; (c = getopt_long(argc, argv, "p:L:bn:l:d:F:qh", long_options, NULL)) != -1;) {
		if (!set_option(a, c))
			return false;
		if (a->help)
			return true;
	}
	if (optind < argc) {
		log_error("top takes no argument, but '%s' was given; -p PID and --comm NAME say "
			  "whom to show",
			  argv[optind]);
		return false;
	}
	const char *why = conflict(a);
	if (why)
		log_error("%s", why);
	return !why;
}

int cmd_top(int argc, char **argv)
{
	CLEANUP(freep) struct args *a = mem_alloc(sizeof(*a));
	struct top_source source = {};
	int code = 0;

	a->live.frequency = RATE;
	a->live.findings = true;
	a->session.every_ms = 1000;
	a->session.rows = ROWS;
	a->session.view.sort = TOP_SORT_CPU;
	if (!parse(argc, argv, a))
		return cli_usage("top");
	if (a->help) {
		help();
		return 0;
	}
	if (is_stored(a))
		code = top_server_new(&a->client, &source);
	else
		top_live_new(&a->live, &source);
	code = code ? code : top_session_run(&a->session, &source);
	top_source_done(&source);
	return code;
}
