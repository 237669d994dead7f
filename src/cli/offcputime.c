#include <string.h>

#include "base/log.h"
#include "base/mem.h"
#include "bpf/offcpu.h"
#include "cli/cli.h"
#include "cli/recording.h"
#include "collect/offcpu_source.h"

static void help(void)
{
	puts("Usage: smolder offcputime [options] [SECONDS]\n"
	     "\n"
	     "A drop-in for BCC's offcputime: the same flags and the same output. 'smolder "
	     "offcpu'\n"
	     "does more.\n"
	     "\n"
	     "  -p, --pid PID[,PID]           only these processes\n"
	     "  -t, --tid TID[,TID]           only these threads\n"
	     "  -u, --user-threads-only       no threads of the kernel\n"
	     "  -k, --kernel-threads-only     only threads of the kernel\n"
	     "  -U, --user-stacks-only        no kernel frames\n"
	     "  -K, --kernel-stacks-only      no user frames\n"
	     "  -d, --delimited               a delimiter between kernel and user frames\n"
	     "  -f, --folded                  one line per stack, for flame graphs\n"
	     "  -m, --min-block-time US       only times of at least so many microseconds (1)\n"
	     "  -M, --max-block-time US       only times of at most so many microseconds\n"
	     "      --state MASK              only these states: 0 runnable, 1 sleeping, 2\n"
	     "                                uninterruptible\n"
	     "      --stack-storage-size N    accepted and ignored: storage grows as needed\n"
	     "  -h, --help                    print this help");
}

enum { OPT_STORAGE = 256, OPT_STATE };

static const struct option long_options[] = {
	{"pid", required_argument, NULL, 'p'},
	{"tid", required_argument, NULL, 't'},
	{"user-threads-only", no_argument, NULL, 'u'},
	{"kernel-threads-only", no_argument, NULL, 'k'},
	{"user-stacks-only", no_argument, NULL, 'U'},
	{"kernel-stacks-only", no_argument, NULL, 'K'},
	{"delimited", no_argument, NULL, 'd'},
	{"folded", no_argument, NULL, 'f'},
	{"min-block-time", required_argument, NULL, 'm'},
	{"max-block-time", required_argument, NULL, 'M'},
	{"state", required_argument, NULL, OPT_STATE},
	{"stack-storage-size", required_argument, NULL, OPT_STORAGE},
	{"help", no_argument, NULL, 'h'},
	{},
};

#define US_MAX      (UINT64_MAX / 1000)
#define SECONDS_MAX 99999999

struct offcputime_args {
	struct recording_options recording;
	struct offcpu_options offcpu;
	struct render_options render;
	bool folded, help;
};

/* The kernel's numbers: of states that there are several of, all count. */
static unsigned states_of(uint64_t mask)
{
	enum { INTERRUPTIBLE = 1, UNINTERRUPTIBLE = 2 };

	if (mask == 0)
		return 1u << OFFCPU_RUNNABLE;
	return (mask & INTERRUPTIBLE ? 1u << OFFCPU_SLEEPING : 0) |
	       (mask & UNINTERRUPTIBLE ? 1u << OFFCPU_UNINTERRUPTIBLE : 0);
}

static bool set_option(struct offcputime_args *a, int opt)
{
	struct recording_options *r = &a->recording;
	uint64_t n;

	switch (opt) {
	case 'p':
		return target_ids("-p", optarg, r->target.pids, &r->target.pid_count);
	case 't':
		return target_ids("-t", optarg, r->target.tids, &r->target.tid_count);
	case 'u':
		a->offcpu.user_threads = true;
		return true;
	case 'k':
		a->offcpu.kernel_threads = true;
		return true;
	case 'U':
		r->sampler.filter.no_kernel = true;
		return true;
	case 'K':
		r->sampler.filter.no_user = true;
		return true;
	case 'd':
		a->render.tree.delimited = true;
		return true;
	case 'f':
		a->folded = true;
		return true;
	case 'm':
		if (!cli_number("-m", optarg, 0, US_MAX, &n))
			return false;
		a->offcpu.min_ns = n * 1000;
		return true;
	case 'M':
		if (!cli_number("-M", optarg, 1, US_MAX, &n))
			return false;
		a->offcpu.max_ns = n * 1000 + 999;
		return true;
	case OPT_STATE:
		if (!cli_number("--state", optarg, 0, 3, &n))
			return false;
		a->offcpu.states = states_of(n);
		return true;
	case OPT_STORAGE:
		return cli_number("--stack-storage-size", optarg, 1, UINT32_MAX, &n);
	case 'h':
		a->help = true;
		return true;
	default:
		return false;
	}
}

static const char *conflict(const struct offcputime_args *a)
{
	const struct recording_options *r = &a->recording;
	int whose = !!r->target.pid_count + !!r->target.tid_count + a->offcpu.user_threads +
		    a->offcpu.kernel_threads;

	if (whose > 1)
		return "-p, -t, -u and -k exclude each other";
	if (r->sampler.filter.no_kernel && r->sampler.filter.no_user)
		return "-U and -K exclude each other";
	if (a->offcpu.max_ns && a->offcpu.min_ns > a->offcpu.max_ns)
		return "-m is more than -M, so that nothing would be left";
	return NULL;
}

static bool parse(int argc, char **argv, struct offcputime_args *a)
{
	int opt;

	while ((opt = getopt_long(argc, argv, "p:t:ukUKdfm:M:h", long_options, NULL)) != -1)
		if (!set_option(a, opt))
			return false;
	if (a->help)
		return true;
	if (optind < argc) {
		uint64_t seconds;
		if (!cli_number("the duration", argv[optind++], 1, SECONDS_MAX, &seconds))
			return false;
		a->recording.duration_ms = seconds * 1000;
	}
	const char *why = optind < argc ? "there is one argument too many" : conflict(a);
	if (why)
		log_error("%s", why);
	return !why;
}

/* BCC says what it will do, unless folded. */
static void header(const struct offcputime_args *a)
{
	const struct recording_options *r = &a->recording;
	const struct target_options *t = &r->target;
	const uint32_t *ids = t->pid_count ? t->pids : t->tids;
	unsigned count = t->pid_count + t->tid_count;

	printf("Tracing off-CPU time (us) of ");
	if (count)
		printf("%s ", t->pid_count ? "PID" : "TID");
	for (unsigned i = 0; i < count; i++)
		printf("%s%u", i ? ", " : "", ids[i]);
	if (!count)
		printf("%s", a->offcpu.user_threads     ? "user threads"
			     : a->offcpu.kernel_threads ? "kernel threads"
							: "all threads");
	printf(" by %s stack", r->sampler.filter.no_kernel ? "user"
			       : r->sampler.filter.no_user ? "kernel"
							   : "user + kernel");
	if (r->duration_ms)
		printf(" for %llu secs.\n", (unsigned long long)r->duration_ms / 1000);
	else
		puts("... Hit Ctrl-C to end.");
	fflush(stdout);
}

int cmd_offcputime(int argc, char **argv)
{
	struct offcputime_args *a CLEANUP(freep) = mem_alloc(sizeof(*a));
	struct recording_options *r = &a->recording;

	a->offcpu.min_ns = 1000;
	if (!parse(argc, argv, a))
		return cli_usage("offcputime");
	if (a->help) {
		help();
		return 0;
	}
	if (!a->folded)
		header(a);
	r->sampler.cpu = -1;
	r->sampler.source_count = 1;
	r->sampler.sources[0].kind = &offcpu_source;
	a->offcpu.as_bcc = true;
	r->offcpu = &a->offcpu;
	struct recording_result result;
	int code = recording_run(r, &result);
	if (code)
		return code;
	if (!a->folded)
		putchar('\n');
	result.profile->info.unit = "microseconds";
	struct cli_output out = {.options = a->render};
	out.options.tree.by_comm = true;
	out.options.tree.column = TREE_VALUE;
	code = cli_write(result.profile, render_by_name(a->folded ? "folded" : "text"), &out, "-");
	if (code == 0 && result.lost)
		log_warn("%llu times off the CPU were lost", (unsigned long long)result.lost);
	profile_free(result.profile);
	return code;
}
