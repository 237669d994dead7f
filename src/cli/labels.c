#include <string.h>

#include "base/log.h"
#include "base/mem.h"
#include "cli/cli.h"
#include "cli/shown.h"
#include "cli/source.h"

static void help(void)
{
	puts("Usage: smolder labels [options] [NAME]\n"
	     "\n"
	     "Lists the labels that stored profiles have, or the values of one, a line each.\n"
	     "\n"
	     "      --from TIME       now-1h, 14:02, 2026-11-15, … (an hour before --to)\n"
	     "      --to TIME         the same (now)\n"
	     "      --query SELECTOR  of these only, such as 'cpu{comm=\"nginx\"}'");
	source_help();
	puts("  -q, --quiet           no words but errors\n"
	     "  -h, --help            this\n"
	     "\n"
	     "Examples:\n"
	     "  smolder labels\n"
	     "  smolder labels comm --from now-1d");
}

enum { OPT_FROM = 256, OPT_TO, OPT_QUERY };

static const struct option long_options[] = {
	SOURCE_OPTIONS,
	{"from", required_argument, NULL, OPT_FROM},
	{"to", required_argument, NULL, OPT_TO},
	{"query", required_argument, NULL, OPT_QUERY},
	{"quiet", no_argument, NULL, 'q'},
	{"help", no_argument, NULL, 'h'},
	{},
};

DEFINE_CLEANUP(struct source *, source_close)

static int list(const struct source_options *o, const struct source_question *ask, const char *name)
{
	struct store_names names = {};
	CLEANUP(source_closep) struct source *s = source_open(o);

	if (!s)
		return 1;
	int code = source_names(s, ask, name, &names);
	if (code)
		return code;
	for (uint32_t i = 0; i < names.count; i++)
		puts(names.names[i]);
	if (names.cut)
		log_warn("there are more; these are the first %u", names.count);
	if (!names.count) {
		if (name)
			log_error("nothing has a label '%s' in that time", name);
		else
			log_error("nothing is stored of that time");
		code = 1;
	}
	store_names_done(&names);
	return code;
}

int cmd_labels(int argc, char **argv)
{
	struct source_options source = {};
	struct source_question ask = {};
	const char *from = NULL, *to = NULL;
	int opt;

	while ((opt = getopt_long(argc, argv, "qh", long_options, NULL)) != -1) {
		bool ok = true;
		if (opt == 'h') {
			help();
			return 0;
		}
		if (source_owns(opt))
			ok = source_option(&source, opt, optarg);
		else if (opt == OPT_FROM)
			from = optarg;
		else if (opt == OPT_TO)
			to = optarg;
		else if (opt == OPT_QUERY)
			ask.selector = optarg;
		else if (opt == 'q')
			log_level = LOG_QUIET;
		else
			ok = false;
		if (!ok)
			return cli_usage("labels");
	}
	if (argc - optind > 1) {
		log_error("one label at a time");
		return cli_usage("labels");
	}
	if (!shown_range(from, to, &ask.range))
		return cli_usage("labels");
	return list(&source, &ask, argc > optind ? argv[optind] : NULL);
}
