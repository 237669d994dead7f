/*
 * profile: BCC's `profile`, its flags and its output, for scripts and habits that know it.
 */
#include <string.h>

#include "base/log.h"
#include "base/mem.h"
#include "cli/cli.h"
#include "cli/recording.h"

static void help(void)
{
	puts("Usage: smolder profile [options] [SECONDS]\n"
	     "\n"
	     "A drop-in for BCC's profile: the same flags and the same output. 'smolder record'\n"
	     "does more.\n"
	     "\n"
	     "  -p, --pid PID[,PID]           only these processes\n"
	     "  -L, --tid TID[,TID]           only these threads\n"
	     "  -U, --user-stacks-only        no kernel frames\n"
	     "  -K, --kernel-stacks-only      no user frames\n"
	     "  -F, --frequency HZ            samples per second per CPU (49)\n"
	     "  -c, --count PERIOD            one sample every PERIOD ns of CPU time\n"
	     "  -d, --delimited               a delimiter between kernel and user frames\n"
	     "  -a, --annotations             mark kernel frames with _[k]\n"
	     "  -I, --include-idle            also sample the idle task\n"
	     "  -f, --folded                  one line per stack, for flame graphs\n"
	     "  -C, --cpu CPU                 only this CPU\n"
	     "      --stack-storage-size N    accepted and ignored: storage grows as needed\n"
	     "  -h, --help                    print this help\n"
	     "\n"
	     "--cgroupmap and --mntnsmap are not supported; use smolder record --cgroup PATH.");
}

enum { OPT_STORAGE = 256, OPT_CGROUPMAP, OPT_MNTNSMAP };

static const struct option long_options[] = {
	{"pid", required_argument, NULL, 'p'},
	{"tid", required_argument, NULL, 'L'},
	{"user-stacks-only", no_argument, NULL, 'U'},
	{"kernel-stacks-only", no_argument, NULL, 'K'},
	{"frequency", required_argument, NULL, 'F'},
	{"count", required_argument, NULL, 'c'},
	{"delimited", no_argument, NULL, 'd'},
	{"annotations", no_argument, NULL, 'a'},
	{"include-idle", no_argument, NULL, 'I'},
	{"folded", no_argument, NULL, 'f'},
	{"cpu", required_argument, NULL, 'C'},
	{"stack-storage-size", required_argument, NULL, OPT_STORAGE},
	{"cgroupmap", required_argument, NULL, OPT_CGROUPMAP},
	{"mntnsmap", required_argument, NULL, OPT_MNTNSMAP},
	{"help", no_argument, NULL, 'h'},
	{},
};

struct profile_args {
	struct recording_options recording;
	struct render_options render;
	bool folded, help;
};

static bool parse_option(struct profile_args *a, int c)
{
	struct recording_options *r = &a->recording;
	uint64_t n;

	switch (c) {
	case 'p':
		return target_ids("-p", optarg, r->target.pids, &r->target.pid_count);
	case 'L':
		return target_ids("-L", optarg, r->target.tids, &r->target.tid_count);
	case 'U':
		r->sampler.filter.no_kernel = true;
		return true;
	case 'K':
		r->sampler.filter.no_user = true;
		return true;
	case 'F':
		return cli_number("-F", optarg, 1, 100000, &r->sampler.sources[0].frequency);
	case 'c':
		return cli_number("-c", optarg, 1, UINT32_MAX, &r->sampler.sources[0].period);
	case 'd':
		a->render.tree.delimited = true;
		return true;
	case 'a':
		a->render.annotations = true;
		return true;
	case 'I':
		r->sampler.filter.idle = true;
		return true;
	case 'f':
		a->folded = true;
		return true;
	case 'C':
		if (!cli_number("-C", optarg, 0, 8191, &n))
			return false;
		r->sampler.cpu = (int)n;
		return true;
	case OPT_STORAGE:
		return cli_number("--stack-storage-size", optarg, 1, UINT32_MAX, &n);
	case OPT_CGROUPMAP:
	case OPT_MNTNSMAP:
		log_error("%s is not supported; 'smolder record --cgroup PATH' filters by control "
			  "group",
			  c == OPT_CGROUPMAP ? "--cgroupmap" : "--mntnsmap");
		return false;
	case 'h':
		a->help = true;
		return true;
	default:
		return false;
	}
}

static bool parse(int argc, char **argv, struct profile_args *a)
{
	struct recording_options *r = &a->recording;
	int c;

	while ((c = getopt_long(argc, argv, "p:L:UKF:c:daIfC:h", long_options, NULL)) != -1)
		if (!parse_option(a, c))
			return false;
	if (a->help)
		return true;
	if (optind < argc) {
		uint64_t seconds;
		if (!cli_number("the duration", argv[optind++], 1, 99999999, &seconds))
			return false;
		r->duration_ms = seconds * 1000;
	}

	const char *why = target_conflict(&r->target);
	if (optind < argc)
		why = "there is one argument too many";
	else if (r->sampler.filter.no_kernel && r->sampler.filter.no_user)
		why = "-U and -K exclude each other";
	else if (r->sampler.sources[0].frequency && r->sampler.sources[0].period)
		why = "-F and -c exclude each other";
	if (why)
		log_error("%s", why);
	return !why;
}

/* BCC says what it will do, unless folded: "Sampling at 49 Hertz of all threads by …". */
static void header(const struct profile_args *a)
{
	const struct recording_options *r = &a->recording;

	if (r->sampler.sources[0].frequency)
		printf("Sampling at %llu Hertz of ",
		       (unsigned long long)r->sampler.sources[0].frequency);
	else
		printf("Sampling at every %llu events of ",
		       (unsigned long long)r->sampler.sources[0].period);

	const uint32_t *ids = r->target.pid_count ? r->target.pids : r->target.tids;
	unsigned count = r->target.pid_count ? r->target.pid_count : r->target.tid_count;
	if (count == 0)
		printf("all threads");
	else
		printf("%s [", r->target.pid_count ? "PID" : "TID");
	for (unsigned i = 0; i < count; i++)
		printf("%s%u", i ? ", " : "", ids[i]);
	printf("%s by %s stack", count ? "]" : "",
	       r->sampler.filter.no_kernel ? "user"
	       : r->sampler.filter.no_user ? "kernel"
					   : "user + kernel");
	if (r->sampler.cpu >= 0)
		printf(" on CPU#%d", r->sampler.cpu);
	if (r->duration_ms)
		printf(" for %llu secs.\n", (unsigned long long)r->duration_ms / 1000);
	else
		puts("... Hit Ctrl-C to end.");
	fflush(stdout);
}

int cmd_profile(int argc, char **argv)
{
	struct profile_args *a CLEANUP(freep) = mem_alloc(sizeof(*a));

	a->recording.sampler.cpu = -1;
	a->render.tree.by_comm = true;
	a->recording.sampler.sources[0].kind = source_find("cpu-clock");
	a->recording.sampler.source_count = 1;
	if (!parse(argc, argv, a))
		return cli_usage("profile");
	if (a->help) {
		help();
		return 0;
	}

	if (!a->recording.sampler.sources[0].period && !a->recording.sampler.sources[0].frequency)
		a->recording.sampler.sources[0].frequency = 49;
	if (!a->folded)
		header(a);
	struct recording_result result;
	int code = recording_run(&a->recording, &result);
	if (code)
		return code;
	if (!a->folded)
		putchar('\n');
	struct cli_output out = {.options = a->render};
	code = cli_write(result.profile, render_by_name(a->folded ? "folded" : "text"), &out, "-");
	if (code == 0 && result.lost)
		log_warn("%llu samples were lost", (unsigned long long)result.lost);
	profile_free(result.profile);
	return code;
}
