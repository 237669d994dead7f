#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/mem.h"
#include "cli/cli.h"
#include "cli/query_client.h"
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

enum { OPT_FROM = 256, OPT_TO, OPT_JSON };

static const struct option long_options[] = {
	CLIENT_OPTIONS,
	{"from", required_argument, NULL, OPT_FROM},
	{"to", required_argument, NULL, OPT_TO},
	{"json", no_argument, NULL, OPT_JSON},
	{"quiet", no_argument, NULL, 'q'},
	{"help", no_argument, NULL, 'h'},
	{},
};

struct findings_command {
	struct query_client_options client;
	struct query_request ask;
	const char *from, *to;
	bool as_json;
};

static bool option(struct findings_command *f, int opt, const char *arg)
{
	if (query_client_owns(opt))
		return query_client_set(&f->client, opt, arg);
	switch (opt) {
	case OPT_FROM:
		f->from = arg;
		return true;
	case OPT_TO:
		f->to = arg;
		return true;
	case OPT_JSON:
		f->as_json = true;
		return true;
	case 'q':
		log_level = LOG_QUIET;
		return true;
	default: /* getopt has said it */
		return false;
	}
}

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

static int print(const struct findings_command *f, struct query_client *c)
{
	struct store_findings found = {};
	struct render_findings_options o = {
		.now_ms = clock_ms(CLOCK_REALTIME),
		.columns = cli_terminal_columns(),
		.is_range = f->from || f->to,
	};
	int code = query_client_findings(c, &f->ask.range, &found);

	if (code)
		return code;
	if (!found.count && !o.is_range)
		warn_if_silent(c, o.now_ms);
	if (f->as_json)
		render_findings_json(&found, o.now_ms, stdout);
	else
		render_findings_text(&found, &o, stdout);
	store_findings_done(&found);
	return cli_printed();
}

int cmd_findings(int argc, char **argv)
{
	struct findings_command f = {};
	uint64_t now = clock_ms(CLOCK_REALTIME);
	int opt;

	while ((opt = getopt_long(argc, argv, "qh", long_options, NULL)) != -1) {
		if (opt == 'h') {
			help();
			return 0;
		}
		if (!option(&f, opt, optarg))
			return cli_usage("findings");
	}
	if (optind < argc) {
		log_error("findings takes no arguments but options");
		return cli_usage("findings");
	}
	if (!query_options_range(f.from, f.to, &f.ask.range))
		return cli_usage("findings");
	if (!f.from && !f.to)
		f.ask.range = (struct timerange){now - FINDING_OVER_MS, now + 1000};
	CLEANUP(query_client_closep) struct query_client *c = query_client_open(&f.client);
	return c ? print(&f, c) : 1;
}
