#include <jansson.h>
#include <string.h>

#include "base/log.h"
#include "base/mem.h"
#include "cli/ask_options.h"
#include "cli/cli.h"
#include "cli/explanation.h"
#include "cli/query_options.h"

#define USUAL "10m"

static void help(void)
{
	puts("Usage: smolder explain [options] PID|SELECTOR\n"
	     "\n"
	     "Prints what is known of a program's last minutes, on a page of plain text: its "
	     "share\n"
	     "of the machine, what looks wrong, its wall clock by parts, the functions and paths\n"
	     "that take its time, its system calls, what changed against the hour before, and "
	     "what\n"
	     "is not known. For people, and for language models that are given the text; none is\n"
	     "called.\n"
	     "\n"
	     "      --from TIME       start of the time range: 5m (ago), 14:02, … (10 minutes "
	     "before\n"
	     "                        --to)\n"
	     "      --to TIME         its end (now)\n"
	     "      --no-calls        do not count its system calls, which takes a second, and "
	     "root;\n"
	     "                        with --to nor are they\n"
	     "      --json            print it as JSON");
	query_client_help();
	puts("  -q, --quiet           print nothing but errors and the page\n"
	     "  -h, --help            print this help\n"
	     "\n"
	     "Examples:\n"
	     "  smolder explain nginx\n"
	     "  smolder explain 1234 --from 14:02 --to 14:12\n"
	     "  smolder explain 'cpu{unit=\"web.service\"}' --json");
}

enum { OPT_NO_CALLS = ASK_OWN };

static const struct option long_options[] = {
	ASK_OPTIONS,
	ASK_OPTION_JSON,
	{"no-calls", no_argument, NULL, OPT_NO_CALLS},
	{},
};

static bool option(void *own, int opt, const char *arg)
{
	bool *no_calls = own;

	(void)arg;
	return *no_calls = opt == OPT_NO_CALLS;
}

/* A number is a process. */
static char *selector_of(const char *given)
{
	bool is_pid = *given && strspn(given, "0123456789") == strlen(given);

	return is_pid ? mem_printf("cpu{pid=\"%s\"}", given) : mem_strdup(given);
}

/* Unless told otherwise, ten minutes, whatever they end with. */
static bool parse_range(const struct ask_options *l, struct timerange *ret)
{
	uint64_t usual = 600000;

	if (!l->from && !l->to)
		return query_options_range(USUAL, NULL, ret);
	if (!query_options_range(l->from, l->to, ret))
		return false;
	if (!l->from)
		ret->from_ms = ret->to_ms - MIN(ret->to_ms, usual);
	return true;
}

int cmd_explain(int argc, char **argv)
{
	static const struct ask_command command = {"explain", long_options, help, option};
	struct ask_options l = {};
	struct timerange range;
	json_auto_t *e = NULL;
	bool no_calls = false;
	int code = ask_options_parse(&l, &command, &no_calls, argc, argv);

	if (code >= 0)
		return code;
	if (argc - optind != 1) {
		log_error("explain takes one PID or SELECTOR, such as nginx or "
			  "'cpu{unit=\"web.service\"}'");
		return cli_usage("explain");
	}
	CLEANUP(freep) char *selector = selector_of(argv[optind]);
	if (!query_client_check(selector) || !parse_range(&l, &range))
		return cli_usage("explain");
	if (strchr(selector, '{') && selector[0] != '{' && strncmp(selector, "cpu", 3) != 0) {
		log_error("explain selects by labels alone, of all types: write cpu{…} or {…}");
		return cli_usage("explain");
	}
	CLEANUP(query_client_closep) struct query_client *c = query_client_open(&l.client);
	if (!c)
		return 1;
	const struct explanation_ask ask = {
		selector, range,
		no_calls ? "they were not to be counted (--no-calls)"
		: l.to   ? "they are counted only of the time that is now (without --to); 'smolder "
			   "syscalls -p PID' counts them for longer, 'smolder trace -p PID' shows "
			   "each"
			 : NULL};
	code = explanation_gather(c, &ask, &e);
	if (code)
		return code;
	if (l.as_json) {
		json_dumpf(e, stdout, JSON_INDENT(1) | JSON_PRESERVE_ORDER);
		puts("");
	} else {
		explanation_print(c, e, stdout);
	}
	return cli_printed();
}
