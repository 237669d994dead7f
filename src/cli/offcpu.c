#include <string.h>

#include "base/log.h"
#include "base/mem.h"
#include "base/nearest.h"
#include "bpf/offcpu_wire.h"
#include "cli/cli.h"
#include "cli/record_options.h"
#include "cli/wait_options.h"
#include "collect/offcpu_source.h"

static void help(void)
{
	puts("Usage: smolder offcpu [options] [SECONDS] [-- program args...]\n"
	     "\n"
	     "Records the time that threads spend off the CPU, by stack: blocked, and waiting for\n"
	     "a CPU. Each time is exact. It goes on until the time is up, the target ends or you\n"
	     "press Ctrl-C; what is still blocked then is there as well.\n"
	     "\n"
	     "Whose:\n"
	     "  -p PID[,PID]      only these processes\n"
	     "  -t TID[,TID]      only these threads\n"
	     "  -a                the whole machine (default), even when a program is started\n"
	     "  --cgroup PATH     only processes in this control group or below it\n"
	     "  --comm NAME       only processes with this name\n"
	     "  -u, -k            only threads of programs, only threads of the kernel\n"
	     "  -- program ...    start this program, record it and its children, and exit with\n"
	     "                    its exit code; under sudo it runs as the user who called sudo\n"
	     "Which:\n"
	     "  -m US, -M US      only times of at least, of at most so many microseconds\n"
	     "  --state STATE[,STATE]\n"
	     "                    only sleeping, uninterruptible (disk and the like), or runnable\n"
	     "                    (waiting for a CPU)\n"
	     "  --no-idle         leave out the time that threads wait for work: see "
	     "smolder-offcpu(1)\n"
	     "  --idle-in F, --blocked-in F\n"
	     "                    treat threads waiting in function F as idle, or as blocked;\n"
	     "                    repeatable\n"
	     "How:\n"
	     "  -d SECONDS        how long; the same as the plain argument\n"
	     "  -U, -K            only user frames, only kernel frames\n"
	     "  --wakers          above each stack, who woke it: process, thread and stack; and\n"
	     "                    who held the lock, where that is a mutex of glibc's");
	record_options_help_detail();
	record_options_help_output();
}

enum { OPT_STATE = 256, OPT_WAKERS, OPT_NO_IDLE, OPT_IDLE_IN, OPT_BLOCKED_IN };

static const struct option long_options[] = {
	RECORD_OPTIONS,
	{"state", required_argument, NULL, OPT_STATE},
	{"wakers", no_argument, NULL, OPT_WAKERS},
	{"no-idle", no_argument, NULL, OPT_NO_IDLE},
	{"idle-in", required_argument, NULL, OPT_IDLE_IN},
	{"blocked-in", required_argument, NULL, OPT_BLOCKED_IN},
	{}};

struct offcpu_args {
	struct record_args record;
	struct offcpu_options offcpu;
	struct settings settings; /* idle-in and blocked-in: also of the configuration file */
};

static void args_free(struct offcpu_args *a)
{
	settings_done(&a->settings);
	free(a);
}
DEFINE_CLEANUP(struct offcpu_args *, args_free)

static bool parse_states(const char *arg, unsigned *ret)
{
	static const char *const names[] = {"sleeping", "uninterruptible", "runnable", NULL};
	CLEANUP(freep) char *copy = mem_strdup(arg);
	char *save = NULL;

	for (char *one = strtok_r(copy, ",", &save); one; one = strtok_r(NULL, ",", &save)) {
		unsigned i = 0;
		while (names[i] && strcmp(names[i], one) != 0)
			i++;
		if (!names[i]) {
			const char *meant = nearest_word(one, names);
			log_error("--state takes sleeping, uninterruptible or runnable, not "
				  "'%s'%s%s%s",
				  one, meant ? "; did you mean " : "", meant ? meant : "",
				  meant ? "?" : "");
			return false;
		}
		*ret |= 1u << (OFFCPU_SLEEPING + i);
	}
	if (!*ret)
		log_error("--state needs at least one state");
	return *ret != 0;
}

static bool parse_us(const char *option, const char *arg, uint64_t *ret_ns)
{
	uint64_t us;

	if (!cli_number(option, arg, 0, UINT64_MAX / 1000, &us))
		return false;
	*ret_ns = us * 1000;
	return true;
}

static bool set_option(void *ctx, int opt)
{
	struct offcpu_args *a = ctx;
	struct target_options *t = &a->record.recording.target;

	switch (opt) {
	case 't':
		return target_ids("-t", optarg, t->tids, &t->tid_count);
	case 'm':
		return parse_us("-m", optarg, &a->offcpu.min_ns);
	case 'M':
		return parse_us("-M", optarg, &a->offcpu.max_ns);
	case 'u':
		a->offcpu.user_threads = true;
		return true;
	case 'k':
		a->offcpu.kernel_threads = true;
		return true;
	case OPT_STATE:
		return parse_states(optarg, &a->offcpu.states);
	case OPT_WAKERS:
		a->offcpu.wakers = true;
		return true;
	case OPT_NO_IDLE:
		a->offcpu.no_idle = true;
		return true;
	case OPT_IDLE_IN:
		return wait_options_set(&a->settings, SET_IDLE_IN, optarg);
	case OPT_BLOCKED_IN:
		return wait_options_set(&a->settings, SET_BLOCKED_IN, optarg);
	default:
		return false;
	}
}

static bool check(const struct offcpu_args *a)
{
	const char *why = record_options_conflict(&a->record);

	if (a->offcpu.user_threads && a->offcpu.kernel_threads)
		why = "-u and -k exclude each other";
	else if (a->offcpu.max_ns && a->offcpu.min_ns > a->offcpu.max_ns)
		why = "-m is more than -M, so that nothing would be left";
	if (why)
		log_error("%s", why);
	return !why;
}

int cmd_offcpu(int argc, char **argv)
{
	CLEANUP(args_freep) struct offcpu_args *a = mem_alloc(sizeof(*a));
	struct recording_options *r = &a->record.recording;
	struct record_command command = {"offcpu", RECORD_SHORT "t:m:M:uk", long_options,
					 set_option, a};

	a->record.output.options.tree.by_comm = true;
	a->record.output.options.tree.column = TREE_VALUE;
	if (!record_options_parse(&command, argc, argv, &a->record) ||
	    (!a->record.help && !check(a)))
		return cli_usage("offcpu");
	if (a->record.help) {
		help();
		return 0;
	}
	r->sampler.cpu = -1;
	r->sampler.source_count = 1;
	r->sampler.sources[0].kind = a->offcpu.wakers ? &offcpu_wakers_source : &offcpu_source;
	r->offcpu = &a->offcpu;
	wait_options_read(&a->settings, &a->offcpu.waits);
	return record_options_run(&command, &a->record);
}
