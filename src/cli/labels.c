#include <string.h>

#include "base/log.h"
#include "base/mem.h"
#include "cli/ask_options.h"
#include "cli/cli.h"
#include "cli/query_options.h"
#include "cli/report.h"
#include "render/describe.h"

static void help(void)
{
	puts("Usage: smolder labels [options] [NAME]\n"
	     "\n"
	     "Lists the labels of stored profiles, or the values of one label and its totals.\n"
	     "\n"
	     "      --from TIME       1h (ago), 14:02, 2026-11-15, … (an hour before --to)\n"
	     "      --to TIME         in the same forms (now)\n"
	     "      --query SELECTOR  only of matching profiles, such as 'cpu{comm=\"nginx\"}'\n"
	     "      --names           print only the values, one per line, for scripts");
	query_client_help();
	puts("  -q, --quiet           print nothing but errors\n"
	     "  -h, --help            print this help\n"
	     "\n"
	     "Examples:\n"
	     "  smolder labels\n"
	     "  smolder labels comm --from now-1d");
}

enum { OPT_QUERY = ASK_OWN, OPT_NAMES };

static const struct option long_options[] = {
	ASK_OPTIONS,
	{"query", required_argument, NULL, OPT_QUERY},
	{"names", no_argument, NULL, OPT_NAMES},
	{},
};

struct labels {
	struct query_request ask;
	const char *name; /* NULL: the labels there are */
	bool only_names;
};

static int say_no_label(struct query_client *c, const struct labels *l)
{
	log_error("nothing has a label '%s' in that time range; 'smolder labels%s' lists the "
		  "labels",
		  l->name, query_client_hint(c));
	return 1;
}

/* Why there are no names: what was asked for has samples, but not that label, or it has none. */
static int say_none(struct query_client *c, const struct labels *l)
{
	CLEANUP(profile_freep) struct profile *p = profile_new();
	struct store_answer answer;
	int code = query_client_profile(c, &l->ask, p, &answer);

	if (code)
		return code;
	if (answer.samples && l->name)
		return say_no_label(c, l);
	return query_options_explain_empty(c, &l->ask, &answer);
}

static int list_names(struct query_client *c, const struct labels *l)
{
	struct store_names names = {};
	int code = query_client_names(c, &l->ask, l->name, &names);

	if (code)
		return code;
	for (uint32_t i = 0; i < names.count; i++)
		puts(names.names[i]);
	if (names.cut)
		log_warn("there are more: only the first %u are listed", names.count);
	if (!names.count)
		code = say_none(c, l);
	store_names_done(&names);
	return code ? code : cli_printed();
}

struct share {
	uint64_t value;
	uint32_t series;
};

static int by_value(const void *a, const void *b)
{
	const struct share *x = a, *y = b;

	if (x->value != y->value)
		return x->value < y->value ? 1 : -1;
	return (x->series > y->series) - (x->series < y->series);
}

/* One row: the amount, its share, the value, and of a pid the process' name. */
static void print_share(const struct profile *p, const struct labels *l, const struct share *s,
			uint64_t all)
{
	const char *value = profile_label(p, s->series, l->name);
	const char *comm = strcmp(l->name, "pid") == 0 ? profile_label(p, s->series, "comm") : NULL;
	char amount[DESCRIBE_MAX];
	size_t used;

	describe_amount(s->value, p->info.unit, amount);
	describe_fit(amount, strlen(amount), SIZE_MAX, &used);
	printf("%*s%s %6.2f%%  %s%s%s\n", (int)(used < 11 ? 11 - used : 0), "", amount,
	       all ? 100.0 * (double)s->value / (double)all : 0.0,
	       value && *value ? value : "(none)", comm && *comm ? "  " : "",
	       comm && *comm ? comm : "");
}

/* What each value took, the largest first: a profile whose series keep that label alone. */
static int list_shares(struct query_client *c, const struct labels *l)
{
	CLEANUP(profile_freep) struct profile *p = profile_new();
	const char *keep[] = {l->name, "comm"};
	struct query_request ask = l->ask;
	struct store_answer answer;
	uint64_t all = 0;
	bool any = false;

	ask.keep = keep;
	ask.keep_count = strcmp(l->name, "pid") == 0 ? 2 : 1;
	int code = query_client_profile(c, &ask, p, &answer);
	if (code)
		return code;
	if (!answer.samples)
		return query_options_explain_empty(c, &ask, &answer);
	CLEANUP(freep) struct share *shares = mem_alloc_array(p->series_count, sizeof(*shares));
	for (uint32_t i = 0; i < p->sample_count; i++) {
		shares[p->samples[i].series].value += p->samples[i].value;
		all += p->samples[i].value;
	}
	for (uint32_t i = 0; i < p->series_count; i++) {
		const char *value = profile_label(p, i, l->name);
		shares[i].series = i;
		any |= shares[i].value && value && *value;
	}
	if (!any)
		return say_no_label(c, l);
	qsort(shares, p->series_count, sizeof(*shares), by_value);
	printf("%11s %7s  ", "TOTAL", "%");
	for (const char *at = l->name; *at; at++)
		putchar(*at >= 'a' && *at <= 'z' ? *at - 'a' + 'A' : *at);
	putchar('\n');
	for (uint32_t i = 0; i < p->series_count && shares[i].value; i++)
		print_share(p, l, &shares[i], all);
	code = cli_printed();
	if (!code)
		report_answer(p, &answer, "");
	return code;
}

static bool option(void *own, int opt, const char *arg)
{
	struct labels *l = own;

	if (opt == OPT_QUERY)
		l->ask.selector = arg;
	else
		l->only_names = true;
	return true;
}

int cmd_labels(int argc, char **argv)
{
	static const struct ask_command command = {"labels", long_options, help, option};
	struct ask_options ask = {};
	struct labels l = {};
	int code = ask_options_parse(&ask, &command, &l, argc, argv);

	if (code >= 0)
		return code;
	if (argc - optind > 1) {
		log_error("labels takes at most one NAME");
		return cli_usage("labels");
	}
	if (!query_client_check(l.ask.selector) ||
	    !query_options_range(ask.from, ask.to, &l.ask.range))
		return cli_usage("labels");
	l.name = argc > optind ? argv[optind] : NULL;
	CLEANUP(query_client_closep) struct query_client *c = query_client_open(&ask.client);
	if (!c)
		return 1;
	return l.name && !l.only_names ? list_shares(c, &l) : list_names(c, &l);
}
