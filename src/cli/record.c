#include <string.h>

#include "base/log.h"
#include "base/mem.h"
#include "cli/cli.h"
#include "cli/record_options.h"
#include "cli/wait_options.h"
#include "collect/offcpu_source.h"

#define RATE     99
#define RATE_MAX 100000

static void help(void)
{
	puts("Usage: smolder record [options] [SECONDS] [-- program args...]\n"
	     "\n"
	     "Samples what runs on the CPUs until the time is up, the target ends or you press\n"
	     "Ctrl-C, and writes a flame graph. Without a target it samples the whole machine.\n"
	     "\n"
	     "What to sample:\n"
	     "  -p PID[,PID]      only these processes\n"
	     "  -L TID[,TID]      only these threads\n"
	     "  -a                the whole machine (default), even when a program is started\n"
	     "  --cgroup PATH     only processes in this control group or below it\n"
	     "  --comm NAME       only processes with this name\n"
	     "  -- program ...    start this program, sample it and its children, and exit with\n"
	     "                    its exit code; under sudo it runs as the user who called sudo\n"
	     "How:\n"
	     "  -d SECONDS        how long; the same as the plain argument\n"
	     "  -F HZ             samples per second per CPU (99)\n"
	     "  -c PERIOD         instead: one sample every PERIOD events (ns for clocks; for\n"
	     "                    page-faults the default is 100)\n"
	     "  -e EVENT          event to sample by (cpu-clock); page-faults, cycles, ...\n"
	     "  -U, -K            only user frames, only kernel frames\n"
	     "  -I                also sample the idle task\n"
	     "  --wall            all the time of the threads: what they run, and what they wait\n"
	     "                    for, exactly; see smolder-record(1)\n"
	     "  --latency[=machine]\n"
	     "                    with --wall: weigh time by 1/(threads of the process running at\n"
	     "                    that moment; --latency=machine: of all processes), to find what\n"
	     "                    to speed up for lower latency\n"
	     "  --idle, --no-idle\n"
	     "                    with --wall: show the stacks of idle threads, or leave idle "
	     "time\n"
	     "                    out (by default it is one frame)\n"
	     "  --idle-in F, --blocked-in F\n"
	     "                    with --wall: treat threads waiting in function F as idle, or as\n"
	     "                    blocked; repeatable");
	record_options_help_detail();
	record_options_help_output();
}

enum { OPT_WALL = 256, OPT_LATENCY, OPT_IDLE, OPT_NO_IDLE, OPT_IDLE_IN, OPT_BLOCKED_IN };

static const struct option long_options[] = {
	RECORD_OPTIONS,
	{"wall", no_argument, NULL, OPT_WALL},
	{"latency", optional_argument, NULL, OPT_LATENCY},
	{"idle", no_argument, NULL, OPT_IDLE},
	{"no-idle", no_argument, NULL, OPT_NO_IDLE},
	{"idle-in", required_argument, NULL, OPT_IDLE_IN},
	{"blocked-in", required_argument, NULL, OPT_BLOCKED_IN},
	{}};

struct args {
	struct record_args record;
	struct offcpu_options offcpu; /* for --wall */
	struct settings settings;     /* idle-in and blocked-in */
	const char *of_wall;          /* an option that was given, of those that need --wall */
};

static void args_free(struct args *a)
{
	settings_done(&a->settings);
	free(a);
}
DEFINE_CLEANUP(struct args *, args_free)

/* "process", which is the default, or "machine". */
static bool set_latency(struct recording_options *r, const char *of)
{
	r->latency = true;
	r->latency_of = of && strcmp(of, "machine") == 0 ? LATENCY_OF_MACHINE : LATENCY_OF_PROCESS;
	if (of && r->latency_of == LATENCY_OF_PROCESS && strcmp(of, "process") != 0) {
		log_error("--latency takes process or machine, whose threads it counts, not '%s'",
			  of);
		return false;
	}
	return true;
}

static bool set_option(void *ctx, int opt)
{
	struct args *a = ctx;
	struct recording_options *r = &a->record.recording;
	struct sampler_source *s = &r->sampler.sources[0];

	switch (opt) {
	case 'F':
		return cli_number("-F", optarg, 1, RATE_MAX, &s->frequency);
	case 'c':
		return cli_number("-c", optarg, 1, UINT32_MAX, &s->period);
	case 'e':
		s->kind = source_find(optarg);
		if (!s->kind)
			log_error("unknown event '%s'; use one of %s", optarg, source_names());
		return s->kind != NULL;
	case 'I':
		r->sampler.filter.idle = true;
		return true;
	case OPT_WALL:
		r->wall = true;
		return true;
	case OPT_LATENCY:
		a->of_wall = "--latency";
		return set_latency(r, optarg);
	case OPT_IDLE:
		a->of_wall = "--idle";
		a->record.output.options.tree.idle = true;
		return true;
	case OPT_NO_IDLE:
		a->of_wall = "--no-idle";
		a->offcpu.no_idle = true;
		return true;
	case OPT_IDLE_IN:
		a->of_wall = "--idle-in";
		return wait_options_set(&a->settings, SET_IDLE_IN, optarg);
	case OPT_BLOCKED_IN:
		a->of_wall = "--blocked-in";
		return wait_options_set(&a->settings, SET_BLOCKED_IN, optarg);
	default:
		return false;
	}
}

static const char *conflict(const struct args *a)
{
	const struct recording_options *r = &a->record.recording;
	const struct sampler_source *s = &r->sampler.sources[0];

	if (s->frequency && s->period)
		return "-F and -c exclude each other";
	if (r->wall && !s->kind->is_clock)
		return "--wall divides time by samples of a clock: -e takes cpu-clock or "
		       "task-clock "
		       "with it";
	if (a->offcpu.no_idle && a->record.output.options.tree.idle)
		return "--idle and --no-idle exclude each other";
	if (r->latency && r->latency_of == LATENCY_OF_MACHINE && !target_is_machine(&r->target))
		return "--latency=machine counts the threads of all processes, so all have to be "
		       "recorded: without -p, -L, --cgroup and --comm, and with -a where a program "
		       "is started";
	if (r->wall && r->sampler.filter.idle)
		return "--wall and -I exclude each other: the idle task is not a thread";
	return record_options_conflict(&a->record);
}

static bool check(const struct args *a)
{
	const char *why = conflict(a);

	if (why)
		log_error("%s", why);
	else if (a->of_wall && !a->record.recording.wall)
		log_error("%s needs --wall, which records what threads wait for", a->of_wall);
	else
		return true;
	return false;
}

/* All the time of threads: what they wait for comes from a second source. */
static void add_waits(struct args *a)
{
	struct recording_options *r = &a->record.recording;

	r->sampler.sources[r->sampler.source_count++].kind = &offcpu_roster_source;
	r->offcpu = &a->offcpu;
	wait_options_read(&a->settings, &a->offcpu.waits);
	a->record.output.options.tree.column = TREE_VALUE;
}

int cmd_record(int argc, char **argv)
{
	CLEANUP(args_freep) struct args *a = mem_alloc(sizeof(*a));
	struct recording_options *r = &a->record.recording;
	struct record_command command = {"record", RECORD_SHORT "L:F:c:e:I", long_options,
					 set_option, a};

	r->sampler.cpu = -1;
	a->record.output.options.tree.by_comm = true;
	r->sampler.sources[0].kind = source_find("cpu-clock");
	r->sampler.source_count = 1;
	if (!record_options_parse(&command, argc, argv, &a->record) ||
	    (!a->record.help && !check(a)))
		return cli_usage("record");
	if (a->record.help) {
		help();
		return 0;
	}
	struct sampler_source *source = &r->sampler.sources[0];
	if (!source->period && !source->frequency)
		source->period = source->kind->period;
	if (!source->period && !source->frequency)
		source->frequency = RATE;
	if (!source->kind->is_clock) /* how many there were, not how many of them were seen */
		a->record.output.options.tree.column = TREE_VALUE;
	if (r->wall)
		add_waits(a);
	return record_options_run(&command, &a->record);
}
