#include <string.h>

#include "base/log.h"
#include "base/mem.h"
#include "cli/cli.h"
#include "cli/record_options.h"

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
	     "  -I                also sample the idle task");
	record_options_help_detail();
	record_options_help_output();
}

static const struct option long_options[] = {RECORD_OPTIONS, {}};

static bool set_option(void *ctx, int opt)
{
	struct record_args *a = ctx;
	struct sampler_source *s = &a->recording.sampler.sources[0];

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
		a->recording.sampler.filter.idle = true;
		return true;
	default:
		return false;
	}
}

static bool check(const struct record_args *a)
{
	const struct sampler_source *s = &a->recording.sampler.sources[0];
	const char *why = record_options_conflict(a);

	if (s->frequency && s->period)
		why = "-F and -c exclude each other";
	if (why)
		log_error("%s", why);
	return !why;
}

int cmd_record(int argc, char **argv)
{
	struct record_args *a CLEANUP(freep) = mem_alloc(sizeof(*a));
	struct record_command command = {"record", RECORD_SHORT "L:F:c:e:I", long_options,
					 set_option, a};

	a->recording.sampler.cpu = -1;
	a->output.options.tree.by_comm = true;
	a->recording.sampler.sources[0].kind = source_find("cpu-clock");
	a->recording.sampler.source_count = 1;
	if (!record_options_parse(&command, argc, argv, a) || (!a->help && !check(a)))
		return cli_usage("record");
	if (a->help) {
		help();
		return 0;
	}
	struct sampler_source *source = &a->recording.sampler.sources[0];
	if (!source->period && !source->frequency)
		source->period = source->kind->period;
	if (!source->period && !source->frequency)
		source->frequency = RATE;
	if (!source->kind->is_clock) /* how many there were, not how many of them were seen */
		a->output.options.tree.column = TREE_VALUE;
	return record_options_run(&command, a);
}
