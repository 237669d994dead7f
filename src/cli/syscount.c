/*
 * syscount: BCC's `syscount`, its flags and its output, for scripts and habits that know it.
 */
#include <string.h>
#include <time.h>

#include "base/file.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/text.h"
#include "cli/cli.h"
#include "cli/syscall_session.h"

static void help(void)
{
	puts("Usage: smolder syscount [options]\n"
	     "\n"
	     "A drop-in for BCC's syscount: the same flags and the same output. 'smolder "
	     "syscalls'\n"
	     "does more.\n"
	     "\n"
	     "  -p, --pid PID          only this process\n"
	     "  -t, --tid TID          only this thread\n"
	     "  -i, --interval SECONDS print a summary at each interval\n"
	     "  -d, --duration SECONDS end after this time\n"
	     "  -T, --top N            only the N with the most calls, or the most time (10)\n"
	     "  -x, --failures         only calls that fail\n"
	     "  -e, --errno ERROR      only calls that fail with this error (EPERM, or a number)\n"
	     "  -L, --latency          also the time spent in calls\n"
	     "  -m, --milliseconds     times in ms, not us\n"
	     "  -P, --process          by process, not by system call\n"
	     "  -l, --list             list the system calls, and do nothing else\n"
	     "      --syscall NAME     only this system call\n"
	     "  -h, --help             print this help");
}

enum { OPT_SYSCALL = 256 };

static const struct option long_options[] = {
	{"pid", required_argument, NULL, 'p'},
	{"tid", required_argument, NULL, 't'},
	{"interval", required_argument, NULL, 'i'},
	{"duration", required_argument, NULL, 'd'},
	{"top", required_argument, NULL, 'T'},
	{"failures", no_argument, NULL, 'x'},
	{"errno", required_argument, NULL, 'e'},
	{"latency", no_argument, NULL, 'L'},
	{"milliseconds", no_argument, NULL, 'm'},
	{"process", no_argument, NULL, 'P'},
	{"list", no_argument, NULL, 'l'},
	{"syscall", required_argument, NULL, OPT_SYSCALL},
	{"help", no_argument, NULL, 'h'},
	{},
};

struct syscount_args {
	struct syscall_session_options session;
	const struct syscall_calls *calls;
	const char *call;
	uint64_t top;
	bool milliseconds, list, help;
};

static bool parse_seconds(const char *option, uint64_t *ret_ms)
{
	uint64_t seconds;

	if (!cli_number(option, optarg, 1, 99999999, &seconds))
		return false;
	*ret_ms = seconds * 1000;
	return true;
}

static bool parse_option(struct syscount_args *a, int c)
{
	struct target_options *target = &a->session.target;
	struct syscall_choice *choice = &a->session.counter.choice;

	switch (c) {
	case 'p':
		return target_ids("-p", optarg, target->pids, &target->pid_count);
	case 't':
		return target_ids("-t", optarg, target->tids, &target->tid_count);
	case 'i':
		return parse_seconds("-i", &a->session.interval_ms);
	case 'd':
		return parse_seconds("-d", &a->session.duration_ms);
	case 'T':
		return cli_number("-T", optarg, 1, SYSCALL_ROWS_MAX, &a->top);
	case 'x':
		choice->only_failed = true;
		return true;
	case 'e':
		return syscall_session_error("-e", optarg, &choice->only_error);
	case 'L':
		choice->timed = true;
		return true;
	case 'm':
		a->milliseconds = true;
		return true;
	case 'P':
		choice->by = SYSCALL_BY_PROCESS;
		return true;
	case 'l':
		a->list = true;
		return true;
	case OPT_SYSCALL:
		a->call = optarg;
		return true;
	case 'h':
		a->help = true;
		return true;
	default:
		return false;
	}
}

static bool parse(int argc, char **argv, struct syscount_args *a)
{
	int c;

	while ((c = getopt_long(argc, argv, "p:t:i:d:T:xe:LmPlh", long_options, NULL)) != -1)
		if (!parse_option(a, c))
			return false;
	if (a->help || a->list)
		return true;
	const char *why = NULL;
	if (optind < argc)
		why = "there is one argument too many";
	else if (a->session.target.pid_count && a->session.target.tid_count)
		why = "-p and -t exclude each other";
	if (why)
		log_error("%s", why);
	return !why;
}

static int compare_names(const void *a, const void *b)
{
	return strcmp(*(const char *const *)a, *(const char *const *)b);
}

/* Four in a line, sorted. */
static void print_list(const struct syscall_names *names)
{
	const char *sorted[SYSCALL_NUMBERS] = {};
	size_t count = 0;

	for (uint32_t i = 0; i < SYSCALL_NUMBERS; i++)
		if (syscall_names_name(names, i))
			sorted[count++] = syscall_names_name(names, i);
	qsort(sorted, count, sizeof(*sorted), compare_names);
	for (size_t i = 0; i < count; i++)
		printf("%-20s%s", sorted[i], i % 4 == 3 || i + 1 == count ? "\n" : "   ");
}

static void print_name(const struct syscount_args *a, const struct syscall_row *r)
{
	char comm[TEXT_MAX + 1] = "[unknown]";
	bool compat;

	if (a->session.counter.choice.by == SYSCALL_BY_NOBODY) {
		printf("%-22s", syscall_calls_name(a->calls, r->call, &compat));
		return;
	}
	if (r->id == SYSCALL_COUNTER_OTHERS) {
		printf("%-6s %-15s", "-", "others");
		return;
	}
	if (r->comm[0])
		text_clean(r->comm, strnlen(r->comm, sizeof(r->comm)), comm);
	printf("%-6llu %-15s", (unsigned long long)r->id, comm);
}

static bool report(void *ctx, struct syscall_totals *t, double seconds, bool is_last)
{
	const struct syscount_args *a = ctx;
	bool timed = a->session.counter.choice.timed;
	double unit = a->milliseconds ? 1e6 : 1e3;
	time_t now = time(NULL);
	char clock[16];
	size_t count;
	const struct syscall_row *rows =
		syscall_totals_rows(t, timed ? SYSCALL_ORDER_TOTAL : SYSCALL_ORDER_CALLS, &count);

	(void)seconds;
	strftime(clock, sizeof(clock), "%H:%M:%S", localtime(&now));
	printf("[%s]\n%-22s %8s", clock, a->session.counter.choice.by ? "PID    COMM" : "SYSCALL",
	       "COUNT");
	if (timed)
		printf(" %16s", a->milliseconds ? "TIME (ms)" : "TIME (us)");
	putchar('\n');
	for (size_t i = 0, shown = 0; i < count && shown < a->top; i++) {
		if (!rows[i].calls)
			continue; /* all of them unfinished: BCC does not see those */
		print_name(a, &rows[i]);
		printf(" %8llu", (unsigned long long)rows[i].calls);
		if (timed)
			printf(" %16.*f", a->milliseconds ? 6 : 3, (double)rows[i].total_ns / unit);
		putchar('\n');
		shown++;
	}
	putchar('\n');
	if (is_last)
		puts("Detaching...");
	return fflush(stdout) == 0;
}

DEFINE_CLEANUP(struct syscall_calls *, syscall_calls_free)

int cmd_syscount(int argc, char **argv)
{
	struct syscount_args *a CLEANUP(freep) = mem_alloc(sizeof(*a));
	CLEANUP(syscall_calls_freep) struct syscall_calls *calls = syscall_calls_new();

	a->top = 10;
	a->calls = calls;
	a->session.report = report;
	a->session.ctx = a;
	if (!parse(argc, argv, a))
		return cli_usage("syscount");
	if (a->help) {
		help();
		return 0;
	}
	if (a->list) {
		print_list(syscall_calls_own(calls));
		return cli_printed();
	}
	if (!syscall_session_choose(calls, a->call, &a->session))
		return cli_usage("syscount");
	a->session.by_call = a->session.counter.choice.by == SYSCALL_BY_NOBODY;
	if (a->session.duration_ms && !a->session.interval_ms)
		a->session.interval_ms = a->session.duration_ms;

	printf("Tracing %ssyscalls, printing top %llu... Ctrl+C to quit.\n",
	       a->session.counter.choice.only_failed ? "failed " : "", (unsigned long long)a->top);
	fflush(stdout);
	struct syscall_session_result result;
	int code = syscall_session_run(&a->session, &result);
	if (code)
		return code;
	syscall_session_say_untimed(&result);
	return cli_printed();
}
