/*
 * syscalls: counts and times system calls, by call, process, thread or control group.
 */
#include <string.h>
#include <time.h>

#include "base/log.h"
#include "base/mem.h"
#include "cli/cli.h"
#include "cli/syscall_session.h"
#include "cli/syscall_table.h"

#define TOP 20

static void help(void)
{
	puts("Usage: smolder syscalls [options] [SECONDS] [-- program args...]\n"
	     "\n"
	     "Counts and times system calls in the kernel until the time is up, the target ends "
	     "or\n"
	     "you press Ctrl-C, and prints a table. Without a target it counts those of all\n"
	     "processes but itself.\n"
	     "\n"
	     "Whose calls:\n"
	     "  -p PID[,PID]      only these processes\n"
	     "  -L TID[,TID]      only these threads\n"
	     "  -a                everybody's (default), even when a program is started\n"
	     "  --cgroup PATH     only processes in this control group or below it\n"
	     "  --comm NAME       only processes with this name\n"
	     "  -- program ...    start this program, count its calls and its children's, and\n"
	     "                    exit with its exit code; under sudo it runs as the user who\n"
	     "                    called sudo\n"
	     "Which calls:\n"
	     "  -e LIST           only these: names, or classes as strace has them\n"
	     "                    (openat,%network); !LIST is all but these\n"
	     "  --failed          only calls that fail\n"
	     "  --errno ERROR     only calls that fail with this error (ENOENT)\n"
	     "How:\n"
	     "  -d SECONDS        how long; the same as the plain argument\n"
	     "  -i SECONDS        print a table at each interval\n"
	     "  -c, --count       only count, do not time: costs a third\n"
	     "Output:\n"
	     "  --by WHAT         a row for each call (default), process, thread or cgroup; or\n"
	     "                    for each of its calls: process,call\n"
	     "  --sort COLUMN     total (default), calls (default with -c), errors, avg, max\n"
	     "  -n ROWS           how many rows (20); 0 is all\n"
	     "  --errors          which errors, instead of times\n"
	     "  --histogram       also a histogram of the latencies of each row\n"
	     "  -f FORMAT         text, json (one line for each interval)\n"
	     "  -o FILE           output file (standard output)\n"
	     "  -q, -v            print less, print more\n"
	     "  -h, --help        print this help");
}

enum {
	OPT_FAILED = 256,
	OPT_ERRNO,
	OPT_BY,
	OPT_SORT,
	OPT_ERRORS,
	OPT_HISTOGRAM,
};

static const struct option long_options[] = {
	TARGET_LONG,
	{"failed", no_argument, NULL, OPT_FAILED},
	{"errno", required_argument, NULL, OPT_ERRNO},
	{"count", no_argument, NULL, 'c'},
	{"by", required_argument, NULL, OPT_BY},
	{"sort", required_argument, NULL, OPT_SORT},
	{"errors", no_argument, NULL, OPT_ERRORS},
	{"histogram", no_argument, NULL, OPT_HISTOGRAM},
	{"help", no_argument, NULL, 'h'},
	{},
};

struct syscalls_args {
	struct syscall_session_options session;
	struct syscall_view view;
	const char *calls; /* -e */
	const char *path;  /* -o */
	FILE *out;
	bool count, is_sorted, json, help;
	uint64_t counted; /* calls, of all intervals */
	uint64_t errors, unfinished, longest_open_ns, others;
};

/* "process", "process,call" */
static bool parse_by(const char *arg, struct syscall_view *v)
{
	static const struct cli_word words[] = {{"call", SYSCALL_BY_NOBODY},
						{"process", SYSCALL_BY_PROCESS},
						{"thread", SYSCALL_BY_THREAD},
						{"cgroup", SYSCALL_BY_CGROUP},
						{}};
	CLEANUP(freep) char *copy = mem_strdup(arg);
	char *save = NULL;

	v->by = SYSCALL_BY_NOBODY;
	v->by_call = false;
	for (char *w = strtok_r(copy, ",", &save); w; w = strtok_r(NULL, ",", &save)) {
		int by;
		if (!cli_word("--by", w, words, &by))
			return false;
		if (by == SYSCALL_BY_NOBODY) {
			v->by_call = true;
		} else if (v->by != SYSCALL_BY_NOBODY) {
			log_error("--by takes one of process, thread and cgroup, not two");
			return false;
		} else {
			v->by = (enum syscall_by)by;
		}
	}
	if (!v->by && !v->by_call)
		log_error("--by needs a word: call, process, thread or cgroup");
	return v->by || v->by_call;
}

static bool parse_sort(const char *arg, struct syscalls_args *a)
{
	static const struct cli_word words[] = {
		{"total", SYSCALL_ORDER_TOTAL},   {"calls", SYSCALL_ORDER_CALLS},
		{"errors", SYSCALL_ORDER_ERRORS}, {"avg", SYSCALL_ORDER_AVERAGE},
		{"max", SYSCALL_ORDER_MAX},       {}};
	int order;

	if (!cli_word("--sort", arg, words, &order))
		return false;
	a->view.order = (enum syscall_order)order;
	a->is_sorted = true;
	return true;
}

static bool parse_format(const char *arg, struct syscalls_args *a)
{
	static const struct cli_word words[] = {{"text", false}, {"json", true}, {}};
	int json;

	if (!cli_word("-f", arg, words, &json))
		return false;
	a->json = json;
	return true;
}

static bool parse_option(struct syscalls_args *a, int c)
{
	struct target_options *target = &a->session.target;
	struct syscall_choice *choice = &a->session.counter.choice;

	if (target_takes(c))
		return target_set(target, c);
	switch (c) {
	case 'd':
		return cli_seconds("syscalls", optarg, &a->session.duration_ms);
	case 'i':
		return cli_seconds("syscalls", optarg, &a->session.interval_ms);
	case 'e':
		a->calls = optarg;
		return true;
	case 'c':
		a->count = true;
		return true;
	case 'n':
		return cli_number("-n", optarg, 0, SYSCALL_ROWS_MAX, &a->view.top);
	case 'f':
		return parse_format(optarg, a);
	case 'o':
		a->path = optarg;
		return true;
	case OPT_FAILED:
		choice->only_failed = true;
		return true;
	case OPT_ERRNO:
		return syscall_session_error("--errno", optarg, &choice->only_error);
	case OPT_BY:
		return parse_by(optarg, &a->view);
	case OPT_SORT:
		return parse_sort(optarg, a);
	case OPT_ERRORS:
		a->view.errors = true;
		return true;
	case OPT_HISTOGRAM:
		a->view.histogram = true;
		return true;
	default:
		return cli_takes(c, &a->help); /* else getopt has said why */
	}
}

/* Options and SECONDS in any order, then -- and the program. */
static bool parse(int argc, char **argv, struct syscalls_args *a)
{
	int words = target_words(argc, argv, &a->session.target), c;

	if (words < 0)
		return false;
	while ((c = getopt_long(words, argv, "p:L:ad:i:e:cn:f:o:qvh", long_options, NULL)) != -1) {
		if (!parse_option(a, c))
			return false;
		if (a->help)
			return true;
	}
	return cli_plain_seconds("syscalls", words, argv, &a->session.duration_ms);
}

static bool check(const struct syscalls_args *a)
{
	const char *why = target_conflict(&a->session.target);

	if (a->count && a->view.histogram)
		why = "-c and --histogram exclude each other: without times there is none";
	else if (a->view.errors && a->view.histogram)
		why = "--errors and --histogram exclude each other";
	else if (a->count && a->is_sorted && a->view.order != SYSCALL_ORDER_CALLS &&
		 a->view.order != SYSCALL_ORDER_ERRORS)
		why = "with -c there are no times to sort by";
	if (why)
		log_error("%s", why);
	return !why;
}

static bool report(void *ctx, struct syscall_totals *t, double seconds, bool is_last)
{
	struct syscalls_args *a = ctx;
	const struct syscall_row *sum = syscall_totals_sum(t);
	size_t count;
	const struct syscall_row *rows = syscall_totals_rows(t, a->view.order, &count);

	for (size_t i = 0; i < count; i++)
		if (rows[i].id == SYSCALL_COUNTER_OTHERS)
			a->others += rows[i].calls;
	a->counted += sum->calls;
	a->errors += sum->errors;
	a->unfinished += sum->unfinished;
	a->longest_open_ns = sum->longest_open_ns;
	if (a->json) {
		syscall_table_json(&a->view, t, seconds, a->out);
	} else if (a->session.interval_ms) {
		time_t now = time(NULL);
		char clock[16];
		strftime(clock, sizeof(clock), "%H:%M:%S", localtime(&now));
		fprintf(a->out, "%s\n", clock);
		syscall_table_text(&a->view, t, a->out);
		fputs(is_last ? "" : "\n", a->out);
	} else if (count) {
		syscall_table_text(&a->view, t, a->out);
	}
	return fflush(a->out) == 0;
}

static void say_result(const struct syscalls_args *a, const struct syscall_session_result *r)
{
	const struct syscall_choice *choice = &a->session.counter.choice;
	char open[96] = "";

	if (a->unfinished)
		snprintf(open, sizeof(open), ", %llu unfinished (the longest for %.1f s)",
			 (unsigned long long)a->unfinished, (double)a->longest_open_ns / 1e9);
	log_info("%llu %scalls in %.1f s, %llu failed%s", (unsigned long long)a->counted,
		 choice->only_failed || choice->only_error ? "failed " : "", r->seconds,
		 (unsigned long long)a->errors, open);
	if (!a->counted && !a->unfinished)
		log_warn("no system call was counted: in %.1f s nothing that matches made one",
			 r->seconds);
	if (a->others)
		log_warn("%llu calls are counted as those of others: there were more owners and "
			 "calls of theirs at a time than there is room for",
			 (unsigned long long)a->others);
	syscall_session_say_untimed(r);
}

/* What the options mean for the programs and for the table. */
static bool prepare(struct syscalls_args *a, const struct syscall_calls *calls)
{
	struct syscall_session_options *s = &a->session;
	struct syscall_view *v = &a->view;

	if (!syscall_session_choose(calls, a->calls, s))
		return false;
	v->calls = calls;
	v->timed = !a->count && !v->errors;
	s->counter.choice.timed = v->timed;
	if (!v->timed && !a->is_sorted)
		v->order = SYSCALL_ORDER_CALLS;
	v->columns = a->path ? 0 : cli_terminal_columns();
	s->counter.choice.by = v->by;
	s->by_call = v->by_call;
	s->report = report;
	s->ctx = a;
	return true;
}

DEFINE_CLEANUP(struct syscall_calls *, syscall_calls_free)
DEFINE_CLEANUP(struct cgroups *, cgroups_free)

int cmd_syscalls(int argc, char **argv)
{
	struct syscalls_args *a CLEANUP(freep) = mem_alloc(sizeof(*a));

	a->view.by_call = true;
	a->view.top = TOP;
	if (!parse(argc, argv, a) || (!a->help && !check(a)))
		return cli_usage("syscalls");
	if (a->help) {
		help();
		return 0;
	}
	CLEANUP(syscall_calls_freep) struct syscall_calls *calls = syscall_calls_new();
	CLEANUP(cgroups_freep) struct cgroups *cgroups = NULL;
	if (!prepare(a, calls))
		return cli_usage("syscalls");
	if (a->view.by == SYSCALL_BY_CGROUP)
		a->view.cgroups = cgroups = cgroups_new();
	a->out = cli_open_lines(a->path, "we", stdout);
	if (!a->out)
		return 1;

	struct syscall_session_result result;
	int code = syscall_session_run(&a->session, &result);
	int written = cli_close_lines(a->out, a->path);
	if (code || written)
		return code ? code : written;
	say_result(a, &result);
	return result.exit_code;
}
