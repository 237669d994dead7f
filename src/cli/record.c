#include <limits.h>
#include <string.h>
#include <time.h>

#include "base/log.h"
#include "base/mem.h"
#include "cli/browser.h"
#include "cli/cli.h"
#include "cli/recording.h"

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
	     "  --inlines, --no-inlines\n"
	     "                    show inlined calls as frames where there is debug info; on by\n"
	     "                    default with -p, -L or a program, off for the whole machine\n"
	     "  --lines, --no-lines\n"
	     "                    record source files and lines, with the same default; pprof\n"
	     "                    shows them\n"
	     "  --tables MB       memory limit for unwind tables (24); the least used go first\n"
	     "Output:\n"
	     "  -o FILE           output file; - is standard output. Its extension selects the\n"
	     "                    format. By default, text formats go to standard output, others\n"
	     "                    to a file here (smolder-COMM-20261115T010203Z.svg), or to\n"
	     "                    standard output if that is a pipe and no program is started");
	fputs("  -f FORMAT         ", stdout);
	for (const struct renderer *r = renderers; r->name; r++)
		printf("%s%s", r == renderers ? "" : ", ", r->name);
	puts("\n"
	     "  --open            open the file in a browser when it is written\n"
	     "  --threads         a frame for each thread, under that of its process\n"
	     "  --delimited       a '-' frame between user and kernel frames\n"
	     "  --annotations     mark kernel frames with _[k], inlined ones _[i], JIT ones _[j]\n"
	     "  --title TEXT      title of the graph\n"
	     "  --top N           rows in the format top (30)\n"
	     "  -q, -v            print less, print more\n"
	     "  -h, --help        print this help");
}

enum {
	OPT_CGROUP = 256,
	OPT_COMM,
	OPT_THREADS,
	OPT_DELIMITED,
	OPT_ANNOTATIONS,
	OPT_TITLE,
	OPT_TOP,
	OPT_INLINES,
	OPT_NO_INLINES,
	OPT_LINES,
	OPT_NO_LINES,
	OPT_TABLES,
	OPT_OPEN,
};

static const struct option long_options[] = {
	{"cgroup", required_argument, NULL, OPT_CGROUP},
	{"comm", required_argument, NULL, OPT_COMM},
	{"threads", no_argument, NULL, OPT_THREADS},
	{"delimited", no_argument, NULL, OPT_DELIMITED},
	{"annotations", no_argument, NULL, OPT_ANNOTATIONS},
	{"title", required_argument, NULL, OPT_TITLE},
	{"top", required_argument, NULL, OPT_TOP},
	{"inlines", no_argument, NULL, OPT_INLINES},
	{"no-inlines", no_argument, NULL, OPT_NO_INLINES},
	{"lines", no_argument, NULL, OPT_LINES},
	{"no-lines", no_argument, NULL, OPT_NO_LINES},
	{"tables", required_argument, NULL, OPT_TABLES},
	{"open", no_argument, NULL, OPT_OPEN},
	{"help", no_argument, NULL, 'h'},
	{},
};

enum choice { BY_TARGET, YES, NO }; /* what debug info is for: asked for, or as the target is */

struct record_args {
	struct recording_options recording;
	struct cli_output output;
	enum choice inlines, lines;
	bool open;
	bool help;
};

#define TABLES_MIN 3  /* MB: arrays, and room for some rows */
#define TABLES_MAX 24 /* what the BPF side has room for */
#define RATE       99
#define RATE_MAX   100000

static bool parse_option(struct record_args *a, int c)
{
	struct recording_options *r = &a->recording;
	struct sampler_options *s = &r->sampler;
	struct render_options *render = &a->output.options;
	uint64_t n;

	switch (c) {
	case 'p':
		if (optarg[0] && (optarg[0] < '0' || optarg[0] > '9') && optarg[0] != '-') {
			log_error(
				"-p takes a process id, not '%s'; to select by name, use --comm %s",
				optarg, optarg);
			return false;
		}
		return target_ids("-p", optarg, r->target.pids, &r->target.pid_count);
	case 'L':
		return target_ids("-L", optarg, r->target.tids, &r->target.tid_count);
	case 'a':
		r->target.machine = true;
		return true;
	case 'd':
		return cli_seconds("record", optarg, &r->duration_ms);
	case 'F':
		return cli_number("-F", optarg, 1, RATE_MAX, &s->sources[0].frequency);
	case 'c':
		return cli_number("-c", optarg, 1, UINT32_MAX, &s->sources[0].period);
	case 'e':
		s->sources[0].kind = source_find(optarg);
		if (!s->sources[0].kind)
			log_error("unknown event '%s'; use one of %s", optarg, source_names());
		return s->sources[0].kind != NULL;
	case 'U':
		s->filter.no_kernel = true;
		return true;
	case 'K':
		s->filter.no_user = true;
		return true;
	case 'I':
		s->filter.idle = true;
		return true;
	case 'o':
		a->output.path = optarg;
		return true;
	case 'f':
		a->output.format = optarg;
		return true;
	case OPT_CGROUP:
		r->target.cgroup = optarg;
		return true;
	case OPT_COMM:
		r->target.comm = optarg;
		return true;
	case OPT_THREADS:
		render->tree.by_thread = true;
		return true;
	case OPT_DELIMITED:
		render->tree.delimited = true;
		return true;
	case OPT_ANNOTATIONS:
		render->annotations = true;
		return true;
	case OPT_TITLE:
		render->title = optarg;
		return true;
	case OPT_TOP:
		if (!cli_number("--top", optarg, 1, 1000000, &n))
			return false;
		render->top = (unsigned)n;
		return true;
	case OPT_INLINES:
	case OPT_NO_INLINES:
		a->inlines = c == OPT_INLINES ? YES : NO;
		return true;
	case OPT_LINES:
	case OPT_NO_LINES:
		a->lines = c == OPT_LINES ? YES : NO;
		return true;
	case OPT_OPEN:
		a->open = a->output.to_invoker = true;
		return true;
	case OPT_TABLES:
		if (!cli_number("--tables", optarg, TABLES_MIN, TABLES_MAX, &n))
			return false;
		r->table_bytes = (size_t)n << 20;
		return true;
	case 'q':
		log_level = LOG_QUIET;
		return true;
	case 'v':
		log_level = LOG_VERBOSE;
		return true;
	case 'h':
		a->help = true;
		return true;
	default:
		return false; /* getopt has said why */
	}
}

/* Options and SECONDS in any order, then -- and the program. */
static bool parse(int argc, char **argv, struct record_args *a)
{
	int words = 1, c;

	while (words < argc && strcmp(argv[words], "--") != 0)
		words++;
	if (words == argc - 1) {
		log_error("no program is given after --");
		return false;
	}
	if (words < argc)
		a->recording.target.program = argv + words + 1;

	while ((c = getopt_long(words, argv, "p:L:ad:F:c:e:UKIo:f:qvh", long_options, NULL)) !=
	       -1) {
		if (!parse_option(a, c))
			return false;
		if (a->help)
			return true;
	}
	if (optind < words && !cli_seconds("record", argv[optind++], &a->recording.duration_ms))
		return false;
	if (optind < words) {
		log_error("unexpected argument '%s'; to start a program, put it after --",
			  argv[optind]);
		return false;
	}
	return true;
}

/* Debug info costs time to read: worth it for one target, not for all that a machine runs. */
static void choose_detail(struct record_args *a)
{
	struct recording_options *r = &a->recording;
	bool target = !r->target.machine &&
		      (r->target.pid_count || r->target.tid_count || r->target.program);

	r->inlines = a->inlines == BY_TARGET ? target : a->inlines == YES;
	r->lines = a->lines == BY_TARGET ? target : a->lines == YES;
}

static bool check(const struct record_args *a)
{
	const struct recording_options *r = &a->recording;
	const char *why = target_conflict(&r->target);

	if (r->sampler.filter.no_kernel && r->sampler.filter.no_user)
		why = "-U and -K exclude each other";
	else if (r->sampler.sources[0].frequency && r->sampler.sources[0].period)
		why = "-F and -c exclude each other";
	if (why)
		log_error("%s", why);
	return !why;
}

/* "nginx (1234) on web-1", "web-1" */
static char *subject(const struct recording_options *o, const char *name)
{
	char host[HOST_NAME_MAX + 1] = "";
	unsigned count = o->target.pid_count + o->target.tid_count;
	uint32_t first = o->target.pid_count ? o->target.pids[0] : o->target.tids[0];

	gethostname(host, sizeof(host) - 1);
	if (o->target.cgroup)
		return mem_printf("%s on %s", o->target.cgroup, host);
	if (count > 1)
		return mem_printf("%s (%u and %u more) on %s", name, first, count - 1, host);
	if (count)
		return mem_printf("%s (%u) on %s", name, first, host);
	if ((o->target.program && !o->target.machine) || o->target.comm)
		return mem_printf("%s on %s", name, host);
	return mem_strdup(host);
}

static bool shows_in_browser(const struct cli_output *o, const struct renderer *r)
{
	bool is_page = strcmp(r->name, "svg") == 0 || strcmp(r->name, "html") == 0;

	if (is_page && !(o->path && strcmp(o->path, "-") == 0))
		return true;
	log_error("--open needs a file in the format svg or html, not %s",
		  is_page ? "standard output" : r->name);
	return false;
}

int cmd_record(int argc, char **argv)
{
	struct record_args *a CLEANUP(freep) = mem_alloc(sizeof(*a));

	a->recording.sampler.cpu = -1;
	a->output.options.tree.by_comm = true;
	a->recording.sampler.sources[0].kind = source_find("cpu-clock");
	a->recording.sampler.source_count = 1;
	if (!parse(argc, argv, a) || (!a->help && !check(a)))
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
	choose_detail(a);
	const struct renderer *renderer = cli_renderer(&a->output, "svg");
	if (!renderer)
		return cli_usage("record");
	if (a->open && !shows_in_browser(&a->output, renderer))
		return cli_usage("record");
	if (a->output.path && !cli_writable(a->output.path))
		return 1;

	struct recording_result result;
	int code = recording_run(&a->recording, &result);
	if (code)
		return code;

	CLEANUP(freep) char *name = cli_file_name(result.name);
	CLEANUP(freep)
	char *path = cli_path(&a->output, renderer, name, a->recording.target.program || a->open);
	CLEANUP(freep) char *whose = subject(&a->recording, result.name);
	a->output.options.subject = whose;
	code = cli_write(result.profile, renderer, &a->output, path);
	if (code == 0)
		recording_report(&result, strcmp(path, "-") ? path : NULL);
	if (code == 0 && a->open)
		browser_show(path);
	profile_free(result.profile);
	return code ? code : result.exit_code;
}
