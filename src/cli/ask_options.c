#include "cli/ask_options.h"

#include "base/log.h"
#include "cli/cli.h"

static bool set(struct ask_options *o, const struct ask_command *c, void *own, int opt)
{
	if (query_client_owns(opt))
		return query_client_set(&o->client, opt, optarg);
	switch (opt) {
	case ASK_FROM:
		o->from = optarg;
		return true;
	case ASK_TO:
		o->to = optarg;
		return true;
	case ASK_JSON:
		o->as_json = true;
		return true;
	case 'q':
		log_level = LOG_QUIET;
		return true;
	default: /* its own, or unknown, which getopt has said */
		return opt >= ASK_OWN && c->option && c->option(own, opt, optarg);
	}
}

int ask_options_parse(struct ask_options *o, const struct ask_command *c, void *own, int argc,
		      char **argv)
{
	for (int opt; (opt = getopt_long(argc, argv, "qh", c->options, NULL)) != -1;) {
		if (opt == 'h') {
			c->help();
			return 0;
		}
		if (!set(o, c, own, opt))
			return cli_usage(c->name);
	}
	return -1;
}
