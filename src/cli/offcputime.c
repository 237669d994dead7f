#include <string.h>

#include "base/log.h"
#include "base/mem.h"
#include "bpf/offcpu_wire.h"
#include "cli/bcc_options.h"
#include "cli/cli.h"
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

enum { OPT_STATE = 256 };

static const struct option long_options[] = {
	BCC_LONG('t'),
	{"user-threads-only", no_argument, NULL, 'u'},
	{"kernel-threads-only", no_argument, NULL, 'k'},
	{"min-block-time", required_argument, NULL, 'm'},
	{"max-block-time", required_argument, NULL, 'M'},
	{"state", required_argument, NULL, OPT_STATE},
	{},
};

#define US_MAX (UINT64_MAX / 1000)

struct offcputime_args {
	struct bcc_args bcc;
	struct offcpu_options offcpu;
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

static bool set_option(void *ctx, int option)
{
	struct offcputime_args *a = ctx;
	uint64_t n;

	switch (option) {
	case 'u':
		a->offcpu.user_threads = true;
		return true;
	case 'k':
		a->offcpu.kernel_threads = true;
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
	default: /* OPT_STATE */
		if (!cli_number("--state", optarg, 0, 3, &n))
			return false;
		a->offcpu.states = states_of(n);
		return true;
	}
}

static const char *conflict(const void *ctx)
{
	const struct offcputime_args *a = ctx;
	const struct target_options *t = &a->bcc.recording.target;
	int whose =
		!!t->pid_count + !!t->tid_count + a->offcpu.user_threads + a->offcpu.kernel_threads;

	if (whose > 1)
		return "-p, -t, -u and -k exclude each other";
	if (a->offcpu.max_ns && a->offcpu.min_ns > a->offcpu.max_ns)
		return "-m is more than -M, so that nothing would be left";
	return NULL;
}

/* BCC says what it will do, unless folded. */
static void header(const struct offcputime_args *a)
{
	const struct target_options *t = &a->bcc.recording.target;

	printf("Tracing off-CPU time (us) of ");
	if (t->pid_count || t->tid_count)
		printf("%s ", t->pid_count ? "PID" : "TID");
	else
		printf("%s", a->offcpu.user_threads     ? "user threads"
			     : a->offcpu.kernel_threads ? "kernel threads"
							: "all threads");
	bcc_print_ids(&a->bcc);
	printf(" by %s stack", bcc_stacks(&a->bcc));
	bcc_print_duration(&a->bcc);
}

int cmd_offcputime(int argc, char **argv)
{
	struct offcputime_args *a CLEANUP(freep) = mem_alloc(sizeof(*a));
	struct recording_options *r = &a->bcc.recording;
	const struct bcc_command command = {
		.options = "p:t:ukUKdfm:M:h",
		.long_options = long_options,
		.threads = 't',
		.set = set_option,
		.conflict = conflict,
		.ctx = a,
	};

	a->offcpu.min_ns = 1000;
	if (!bcc_parse(&command, argc, argv, &a->bcc))
		return cli_usage("offcputime");
	if (a->bcc.help) {
		help();
		return 0;
	}
	if (!a->bcc.folded)
		header(a);
	r->sampler.cpu = -1;
	r->sampler.source_count = 1;
	r->sampler.sources[0].kind = &offcpu_source;
	a->offcpu.as_bcc = true;
	r->offcpu = &a->offcpu;
	a->bcc.render.tree.by_comm = true;
	a->bcc.render.tree.column = TREE_VALUE;
	return bcc_record(&a->bcc, "microseconds", "times off the CPU");
}
