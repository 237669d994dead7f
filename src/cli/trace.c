/*
 * trace: each call of chosen system calls, with its arguments and its result, as strace shows them;
 * without ever stopping the process.
 */
#include <string.h>

#include "base/duration.h"
#include "base/file.h"
#include "base/log.h"
#include "base/mem.h"
#include "cli/cli.h"
#include "cli/trace_summary.h"
#include "cli/tracing.h"
#include "syscall/errors.h"

static void help(void)
{
	puts("Usage: smolder trace [options] [-- program args...]\n"
	     "\n"
	     "Shows each system call with its arguments, result and error in strace's notation, "
	     "in\n"
	     "the order in which they return. Never stops what it traces. Threads and children of "
	     "a\n"
	     "process are traced with it. Lines go to standard output; if a program is started,\n"
	     "to standard error, as strace's do.\n"
	     "\n"
	     "Whom to trace:\n"
	     "  -p PID[,PID]        these processes\n"
	     "  -L TID[,TID]        only these threads\n"
	     "  -a                  the whole machine, even when a program is started\n"
	     "  --cgroup PATH       only processes in this control group or below it\n"
	     "  --comm NAME         only processes with this name\n"
	     "  -- program ...      start this program, and exit with its exit code; under sudo "
	     "it\n"
	     "                      runs as the user who called sudo\n"
	     "Which calls:\n"
	     "  -e LIST             names and classes: openat,%network; '!futex' for all but it;\n"
	     "                      classes: %file, %desc, %network, %process, %memory, %signal, "
	     "...\n"
	     "  -P PATH             only calls that touch this path, by name or by descriptor\n"
	     "  --failed            only calls that failed\n"
	     "  --errno LIST        only calls that failed with one of these: ENOENT,EACCES\n"
	     "  --min-latency TIME  only calls that took as long: 10ms, 200us\n"
	     "What to show:\n"
	     "  -s SIZE             bytes of each buffer and string (32)\n"
	     "  -y                  paths of descriptors\n"
	     "  -k                  the stack of each call, under it\n"
	     "  -t                  time of day; -tt: with microseconds, -ttt: since 1970\n"
	     "  -r                  time since the call before\n"
	     "  -T                  how long each call took\n"
	     "  -f                  accepted and ignored: children are always traced\n"
	     "  --json              a line of JSON for each call\n"
	     "  -o FILE             write there\n"
	     "Summaries:\n"
	     "  -c                  no lines, but a table of all calls at the end, as strace -c\n"
	     "  -i SECONDS          with -c: a table each so many seconds\n"
	     "  --histogram         a table and histograms of latencies\n"
	     "Flight recorder:\n"
	     "  --last TIME         keep the last 10s, say, and write them at the end or at "
	     "Ctrl-C\n"
	     "  --until LIST        with --last: write and exit at the first of these: '>100ms'\n"
	     "                      (slow call), '=EIO' (error), 'fsync>1s', 'end' (a process "
	     "exits)\n"
	     "How:\n"
	     "  -d SECONDS          how long\n"
	     "  --buffer MB         size of the kernel's record buffer, a power of two (8)\n"
	     "  -q, -v              print less, print more\n"
	     "  -h, --help          print this help");
}

enum {
	OPT_FAILED = 256,
	OPT_ERRNO,
	OPT_MIN_LATENCY,
	OPT_JSON,
	OPT_HISTOGRAM,
	OPT_LAST,
	OPT_UNTIL,
	OPT_BUFFER,
};

static const struct option long_options[] = {
	TARGET_LONG,
	{"failed", no_argument, NULL, OPT_FAILED},
	{"errno", required_argument, NULL, OPT_ERRNO},
	{"min-latency", required_argument, NULL, OPT_MIN_LATENCY},
	{"json", no_argument, NULL, OPT_JSON},
	{"histogram", no_argument, NULL, OPT_HISTOGRAM},
	{"last", required_argument, NULL, OPT_LAST},
	{"until", required_argument, NULL, OPT_UNTIL},
	{"buffer", required_argument, NULL, OPT_BUFFER},
	{"help", no_argument, NULL, 'h'},
	{},
};

struct trace_args {
	struct tracing_options tracing;
	struct trace_summary summary; /* what it shares with tracing is set from there */
	const char *calls;            /* -e */
	const char *until;
	const char *output; /* -o */
	bool count, help;
	uint64_t interval_ms;
	unsigned errnos;
};

static bool parse_time(const char *option, const char *arg, uint64_t *ret_ns)
{
	if (duration_parse(arg, DURATION_S, ret_ns) == 0 && *ret_ns)
		return true;
	log_error("%s takes a time such as 10ms, 1.5s or 200us, not '%s'", option, arg);
	return false;
}

/* The BPF side has room for the errors that the kernel's interface has. */
static bool parse_errnos(struct trace_args *a, const char *arg)
{
	struct trace_choice *c = &a->tracing.choice;
	CLEANUP(freep) char *copy = mem_strdup(arg);
	char *save = NULL;

	for (char *w = strtok_r(copy, ",", &save); w; w = strtok_r(NULL, ",", &save)) {
		uint32_t number;
		if (!syscall_session_error("--errno", w, &number))
			return false;
		if (number >= 64 * TRACE_ERRNOS) {
			log_error("--errno: %s is internal to the kernel and never returned to "
				  "programs",
				  w);
			return false;
		}
		c->errnos[number / 64] |= 1ull << number % 64;
		a->summary.session.counter.choice.only_error = number;
		a->errnos++;
	}
	c->by_errno = true;
	if (!a->errnos)
		log_error("--errno needs at least one name, such as ENOENT");
	return a->errnos > 0;
}

static bool parse_buffer(struct trace_args *a, const char *arg)
{
	uint64_t megabytes;

	if (!cli_number("--buffer", arg, 1, 1024, &megabytes))
		return false;
	if (megabytes & (megabytes - 1)) {
		log_error("--buffer takes a power of two: 1, 2, 4, ..., not %s", arg);
		return false;
	}
	a->tracing.ring_bytes = (size_t)megabytes << 20;
	return true;
}

static bool parse_show(struct trace_args *a, int c)
{
	struct trace_lines_options *l = &a->tracing.lines;
	uint64_t n;

	switch (c) {
	case 's':
		if (!cli_number("-s", optarg, 0, DECODE_STRING_MAX, &n))
			return false;
		l->decode.string_max = (unsigned)n;
		return true;
	case 'y':
		l->decode.descriptors = true;
		return true;
	case 't':
		if (l->stamp < TRACE_STAMP_EPOCH)
			l->stamp++;
		return true;
	case 'r':
		l->stamp = TRACE_STAMP_RELATIVE;
		return true;
	case 'T':
		l->latency = true;
		return true;
	case 'P':
		l->path = optarg;
		return true;
	case OPT_JSON:
		l->json = true;
		return true;
	default:
		return false; /* getopt has said why */
	}
}

static bool parse_option(struct trace_args *a, int c)
{
	struct target_options *target = &a->tracing.target;
	uint64_t ns;

	if (target_takes(c))
		return target_set(target, c);
	switch (c) {
	case 'e':
		/* strace's "trace=" may stand before it. */
		a->calls = strncmp(optarg, "trace=", 6) == 0 ? optarg + 6 : optarg;
		return true;
	case OPT_FAILED:
		a->tracing.choice.failed = true;
		a->summary.session.counter.choice.only_failed = true;
		return true;
	case OPT_ERRNO:
		return parse_errnos(a, optarg);
	case OPT_MIN_LATENCY:
		if (!parse_time("--min-latency", optarg, &ns))
			return false;
		a->tracing.choice.min_ns = ns;
		return true;
	case OPT_HISTOGRAM:
		a->summary.histogram = a->count = true;
		return true;
	case 'c':
		a->count = true;
		return true;
	case 'i':
		return cli_seconds("trace", optarg, &a->interval_ms);
	case 'd':
		return cli_seconds("trace", optarg, &a->tracing.duration_ms);
	case OPT_LAST:
		return parse_time("--last", optarg, &a->tracing.last_ns);
	case OPT_UNTIL:
		a->until = optarg;
		return true;
	case OPT_BUFFER:
		return parse_buffer(a, optarg);
	case 'o':
		a->output = optarg;
		return true;
	case 'k':
		a->tracing.stacks = true;
		return true;
	case 'f':
		return true;
	default:
		return cli_takes(c, &a->help) || parse_show(a, c);
	}
}

static bool parse(int argc, char **argv, struct trace_args *a)
{
	static const char options[] = "p:L:ae:P:s:yktrTfo:ci:d:qvh";
	int words = target_words(argc, argv, &a->tracing.target), c;

	if (words < 0)
		return false;
	while ((c = getopt_long(words, argv, options, long_options, NULL)) != -1) {
		if (!parse_option(a, c))
			return false;
		if (a->help)
			return true;
	}
	if (optind < words)
		log_error("unexpected argument '%s'; to start a program, put it after --: "
			  "smolder trace -- %s",
			  argv[optind], argv[optind]);
	return optind >= words;
}

static bool has_target(const struct target_options *t)
{
	return t->pid_count || t->tid_count || t->cgroup || t->comm || t->program || t->machine;
}

static bool check(const struct trace_args *a)
{
	const struct tracing_options *t = &a->tracing;
	const char *why = target_conflict(&t->target);

	if (!has_target(&t->target))
		why = "say whom to trace: -p PID, -- program, --comm NAME, --cgroup PATH, or -a "
		      "for "
		      "the whole machine";
	else if (a->interval_ms && !a->count)
		why = "-i needs -c: it is the time between two tables";
	else if (a->until && !t->last_ns)
		why = "--until needs --last: it tells when to write the last seconds";
	else if (a->count && t->last_ns)
		why = "-c and --last exclude each other";
	else if (a->count &&
		 (t->choice.min_ns || t->lines.path || t->lines.json || t->stacks || a->errnos > 1))
		why = "-c counts in the kernel, by call: not with -P, -k, --min-latency, --json or "
		      "more than one --errno";
	if (why)
		log_error("%s", why);
	return !why;
}

static bool choose(struct trace_args *a, const struct syscall_calls *calls)
{
	struct tracing_options *t = &a->tracing;
	struct syscall_session_options *s = &a->summary.session;
	CLEANUP(freep) char *word = NULL;

	t->calls = a->summary.calls = calls;
	if (!syscall_session_choose(calls, a->calls, s))
		return false;
	memcpy(t->wanted, s->counter.kinds, sizeof(t->wanted));
	if (a->until && trace_condition_parse(a->until, calls, &t->until, &word) != 0) {
		log_error("--until: '%s' is no condition; one is as in '>100ms', '=EIO', 'fsync', "
			  "'connect>1s', 'openat=ENOENT' or 'end'",
			  word);
		return false;
	}
	return true;
}

static int run(struct trace_args *a)
{
	struct tracing_options *t = &a->tracing;
	struct syscall_session_options *s = &a->summary.session;
	CLEANUP(freep) char *buffer = mem_alloc(BUFSIZ * 16);

	t->out = cli_open_lines(a->output, "we", t->target.program ? stderr : stdout);
	a->summary.out = t->out;
	if (!t->out)
		return 1;
	setvbuf(t->out, buffer, _IOFBF, BUFSIZ * 16);
	int code;
	if (a->count) {
		s->target = t->target;
		s->duration_ms = t->duration_ms;
		s->interval_ms = a->interval_ms;
		code = trace_summary_run(&a->summary);
	} else {
		t->lines.always_pid = a->output != NULL;
		/* An end is no failed call, and has no latency. */
		t->choice.calls_only =
			t->choice.failed || t->choice.by_errno || t->choice.min_ns || t->lines.path;
		code = tracing_run(t);
	}
	fflush(t->out);
	setvbuf(t->out, NULL, t->out == stderr ? _IONBF : _IOFBF, 0);
	if (t->out != stdout && t->out != stderr)
		fclose(t->out);
	return code;
}

int cmd_trace(int argc, char **argv)
{
	struct trace_args *a CLEANUP(freep) = mem_alloc(sizeof(*a));

	a->tracing.lines.decode.string_max = DECODE_STRING;
	if (!parse(argc, argv, a) || (!a->help && !check(a)))
		return cli_usage("trace");
	if (a->help) {
		help();
		return cli_printed();
	}
	struct syscall_calls *calls = syscall_calls_new();
	int code = choose(a, calls) ? run(a) : EXIT_USAGE;
	syscall_calls_free(calls);
	return code;
}
