#include <string.h>

#include "base/log.h"
#include "base/mem.h"
#include "cli/cli.h"
#include "cli/profile_file.h"
#include "cli/query_options.h"
#include "cli/report.h"
#include "query/selector.h"

static void help(void)
{
	puts("Usage: smolder query [options] [SELECTOR | FILE...]\n"
	     "\n"
	     "Shows stored profiles: of all processes, or of those that match SELECTOR, such as\n"
	     "'cpu{comm=\"nginx\", pid!=\"1\", unit=~\"web.*\"}'. A single word that is not a "
	     "profile\n"
	     "type is the name of a process: nginx. With FILEs, shows those instead, in any "
	     "format\n"
	     "that 'smolder flame' reads. Needs no privileges beyond reading the store.\n"
	     "\n"
	     "      --from TIME       start of the time range: 5m (ago), 14:02, 'yesterday "
	     "14:02',\n"
	     "                        2026-11-15, now-1h+5m, RFC 3339 or seconds since 1970\n"
	     "                        (an hour before --to)\n"
	     "      --to TIME         its end, in the same forms (now)\n"
	     "      --trace ID        only samples of this trace, of processes that tell\n"
	     "                        (OpenTelemetry's thread context)\n"
	     "      --span ID         only samples of this span of a trace");
	query_options_help();
	puts("  -h, --help            print this help\n"
	     "\n"
	     "Examples:\n"
	     "  smolder query nginx\n"
	     "  smolder query 'cpu{comm=\"nginx\"}' --from now-1h -o out.svg\n"
	     "  smolder query cpu --from 14:02 --to 14:05");
}

enum { OPT_TRACE = 256, OPT_SPAN };

struct query {
	struct query_options options; /* first */
	const char *trace, *span;
};

static const struct option long_options[] = {
	QUERY_OPTIONS,
	{"trace", required_argument, NULL, OPT_TRACE},
	{"span", required_argument, NULL, OPT_SPAN},
	{"help", no_argument, NULL, 'h'},
	{},
};

static bool option(struct query_options *o, int opt, const char *arg)
{
	struct query *q = (struct query *)o;
	CLEANUP(selector_freep) struct selector *any = NULL;
	struct selector_error err;
	bool is_trace = opt == OPT_TRACE;

	if (opt != OPT_TRACE && opt != OPT_SPAN)
		return false;
	*(is_trace ? &q->trace : &q->span) = arg;
	selector_parse("cpu", &any, &err);
	if (is_trace ? selector_require_trace(any, arg) : selector_require_span(any, arg))
		return true;
	log_error("'%s': %s", arg, is_trace ? SELECTOR_TRACE_HELP : SELECTOR_SPAN_HELP);
	return false;
}

static int of_files(struct query_options *q, char **files, int count, const struct renderer *r)
{
	CLEANUP(profile_freep) struct profile *p = profile_new();

	for (int i = 0; i < count; i++)
		if (profile_file_read(files[i], NULL, p))
			return 1;
	if (!query_options_cut(&p, q)) {
		query_options_no_function(p, q);
		return 1;
	}
	q->out.options.subject = profile_file_name(files[0]);
	return query_options_write(p, r, &q->out, "query");
}

static int of_store(struct query *of, const char *selector, const struct renderer *r)
{
	struct query_options *q = &of->options;
	CLEANUP(profile_freep) struct profile *p = profile_new();
	struct query_request ask = {.selector = selector, .trace = of->trace, .span = of->span};
	struct store_answer answer;

	if (!query_client_check(selector) || !query_options_range(q->from, q->to, &ask.range))
		return cli_usage("query");
	CLEANUP(query_client_closep) struct query_client *c = query_client_open(&q->client);
	if (!c)
		return 1;
	query_options_labels(q, &ask);
	int code = query_client_profile(c, &ask, p, &answer);
	if (code)
		return code;
	if (!answer.samples)
		return query_options_explain_empty(c, &ask, &answer);
	if (!query_options_cut(&p, q)) {
		query_options_no_function(p, q);
		return 1;
	}
	CLEANUP(freep) char *subject = query_client_subject(c, &ask, NULL);
	q->out.options.subject = subject;
	q->out.options.help.debuginfod = !answer.debuginfod;
	code = query_options_write(p, r, &q->out, "query");
	if (!code)
		report_answer(p, &answer, "");
	return code;
}

int cmd_query(int argc, char **argv)
{
	static const struct query_command command = {"query", long_options, help, option};
	struct query of = {};
	struct query_options *q = &of.options;
	const struct renderer *r;

	int code = query_options_parse(q, &command, argc, argv, &r);
	if (code >= 0)
		return code;
	argv += optind;
	argc -= optind;
	if (argc && profile_file_exists(argv[0])) {
		if (q->from || q->to || of.trace || of.span) {
			log_error(
				"%s is a file, but --from, --to, --trace and --span only apply to "
				"the store",
				argv[0]);
			return cli_usage("query");
		}
		return of_files(q, argv, argc, r);
	}
	if (argc > 1) {
		log_error("only one selector is allowed; quote it if it has spaces: "
			  "'cpu{comm=\"nginx\"}'");
		return cli_usage("query");
	}
	return of_store(&of, argc ? argv[0] : NULL, r);
}
