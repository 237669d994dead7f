#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/mem.h"
#include "cli/ask_options.h"
#include "cli/cli.h"
#include "cli/query_options.h"
#include "render/findings.h"

#define SILENT_MS 60000 /* a collector that runs tells something more often */

static void help(void)
{
	puts("Usage: smolder findings [options]\n"
	     "\n"
	     "Says what looks wrong on this machine now, or was in a time range, as 'smolder run'\n"
	     "noticed it: who does what, since when, what that usually means, and a command that\n"
	     "shows more.\n"
	     "\n"
	     "      --from TIME       1h (ago), 14:02, 2026-11-15, … (only what is wrong now)\n"
	     "      --to TIME         in the same forms (now)\n"
	     "      --json            as JSON, with all numbers and whole stacks");
	query_client_help();
	puts("  -q, --quiet           print nothing but findings and errors\n"
	     "  -h, --help            print this help\n"
	     "\n"
	     "Examples:\n"
	     "  smolder findings\n"
	     "  smolder findings --from yesterday --json");
}

static const struct option long_options[] = {ASK_OPTIONS, ASK_OPTION_JSON, {}};

/* That nothing was found means little where nobody looks. */
static void warn_if_silent(struct query_client *c, uint64_t now_ms)
{
	uint64_t from, to;

	if (query_client_starting(c))
		return;
	if (!query_client_span(c, &from, &to))
		log_warn("nothing was recorded yet: is 'smolder run' running?");
	else if (to + SILENT_MS < now_ms)
		log_warn(
			"nothing was recorded for the last %llu minutes: is 'smolder run' running?",
			(unsigned long long)((now_ms - to) / 60000));
}

static int print(const struct ask_options *ask, const struct timerange *range,
		 struct query_client *c)
{
	struct store_findings found = {};
	struct render_findings_options o = {
		.now_ms = clock_ms(CLOCK_REALTIME),
		.columns = cli_terminal_columns(),
		.is_range = ask->from || ask->to,
	};
	int code = query_client_findings(c, range, &found);

	if (code)
		return code;
	if (!found.count && !o.is_range)
		warn_if_silent(c, o.now_ms);
	if (ask->as_json)
		render_findings_json(&found, o.now_ms, stdout);
	else
		render_findings_text(&found, &o, stdout);
	store_findings_done(&found);
	return cli_printed();
}

int cmd_findings(int argc, char **argv)
{
	static const struct ask_command command = {"findings", long_options, help, NULL};
	struct ask_options ask = {};
	struct timerange range;
	uint64_t now = clock_ms(CLOCK_REALTIME);
	int code = ask_options_parse(&ask, &command, NULL, argc, argv);

	if (code >= 0)
		return code;
	if (optind < argc) {
		log_error("findings takes no arguments but options");
		return cli_usage("findings");
	}
	if (!query_options_range(ask.from, ask.to, &range))
		return cli_usage("findings");
	if (!ask.from && !ask.to)
		range = (struct timerange){now - FINDING_OVER_MS, now + 1000};
	CLEANUP(query_client_closep) struct query_client *c = query_client_open(&ask.client);
	return c ? print(&ask, &range, c) : 1;
}
