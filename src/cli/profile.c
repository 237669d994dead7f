/*
 * profile: BCC's `profile`, its flags and its output, for scripts and habits that know it.
 */
#include "base/log.h"
#include "base/mem.h"
#include "cli/bcc_options.h"
#include "cli/cli.h"

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

enum { OPT_CGROUPMAP = 256, OPT_MNTNSMAP };

static const struct option long_options[] = {
	BCC_LONG('L'),
	{"frequency", required_argument, NULL, 'F'},
	{"count", required_argument, NULL, 'c'},
	{"annotations", no_argument, NULL, 'a'},
	{"include-idle", no_argument, NULL, 'I'},
	{"cpu", required_argument, NULL, 'C'},
	{"cgroupmap", required_argument, NULL, OPT_CGROUPMAP},
	{"mntnsmap", required_argument, NULL, OPT_MNTNSMAP},
	{},
};

static bool set_option(void *ctx, int option)
{
	struct bcc_args *a = ctx;
	struct sampler_options *s = &a->recording.sampler;
	uint64_t n;

	switch (option) {
	case 'F':
		return cli_number("-F", optarg, 1, 100000, &s->sources[0].frequency);
	case 'c':
		return cli_number("-c", optarg, 1, UINT32_MAX, &s->sources[0].period);
	case 'a':
		a->render.annotations = true;
		return true;
	case 'I':
		s->filter.idle = true;
		return true;
	case 'C':
		if (!cli_number("-C", optarg, 0, 8191, &n))
			return false;
		s->cpu = (int)n;
		return true;
	default: /* OPT_CGROUPMAP, OPT_MNTNSMAP */
		log_error("%s is not supported; 'smolder record --cgroup PATH' filters by control "
			  "group",
			  option == OPT_CGROUPMAP ? "--cgroupmap" : "--mntnsmap");
		return false;
	}
}

static const char *conflict(const void *ctx)
{
	const struct bcc_args *a = ctx;
	const struct sampler_source *s = &a->recording.sampler.sources[0];

	return s->frequency && s->period ? "-F and -c exclude each other"
					 : target_conflict(&a->recording.target);
}

/* BCC says what it will do, unless folded: "Sampling at 49 Hertz of all threads by …". */
static void header(const struct bcc_args *a)
{
	const struct sampler_options *s = &a->recording.sampler;
	const struct target_options *t = &a->recording.target;

	if (s->sources[0].frequency)
		printf("Sampling at %llu Hertz of ", (unsigned long long)s->sources[0].frequency);
	else
		printf("Sampling at every %llu events of ",
		       (unsigned long long)s->sources[0].period);
	if (t->pid_count || t->tid_count) {
		printf("%s [", t->pid_count ? "PID" : "TID");
		bcc_print_ids(a);
		printf("]");
	} else {
		printf("all threads");
	}
	printf(" by %s stack", bcc_stacks(a));
	if (s->cpu >= 0)
		printf(" on CPU#%d", s->cpu);
	bcc_print_duration(a);
}

int cmd_profile(int argc, char **argv)
{
	struct bcc_args *a CLEANUP(freep) = mem_alloc(sizeof(*a));
	struct sampler_options *s = &a->recording.sampler;
	const struct bcc_command command = {
		.options = "p:L:UKF:c:daIfC:h",
		.long_options = long_options,
		.threads = 'L',
		.set = set_option,
		.conflict = conflict,
		.ctx = a,
	};

	s->cpu = -1;
	s->sources[0].kind = source_find("cpu-clock");
	s->source_count = 1;
	a->render.tree.by_comm = true;
	if (!bcc_parse(&command, argc, argv, a))
		return cli_usage("profile");
	if (a->help) {
		help();
		return 0;
	}
	if (!s->sources[0].period && !s->sources[0].frequency)
		s->sources[0].frequency = 49;
	if (!a->folded)
		header(a);
	return bcc_record(a, NULL, "samples");
}
