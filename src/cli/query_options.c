#include "cli/query_options.h"

#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/mem.h"
#include "cli/report.h"
#include "query/callers.h"

#define SUGGESTIONS 3
#define MOMENT_MS   1000

void query_options_help(void)
{
	puts("      --callers NAME    only this function and its callers, merged from it on\n"
	     "      --callees NAME    only this function and what it calls\n"
	     "  -o, --output FILE|-   output file; its extension selects the format. By default,\n"
	     "                        text formats go to standard output, others to a file here,\n"
	     "                        or to standard output if that is a pipe\n"
	     "  -f, --format FORMAT   one of the formats of 'smolder flame --help' (top)\n"
	     "      --by LABEL        use this label for the root frames instead of comm");
	output_options_help();
	query_client_help();
}

static bool one_function(const struct query_options *o)
{
	if (o->callers && o->callees)
		log_error("--callers and --callees exclude each other");
	return !o->callers || !o->callees;
}

static bool option(struct query_options *o, const struct query_command *c, int opt, const char *arg)
{
	if (output_options_owns(opt))
		return output_options_set(&o->out, opt, arg);
	if (query_client_owns(opt))
		return query_client_set(&o->client, opt, arg);
	switch (opt) {
	case QUERY_FROM:
		o->from = arg;
		return true;
	case QUERY_TO:
		o->to = arg;
		return true;
	case QUERY_BY:
		o->out.options.tree.by = arg;
		return true;
	case QUERY_CALLERS:
		o->callers = arg;
		return one_function(o);
	case QUERY_CALLEES:
		o->callees = arg;
		return one_function(o);
	default: /* its own, or unknown, which getopt has said */
		return c->option && c->option(o, opt, arg);
	}
}

int query_options_parse(struct query_options *o, const struct query_command *c, int argc,
			char **argv, const struct renderer **ret)
{
	int opt;

	o->out.options.counted = true;
	o->out.options.tree = (struct tree_options){.column = TREE_VALUE, .by_comm = true};
	while ((opt = getopt_long(argc, argv, OUTPUT_SHORT "h", c->options, NULL)) != -1) {
		if (opt == 'h') {
			c->help();
			return 0;
		}
		if (!option(o, c, opt, optarg))
			return cli_usage(c->name);
	}
	const struct renderer *r = cli_renderer(&o->out, "top");
	if (!r)
		return cli_usage(c->name);
	o->is_table = strcmp(r->name, "top") == 0;
	*ret = r;
	return -1;
}

bool query_options_range(const char *from, const char *to, struct timerange *ret)
{
	struct timerange_error err;

	if (timerange_parse(from, to, clock_ms(CLOCK_REALTIME), ret, &err) == 0)
		return true;
	log_error("%s", err.text);
	return false;
}

void query_options_labels(const struct query_options *o, struct query_request *ask)
{
	static const char *const comm[] = {"comm"}, *const process[] = {"pid", "comm"};
	const char *const *by = &o->out.options.tree.by;

	bool is_pid = *by && strcmp(*by, "pid") == 0;
	ask->keep = is_pid ? process : *by ? by : comm;
	ask->keep_count = is_pid ? 2 : 1;
}

static const char *function_of(const struct query_options *o)
{
	return o->callers ? o->callers : o->callees;
}

void query_options_no_function(const struct profile *p, const struct query_options *o)
{
	const char *name = function_of(o);
	const char *near[SUGGESTIONS];
	uint32_t n = callers_suggest(p, name, near, SUGGESTIONS);

	if (n)
		log_error("no function is called '%s'; did you mean '%s'%s%s%s%s?", name, near[0],
			  n > 1 ? " or '" : "", n > 1 ? near[1] : "", n > 1 ? "'" : "",
			  n > 2 ? " …" : "");
	else
		log_error("no function is called '%s', or has that in its name", name);
}

bool query_options_cut(struct profile **p, const struct query_options *o)
{
	if (!function_of(o))
		return true;
	struct profile *cut = callers_new(*p, function_of(o),
					  !o->callers   ? CALLERS_CALLEES
					  : o->is_table ? CALLERS_DIRECT
							: CALLERS_ALL);
	if (!cut->sample_count) {
		profile_free(cut);
		return false;
	}
	profile_free(*p);
	*p = cut;
	return true;
}

int query_options_write(const struct profile *p, const struct renderer *r,
			const struct cli_output *out, const char *what)
{
	CLEANUP(freep) char *name = cli_file_name(what);
	CLEANUP(freep) char *path = cli_path(out, r, name, false);
	int code = cli_write(p, r, out, path);

	if (!code && !out->path && strcmp(path, "-") != 0)
		log_info("wrote %s", path);
	return code;
}

/* "nothing is stored for 12:10:00 to 13:10:00; the store has data from 13:10:00 to 14:02:05" */
static char *empty_sentence(struct query_client *c, const struct query_request *ask)
{
	uint64_t from_ms, to_ms;
	char asked_from[32], asked_to[32], from[32], to[32];

	report_time(ask->range.from_ms, asked_from);
	report_time(ask->range.to_ms, asked_to);
	if (!query_client_span(c, &from_ms, &to_ms))
		return mem_printf("nothing is stored for %s to %s, or for any other time",
				  asked_from, asked_to);
	report_time(from_ms, from);
	report_time(to_ms, to);
	return mem_printf("nothing is stored for %s to %s; the store has data from %s to %s",
			  asked_from, asked_to, from, to);
}

/*
 * Of what began just now: "nothing is stored yet: smolder was started at 14:02:05, and stores every
 * 10 s; ask again in 6 s". NULL: it is not that.
 */
static char *starting_sentence(struct query_client *c)
{
	uint64_t from_ms, to_ms, began = 0, now = clock_ms(CLOCK_REALTIME);
	char at[32];

	if (!query_client_span(c, &from_ms, &to_ms))
		began = query_client_starting(c);
	if (!began)
		return NULL;
	/* Its first window begins a moment after it, and is here a moment after it is whole. */
	uint64_t begun = MAX(began + MOMENT_MS, now - MIN(now, MOMENT_MS));
	uint64_t here = begun / WINDOW_MS * WINDOW_MS + WINDOW_MS + MOMENT_MS;
	report_time(began, at);
	return mem_printf(
		"nothing is stored yet: smolder was started at %s, and stores every %d s; "
		"ask again in %llu s",
		at, WINDOW_MS / 1000, (unsigned long long)(here - now + 999) / 1000);
}

/* Whether anything was recorded of that time, whatever was asked of it; then *ret has its names. */
static bool was_recorded(struct query_client *c, const struct query_request *ask,
			 struct store_names *ret)
{
	struct query_request any = *ask;

	any.selector = NULL;
	return query_client_names(c, &any, "comm", ret) == 0 && ret->count;
}

void query_options_warn_empty(struct query_client *c, const struct query_request *ask)
{
	struct store_names names = {};

	if (!was_recorded(c, ask, &names)) {
		CLEANUP(freep) char *sentence = empty_sentence(c, ask);
		log_warn("%s: everything is shown as new or gone", sentence);
	}
	store_names_done(&names);
}

int query_options_explain_empty(struct query_client *c, const struct query_request *ask,
				const struct store_answer *a)
{
	struct store_names names = {};

	if (was_recorded(c, ask, &names)) {
		log_error("nothing matches; something that would is cpu{comm=\"%s\"}, and 'smolder "
			  "labels comm%s' lists all",
			  names.names[0], query_client_hint(c));
	} else if (!report_unreadable(a)) {
		CLEANUP(freep) char *starting = starting_sentence(c);
		CLEANUP(freep) char *sentence = starting ? NULL : empty_sentence(c, ask);
		if (starting)
			log_error("%s", starting);
		else
			log_error("%s (--from, --to)", sentence);
	} else { /* what cannot be read has been said, and may be all there is */
		log_error("nothing in that time range could be read");
	}
	store_names_done(&names);
	return 1;
}
