/*
 * stat: counts events of a program, of processes, threads, a control group or the machine, with the
 * options and the output of perf stat.
 */
#include <errno.h>
#include <locale.h>
#include <string.h>
#include <time.h>

#include "base/duration.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/text.h"
#include "cli/cli.h"
#include "cli/stat_print.h"
#include "cli/stat_session.h"

#define RUNS_MAX     10000
#define COLUMNS_EACH 25 /* intervals: then the names of the columns again */

static void help(void)
{
	puts("Usage: smolder stat [options] [SECONDS] [[--] program args...]\n"
	     "\n"
	     "Counts events, with the options and the output of perf stat: of the program, or\n"
	     "until the time is up, the target ends or you press Ctrl-C. Without a target it\n"
	     "counts the whole machine. What the program prints is left alone: the counts go to\n"
	     "standard error.\n"
	     "\n"
	     "Whose events:\n"
	     "  program ...                   start this program, count it and its children, and\n"
	     "                                exit with its exit code; under sudo it runs as the\n"
	     "                                user who called sudo. Beside another target it\n"
	     "                                only says how long to count\n"
	     "  -p, --pid PID[,PID]           these processes, and what they start meanwhile\n"
	     "  -t, -L, --tid TID[,TID]       these threads, and what they start meanwhile\n"
	     "  -G, --cgroup PATH             the processes of this control group or below it\n"
	     "  -a, --all-cpus                everything (default), even when a program is "
	     "started\n"
	     "Which events:\n"
	     "  -e, --event LIST              instead of the usual ones: cycles,page-faults:u,\n"
	     "                                L1-dcache-load-misses, r1a8, msr/tsc/,\n"
	     "                                sched:sched_switch;\n"
	     "                                :u counts in user space only, :k in the kernel\n"
	     "  --detailed                    the caches as well\n"
	     "How:\n"
	     "  -d, --duration SECONDS        how long; the same as the plain argument\n"
	     "  -r, --repeat RUNS             run the program so often; means, and how far off\n"
	     "                                they may be\n"
	     "  -I, --interval-print MS       print what each interval of so many ms counted\n"
	     "  -A, --no-aggr                 for each CPU\n"
	     "  --per-core                    for each core\n"
	     "Output:\n"
	     "  -x, --field-separator SEP     fields between separators, as for a spreadsheet\n"
	     "  -j, --json-output             a line of JSON for each count\n"
	     "  --no-big-num                  no separators between thousands, whatever the "
	     "locale\n"
	     "  -o, --output FILE             output file, not standard error; - is standard "
	     "output\n"
	     "  --append                      add to that file\n"
	     "  -q, -v                        print less, print more\n"
	     "  -h, --help                    print this help");
}

enum { OPT_DETAILED = 256, OPT_PER_CORE, OPT_PLAIN_NUMBERS, OPT_APPEND };

static const struct option long_options[] = {
	{"pid", required_argument, NULL, 'p'},
	{"tid", required_argument, NULL, 't'},
	{"cgroup", required_argument, NULL, 'G'},
	{"all-cpus", no_argument, NULL, 'a'},
	{"event", required_argument, NULL, 'e'},
	{"detailed", no_argument, NULL, OPT_DETAILED},
	{"duration", required_argument, NULL, 'd'},
	{"repeat", required_argument, NULL, 'r'},
	{"interval-print", required_argument, NULL, 'I'},
	{"no-aggr", no_argument, NULL, 'A'},
	{"per-core", no_argument, NULL, OPT_PER_CORE},
	{"field-separator", required_argument, NULL, 'x'},
	{"json-output", no_argument, NULL, 'j'},
	{"no-big-num", no_argument, NULL, OPT_PLAIN_NUMBERS},
	{"output", required_argument, NULL, 'o'},
	{"append", no_argument, NULL, OPT_APPEND},
	{"help", no_argument, NULL, 'h'},
	{},
};

struct stat_args {
	struct stat_session_options session;
	struct stat_session_result result; /* of the last run */
	struct counter_events events;
	struct stat_view view;
	struct stat_table table; /* of all runs; of intervals not used */
	uint64_t runs;
	unsigned intervals;
	const char *path;          /* -o */
	char cgroup[TEXT_MAX + 1]; /* its name, safe to show */
	bool detailed, append, plain_numbers, json, help;
	int refused; /* the exit code when an event was */
};

static bool add_events(struct stat_args *a, const char *list)
{
	int err = counter_events_add(&a->events, list);

	if (err)
		log_error("%s", a->events.error);
	if (err && err != -EINVAL)
		a->refused = 1;
	return !err;
}

static bool set_separator(struct stat_args *a, const char *arg)
{
	a->view.separator = strcmp(arg, "\\t") == 0 ? "\t" : arg;
	if (!*arg)
		log_error("-x needs what is to stand between the fields, as in -x,");
	return *arg;
}

static bool parse_option(struct stat_args *a, int c)
{
	struct stat_session_options *s = &a->session;

	switch (c) {
	case 'p':
		return target_ids("-p", optarg, s->target.pids, &s->target.pid_count);
	case 'a':
		return target_set(&s->target, c);
	case 't':
	case 'L':
		return target_ids("-t", optarg, s->target.tids, &s->target.tid_count);
	case 'G':
		s->cgroup = optarg;
		return true;
	case 'e':
		return add_events(a, optarg);
	case OPT_DETAILED:
		a->detailed = true;
		return true;
	case 'd':
		return cli_seconds("stat", optarg, &s->duration_ms);
	case 'r':
		return cli_number("-r", optarg, 1, RUNS_MAX, &a->runs);
	case 'I':
		return cli_number("-I", optarg, 1, INT32_MAX, &s->interval_ms);
	case 'A':
		s->by = COUNTERS_BY_CPU;
		return true;
	case OPT_PER_CORE:
		s->by = COUNTERS_BY_CORE;
		return true;
	case 'x':
		return set_separator(a, optarg);
	case 'j':
		a->json = true;
		return true;
	case OPT_PLAIN_NUMBERS:
		a->plain_numbers = true;
		return true;
	case 'o':
		a->path = optarg;
		return true;
	case OPT_APPEND:
		a->append = true;
		return true;
	default:
		return cli_takes(c, &a->help); /* else getopt has said why */
	}
}

/* Options and SECONDS in any order, then the program: with or without --, as perf takes it. */
static bool parse(int argc, char **argv, struct stat_args *a)
{
	for (;;) {
		uint64_t ms;
		int c;
		while ((c = getopt_long(argc, argv, "+p:t:L:G:ae:d:r:I:Ax:jo:qvh", long_options,
					NULL)) != -1) {
			if (!parse_option(a, c))
				return false;
			if (a->help)
				return true;
		}
		bool dashes = strcmp(argv[optind - 1], "--") == 0;
		if (optind >= argc) {
			if (dashes)
				log_error("no program is given after --");
			return !dashes;
		}
		if (dashes || a->session.duration_ms ||
		    duration_parse_ms(argv[optind], DURATION_S, &ms) != 0) {
			a->session.target.program = argv + optind;
			return true;
		}
		if (!cli_seconds("stat", argv[optind++], &a->session.duration_ms))
			return false;
	}
}

static bool check(const struct stat_args *a)
{
	const struct stat_session_options *s = &a->session;
	const struct target_options *t = &s->target;
	const char *why = NULL;

	if (t->pid_count && t->tid_count)
		why = "-p and -t exclude each other";
	else if ((t->machine || s->cgroup) && (t->pid_count || t->tid_count))
		why = "-p and -t exclude -a and -G";
	else if (t->machine && s->cgroup)
		why = "-a and -G exclude each other";
	else if (s->by != COUNTERS_TOGETHER && !stat_session_counts_cpus(s))
		why = "-A and --per-core tell CPUs apart, which only the machine and control "
		      "groups are counted by; add -a to count everything while it runs";
	else if (a->runs && !t->program)
		why = "-r needs a program to run";
	else if (a->runs && s->interval_ms)
		why = "-r and -I exclude each other";
	else if (a->json && a->view.separator)
		why = "-x and -j exclude each other";
	else if (a->append && !a->path)
		why = "--append needs a file to add to: -o FILE";
	else if (a->detailed && a->events.count)
		why = "-e and --detailed exclude each other: -e says all that is counted";
	if (why)
		log_error("%s", why);
	return !why;
}

/* Of the user's locale, as perf's are; the decimal point stays one, for what reads it. */
static char *thousands(void)
{
	setlocale(LC_NUMERIC, "");
	char *separator = mem_strdup(localeconv()->thousands_sep);
	setlocale(LC_NUMERIC, "C");
	return separator;
}

static void prepare(struct stat_args *a)
{
	struct stat_view *v = &a->view;

	if (!a->events.count)
		counter_events_add_default(&a->events, stat_session_counts_cpus(&a->session),
					   a->detailed);
	v->format = a->json ? STAT_JSON : v->separator ? STAT_SEPARATED : STAT_TEXT;
	if (a->session.cgroup) {
		text_clean(a->session.cgroup, strlen(a->session.cgroup), a->cgroup);
		v->cgroup = a->cgroup;
	}
	v->by = a->session.by;
	v->has_runs = a->runs > 1;
	v->at_intervals = a->session.interval_ms != 0;
	a->session.events = &a->events;
}

static bool report(void *ctx, const struct counters *c, const struct counter_value *values,
		   double from, double to)
{
	struct stat_args *a = ctx;
	const struct counters_place *places;
	size_t count = counters_places(c, &places);

	if (a->view.at_intervals) {
		struct stat_table t;
		stat_table_init(&t, &a->events, places, count);
		stat_table_add(&t, values, to - from);
		if (a->intervals++ % COLUMNS_EACH == 0)
			stat_print_columns(&a->view);
		stat_print_rows(&a->view, &t, to);
		stat_table_done(&t);
		return fflush(a->view.out) == 0;
	}
	if (!a->table.cells)
		stat_table_init(&a->table, &a->events, places, count);
	/* A run that was cut short would spoil the mean of those before it. */
	if (count == a->table.place_count && !(a->result.is_interrupted && a->table.seconds.runs))
		stat_table_add(&a->table, values, to - from);
	return true;
}

/* "'make all'", "process id '12,13'": of what, as perf says it. Caller frees. */
static char *describe(const struct stat_args *a)
{
	const struct target_options *t = &a->session.target;
	const uint32_t *ids = t->pid_count ? t->pids : t->tids;
	char text[TEXT_MAX + 1] = "", clean[TEXT_MAX + 1];
	size_t n = 0;

	if (a->session.cgroup)
		n = (size_t)snprintf(text, sizeof(text), "%s", a->session.cgroup);
	else if (stat_session_counts_cpus(&a->session))
		n = (size_t)snprintf(text, sizeof(text), "system wide");
	for (unsigned i = 0; i < t->pid_count + t->tid_count && n < sizeof(text); i++)
		n += (size_t)snprintf(text + n, sizeof(text) - n, "%s%u", n ? "," : "", ids[i]);
	for (char **w = t->program; !n && w && *w; w++) {
		size_t len = strlen(text);
		snprintf(text + len, sizeof(text) - len, "%s%s", len ? " " : "", *w);
	}
	text_clean(text, strlen(text), clean);
	return mem_printf("%s'%s'",
			  t->pid_count        ? "process id "
			  : t->tid_count      ? "thread id "
			  : a->session.cgroup ? "control group "
					      : "",
			  clean);
}

static void print(const struct stat_args *a)
{
	CLEANUP(freep) char *of = describe(a);
	const struct stat_session_result *r = &a->result;

	stat_print_title(&a->view, of, (unsigned)a->table.seconds.runs);
	stat_print_rows(&a->view, &a->table, 0);
	stat_print_end(&a->view, &a->table, r->user, r->kernel);
}

/* When it was, for those who find the file later. */
static void stamp(FILE *out)
{
	time_t now = time(NULL);
	char text[32];

	fprintf(out, "# started on %s\n", ctime_r(&now, text));
}

static int count(struct stat_args *a)
{
	int code = 0;

	a->view.out = cli_open_lines(a->path, a->append ? "ae" : "we", stderr);
	if (!a->view.out)
		return 1;
	setvbuf(a->view.out, NULL, _IOLBF, 0); /* a line is written at once */
	if (a->path && strcmp(a->path, "-") != 0)
		stamp(a->view.out);
	a->session.report = report;
	a->session.ctx = a;
	for (uint64_t i = 0; !code && i < MAX(a->runs, 1) && !a->result.is_interrupted; i++)
		code = stat_session_run(&a->session, &a->result);
	if (!code && !a->view.at_intervals)
		print(a);
	int written = cli_close_lines(a->view.out, a->path);
	return code ? code : written ? written : a->result.exit_code;
}

int cmd_stat(int argc, char **argv)
{
	struct stat_args *a CLEANUP(freep) = mem_alloc(sizeof(*a));
	CLEANUP(freep) char *separator = thousands();
	int code;

	if (!parse(argc, argv, a) || (!a->help && !check(a))) {
		code = a->refused ? a->refused : cli_usage("stat");
	} else if (a->help) {
		help();
		code = cli_printed();
	} else {
		a->view.thousands = a->plain_numbers ? "" : separator;
		prepare(a);
		code = count(a);
	}
	stat_table_done(&a->table);
	counter_events_done(&a->events);
	return code;
}
