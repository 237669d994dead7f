#include "cli/record_options.h"

#include <limits.h>
#include <string.h>

#include "base/log.h"
#include "base/mem.h"
#include "cli/browser.h"

#define TABLES_MIN 3  /* MB: arrays, and room for some rows */
#define TABLES_MAX 24 /* what the BPF side has room for */

void record_options_help_detail(void)
{
	puts("  --inlines, --no-inlines\n"
	     "                    show inlined calls as frames where there is debug info; on by\n"
	     "                    default for a process, a thread or a program, off for the "
	     "machine\n"
	     "  --lines, --no-lines\n"
	     "                    record source files and lines, with the same default; pprof\n"
	     "                    shows them\n"
	     "  --tables MB       memory limit for unwind tables (24); the least used go first");
}

void record_options_help_output(void)
{
	puts("Output:\n"
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

static bool set_option(struct record_args *a, const struct record_command *command, int c)
{
	struct recording_options *r = &a->recording;
	struct sampler_options *s = &r->sampler;
	struct render_options *render = &a->output.options;
	uint64_t n;

	if (target_takes(c))
		return target_set(&r->target, c);
	switch (c) {
	case 'd':
		return cli_seconds(command->name, optarg, &r->duration_ms);
	case 'U':
		s->filter.no_kernel = true;
		return true;
	case 'K':
		s->filter.no_user = true;
		return true;
	case 'o':
		a->output.path = optarg;
		return true;
	case 'f':
		a->output.format = optarg;
		return true;
	case RECORD_THREADS:
		render->tree.by_thread = true;
		return true;
	case RECORD_DELIMITED:
		render->tree.delimited = true;
		return true;
	case RECORD_ANNOTATIONS:
		render->annotations = true;
		return true;
	case RECORD_TITLE:
		render->title = optarg;
		return true;
	case RECORD_TOP:
		if (!cli_number("--top", optarg, 1, 1000000, &n))
			return false;
		render->top = (unsigned)n;
		return true;
	case RECORD_INLINES:
	case RECORD_NO_INLINES:
		a->inlines = c == RECORD_INLINES ? DETAIL_YES : DETAIL_NO;
		return true;
	case RECORD_LINES:
	case RECORD_NO_LINES:
		a->lines = c == RECORD_LINES ? DETAIL_YES : DETAIL_NO;
		return true;
	case RECORD_OPEN:
		a->open = a->output.to_invoker = true;
		return true;
	case RECORD_TABLES:
		if (!cli_number("--tables", optarg, TABLES_MIN, TABLES_MAX, &n))
			return false;
		r->table_bytes = (size_t)n << 20;
		return true;
	default:
		/* If it is '?', getopt has said why. */
		return c != '?' && (cli_takes(c, &a->help) || command->set(command->ctx, c));
	}
}

bool record_options_parse(const struct record_command *c, int argc, char **argv,
			  struct record_args *a)
{
	int words = target_words(argc, argv, &a->recording.target), opt;

	if (words < 0)
		return false;

	while ((opt = getopt_long(words, argv, c->short_options, c->long_options, NULL)) != -1) {
		if (!set_option(a, c, opt))
			return false;
		if (a->help)
			return true;
	}
	return cli_plain_seconds(c->name, words, argv, &a->recording.duration_ms);
}

const char *record_options_conflict(const struct record_args *a)
{
	const struct recording_options *r = &a->recording;

	if (r->sampler.filter.no_kernel && r->sampler.filter.no_user)
		return "-U and -K exclude each other";
	return target_conflict(&r->target);
}

/* Debug info costs time to read: worth it for one target, not for all that a machine runs. */
static void choose_detail(struct record_args *a)
{
	struct recording_options *r = &a->recording;
	bool target = !r->target.machine &&
		      (r->target.pid_count || r->target.tid_count || r->target.program);

	r->inlines = a->inlines == DETAIL_AUTO ? target : a->inlines == DETAIL_YES;
	r->lines = a->lines == DETAIL_AUTO ? target : a->lines == DETAIL_YES;
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

int record_options_run(const struct record_command *c, struct record_args *a)
{
	choose_detail(a);
	const struct renderer *renderer = cli_renderer(&a->output, "svg");
	if (!renderer)
		return cli_usage(c->name);
	if (a->open && !shows_in_browser(&a->output, renderer))
		return cli_usage(c->name);
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
