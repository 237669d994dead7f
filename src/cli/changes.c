#include <jansson.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/mem.h"
#include "cli/ask_options.h"
#include "cli/changes_ask.h"
#include "cli/cli.h"
#include "cli/query_options.h"

#define FUNCTIONS 20 /* that are printed of each comparison */

struct command_line {
	struct ask_options options;
	struct comparison_ask ask;
	const char *base_from, *base_to, *at;
};

static void help(void)
{
	puts("Usage: smolder changes [options] [SELECTOR]\n"
	     "\n"
	     "Lists the functions and processes that take more or less CPU time than before, by "
	     "more\n"
	     "than chance and their own ordinary variation explain, ranked by CPU seconds a day, "
	     "each\n"
	     "with its callers and where to see the compared flame graph. By default the last "
	     "hour is\n"
	     "compared with the same time yesterday and a week ago, as far as they are stored. "
	     "Programs\n"
	     "that got a new version meanwhile are noticed, and compared with the version "
	     "before.\n"
	     "\n"
	     "      --from TIME       start of the newer range: 1h (ago), 14:02, 2026-11-15, …\n"
	     "                        (an hour before --to)\n"
	     "      --to TIME         its end (now)\n"
	     "      --base-from TIME  start of the base (as long before --from as --to is after "
	     "it)\n"
	     "      --base-to TIME    its end (as long after --base-from)\n"
	     "      --at TIME         compare half an hour before this moment with the time after "
	     "it\n"
	     "      --json            print it as JSON");
	query_client_help();
	puts("  -q, --quiet           print nothing but errors and the answer\n"
	     "  -h, --help            print this help\n"
	     "\n"
	     "Examples:\n"
	     "  smolder changes\n"
	     "  smolder changes nginx --at 14:02\n"
	     "  smolder changes --from 1h --base-from now-25h");
}

enum { OPT_BASE_FROM = ASK_OWN, OPT_BASE_TO, OPT_AT };

static const struct option long_options[] = {
	ASK_OPTIONS,
	ASK_OPTION_JSON,
	{"base-from", required_argument, NULL, OPT_BASE_FROM},
	{"base-to", required_argument, NULL, OPT_BASE_TO},
	{"at", required_argument, NULL, OPT_AT},
	{},
};

static bool option(void *own, int opt, const char *arg)
{
	struct command_line *l = own;
	const char **const texts[] = {&l->base_from, &l->base_to, &l->at};

	*texts[opt - OPT_BASE_FROM] = arg;
	return true;
}

/* One end of the base tells the other: it is as long as the newer. */
static bool parse_base(struct command_line *l)
{
	struct timerange *base = &l->ask.base;
	uint64_t length = l->ask.now.to_ms - l->ask.now.from_ms;

	if (!l->base_from && !l->base_to)
		return true;
	if (!query_options_range(l->base_from, l->base_to, base))
		return false;
	if (!l->base_to)
		base->to_ms = base->from_ms + length;
	else if (!l->base_from)
		base->from_ms = base->to_ms - MIN(base->to_ms, length);
	return true;
}

static bool parse_times(struct command_line *l)
{
	bool has_range = l->options.from || l->options.to || l->base_from || l->base_to;
	struct timerange_error err;

	l->ask.clock_ms = clock_ms(CLOCK_REALTIME);
	if (l->at && has_range) {
		log_error("--at excludes --from, --to, --base-from and --base-to");
		return false;
	}
	if (l->at) {
		if (timerange_moment(l->at, l->ask.clock_ms, &l->ask.at_ms, &err) != 0) {
			log_error("%s", err.text);
			return false;
		}
		if (l->ask.at_ms >= l->ask.clock_ms)
			log_error("--at %s is not in the past, so nothing came after it yet",
				  l->at);
		return l->ask.at_ms < l->ask.clock_ms;
	}
	return !has_range ||
	       (query_options_range(l->options.from, l->options.to, &l->ask.now) && parse_base(l));
}

/* Nothing on either side: why, as `query` would say. */
static bool is_empty(const json_t *answer)
{
	const json_t *list = json_object_get(answer, "comparisons");
	size_t i;
	json_t *one;

	json_array_foreach(list, i, one)
	{
		if (json_integer_value(json_object_get(one, "samples")) ||
		    json_integer_value(json_object_get(one, "base_samples")))
			return false;
	}
	return true;
}

static int print(struct query_client *c, const json_t *answer, bool as_json)
{
	const json_t *list = json_object_get(answer, "comparisons");
	size_t i;
	json_t *one;

	if (as_json) {
		json_dumpf(answer, stdout, JSON_INDENT(1) | JSON_PRESERVE_ORDER);
		puts("");
		return cli_printed();
	}
	json_array_foreach(list, i, one)
	{
		fputs(i ? "\n" : "", stdout);
		changes_print(c, one, "", FUNCTIONS, stdout);
	}
	if (json_array_size(json_object_get(answer, "versions")))
		puts("");
	changes_print_versions(c, answer, "", stdout);
	return cli_printed();
}

int cmd_changes(int argc, char **argv)
{
	static const struct ask_command command = {"changes", long_options, help, option};
	struct command_line l = {};
	json_auto_t *answer = NULL;
	int code = ask_options_parse(&l.options, &command, &l, argc, argv);

	if (code >= 0)
		return code;
	if (argc - optind > 1) {
		log_error("only one selector is allowed; quote it if it has spaces: "
			  "'cpu{comm=\"nginx\"}'");
		return cli_usage("changes");
	}
	l.ask.selector = argc > optind ? argv[optind] : NULL;
	if (!query_client_check(l.ask.selector) || !parse_times(&l))
		return cli_usage("changes");
	CLEANUP(query_client_closep) struct query_client *c = query_client_open(&l.options.client);
	if (!c)
		return 1;
	code = changes_ask(c, &l.ask, &answer);
	if (code)
		return code;
	if (is_empty(answer)) {
		struct query_request ask = {.selector = l.ask.selector, .range = l.ask.now};
		struct store_answer none = {};
		if (!ask.range.to_ms)
			ask.range = (struct timerange){
				(l.ask.at_ms ? l.ask.at_ms : l.ask.clock_ms - 3600000),
				l.ask.clock_ms};
		return query_options_explain_empty(c, &ask, &none);
	}
	return print(c, answer, l.options.as_json);
}
