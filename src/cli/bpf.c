/*
 * bpf: every BPF program in the kernel with its cost, as a screen that is drawn anew each second,
 * as tables or as lines of JSON; or one of them in detail.
 */
#include <signal.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/loop.h"
#include "base/mem.h"
#include "cli/bpf_detail.h"
#include "cli/bpf_screen.h"
#include "cli/bpf_table.h"
#include "cli/cli.h"

#define INTERVAL_MS  1000
#define DETAIL_MS    5000
#define FREQUENCY    1999
#define USES_EVERY   10 /* intervals: owners and places may change while programs do not */
#define INTERVAL_MIN 100
#define COUNT_MAX    1000000000
#define TYPES_MAX    256

static void help(void)
{
	puts("Usage: smolder bpf [options]\n"
	     "       smolder bpf [options] PROGRAM\n"
	     "\n"
	     "Shows every BPF program in the kernel: runs a second, time of a run, share of a\n"
	     "CPU, memory of its maps, who has it open and where it is attached. On a terminal\n"
	     "it is a screen that is drawn anew each second, until q or Ctrl-C. The kernel\n"
	     "counts and times runs only while this goes on. Needs CAP_SYS_ADMIN.\n"
	     "\n"
	     "PROGRAM is an id, a name or a tag: what it costs, how long its runs take, and which\n"
	     "source lines, helpers and maps the time goes to.\n"
	     "\n"
	     "Which:\n"
	     "  --name TEXT       only programs with this in their names\n"
	     "  --type TYPE       only programs of this type (kprobe, xdp)\n"
	     "  --id ID[,ID]      only these\n"
	     "  -p PID[,PID]      only programs that these processes have open\n"
	     "How:\n"
	     "  -i SECONDS        how often (1)\n"
	     "  -n N              end after so many tables\n"
	     "  -d SECONDS        end after so long; for PROGRAM, how long to look at it (5)\n"
	     "  -F HZ             for PROGRAM: samples a second and CPU (1999)\n"
	     "  --each            for PROGRAM: then look once more, and time each run, for an "
	     "exact\n"
	     "                    histogram; makes each run some 100 ns longer meanwhile\n"
	     "Output:\n"
	     "  -s COLUMN         sort by cpu (default), avg, runs, time, maps, id or name\n"
	     "  -b, --batch       tables one after the other, not a screen; the default if\n"
	     "                    standard output is not a terminal\n"
	     "  --json            a line of JSON for each table\n"
	     "  -q, -v            print less, print more\n"
	     "  -h, --help        print this help");
}

enum { OPT_NAME = 256, OPT_TYPE, OPT_ID, OPT_EACH, OPT_JSON };

static const struct option long_options[] = {
	{"name", required_argument, NULL, OPT_NAME},
	{"type", required_argument, NULL, OPT_TYPE},
	{"id", required_argument, NULL, OPT_ID},
	{"each", no_argument, NULL, OPT_EACH},
	{"batch", no_argument, NULL, 'b'},
	{"json", no_argument, NULL, OPT_JSON},
	{"help", no_argument, NULL, 'h'},
	{},
};

struct bpf_args {
	struct bpf_view view;
	const char *program; /* NULL: all of them */
	uint64_t interval_ms, duration_ms, tables, frequency;
	bool batch, each, json, help;
};

struct session {
	struct bpf_args *args;
	struct loop *loop;
	struct bpf_programs *programs;
	struct bpf_uses uses;
	struct bpf_screen screen;
	uint64_t turns, read_ns;
	bool had_changed; /* programs had come or gone at the last reading */
	double seconds;   /* of the last interval */
	int error;
};

static bool parse_sort(const char *arg, enum bpf_order *ret)
{
	static const struct cli_word words[] = {
		{"cpu", BPF_ORDER_CPU},   {"avg", BPF_ORDER_AVERAGE},
		{"runs", BPF_ORDER_RUNS}, {"time", BPF_ORDER_TIME},
		{"maps", BPF_ORDER_MAPS}, {"id", BPF_ORDER_ID},
		{"name", BPF_ORDER_NAME}, {}};
	int order;

	if (!cli_word("-s", arg, words, &order))
		return false;
	*ret = (enum bpf_order)order;
	return true;
}

static bool parse_interval(const char *arg, uint64_t *ret)
{
	if (!cli_seconds("bpf", arg, ret))
		return false;
	if (*ret < INTERVAL_MIN)
		log_error("-i takes 0.1 seconds or more, not '%s'", arg);
	return *ret >= INTERVAL_MIN;
}

/* By the library's names; a type that it has no name for is "type 99". */
static bool parse_type(const char *arg, const char **ret)
{
	char room[16];

	for (uint32_t type = 0; type < TYPES_MAX; type++) {
		if (strcmp(bpf_program_type(type, room), arg) == 0) {
			*ret = arg;
			return true;
		}
	}
	log_error("--type: there is no type of BPF programs called '%s'; some are kprobe, "
		  "tracepoint, raw_tracepoint, perf_event, tracing, xdp and sched_cls",
		  arg);
	return false;
}

static bool parse_option(struct bpf_args *a, int c)
{
	switch (c) {
	case OPT_NAME:
		a->view.name = optarg;
		return true;
	case OPT_TYPE:
		return parse_type(optarg, &a->view.type);
	case OPT_ID:
		return target_ids("--id", optarg, a->view.ids, &a->view.id_count);
	case 'p':
		return target_ids("-p", optarg, a->view.pids, &a->view.pid_count);
	case 'i':
		return parse_interval(optarg, &a->interval_ms);
	case 'n':
		return cli_number("-n", optarg, 1, COUNT_MAX, &a->tables);
	case 'd':
		return cli_seconds("bpf", optarg, &a->duration_ms);
	case 'F':
		return cli_number("-F", optarg, 1, 20000, &a->frequency);
	case 's':
		return parse_sort(optarg, &a->view.order);
	case OPT_EACH:
		a->each = true;
		return true;
	case 'b':
		a->batch = true;
		return true;
	case OPT_JSON:
		a->json = true;
		return true;
	default:
		return cli_takes(c, &a->help); /* else getopt has said why */
	}
}

/* NULL: nothing excludes each other. */
static const char *conflict(const struct bpf_args *a)
{
	const struct bpf_view *v = &a->view;

	if (!a->program && (a->each || a->frequency))
		return "-F and --each are for a look at one program: name it";
	if (a->program &&
	    (a->interval_ms || a->tables || v->name || v->type || v->id_count || v->pid_count))
		return "-i, -n, -p, --name, --type and --id are for the table of all programs, not "
		       "for a look at one";
	return NULL;
}

static bool parse(int argc, char **argv, struct bpf_args *a)
{
	int c;

	while ((c = getopt_long(argc, argv, "p:i:n:d:F:s:bqvh", long_options, NULL)) != -1) {
		if (!parse_option(a, c))
			return false;
		if (a->help)
			return true;
	}
	if (optind < argc)
		a->program = argv[optind++];
	if (optind < argc) {
		log_error("one program at a time: '%s' is one too many; --id takes several",
			  argv[optind]);
		return false;
	}
	const char *why = conflict(a);
	if (why)
		log_error("%s", why);
	return !why;
}

/* ---- all of them ---------------------------------------------------------------------------- */

static void end(struct session *s, int err)
{
	s->error = s->error ? s->error : err;
	loop_stop(s->loop);
}

static int read_all(struct session *s)
{
	uint64_t now = clock_ns(CLOCK_MONOTONIC);
	int err = bpf_programs_read(s->programs);

	s->seconds = s->read_ns ? (double)(now - s->read_ns) / 1e9 : 0;
	s->read_ns = now;
	/* Once more after those that were new: they may have been attached only since. */
	bool changed = bpf_programs_changed(s->programs);
	if (!err && (changed || s->had_changed || s->turns % USES_EVERY == 0))
		bpf_uses_read(&s->uses);
	s->had_changed = changed;
	s->turns++;
	return err;
}

static void draw(struct session *s)
{
	CLEANUP(freep) char *text = NULL;
	size_t len;
	FILE *f = open_memstream(&text, &len);

	if (!f)
		return;
	bpf_screen_size(&s->args->view.columns, &s->args->view.lines);
	bpf_table_text(&s->args->view, s->programs, &s->uses, f);
	fclose(f);
	if (!bpf_screen_show(text, len))
		loop_stop(s->loop);
}

static void show(struct session *s)
{
	struct bpf_args *a = s->args;

	if (s->screen.is_open) {
		draw(s);
		return;
	}
	if (a->json)
		bpf_table_json(&a->view, s->programs, &s->uses, s->seconds, stdout);
	else
		bpf_table_text(&a->view, s->programs, &s->uses, stdout);
	if (fflush(stdout) != 0)
		loop_stop(s->loop); /* cli_printed() says why */
}

static void on_interval(void *ctx, int what)
{
	struct session *s = ctx;
	int err = read_all(s);

	(void)what;
	if (err) {
		end(s, err);
		return;
	}
	if (!s->args->json && !s->screen.is_open && s->turns > 2)
		putchar('\n');
	show(s);
	if (s->args->tables && s->turns > s->args->tables)
		loop_stop(s->loop);
}

static void on_end(void *ctx, int what)
{
	(void)what;
	end(ctx, 0);
}

static void on_resize(void *ctx, int what)
{
	(void)what;
	draw(ctx);
}

static void on_key(void *ctx, int fd)
{
	struct session *s = ctx;
	char key;
	ssize_t n = read(fd, &key, 1);

	if (n <= 0)
		loop_remove_fd(s->loop, fd);
	else if (key == 'q' || key == 'Q')
		loop_stop(s->loop);
	if (n <= 0 || key != 's')
		return;
	s->args->view.order = (enum bpf_order)((s->args->view.order + 1) % BPF_ORDERS);
	draw(s);
}

static int watch(struct session *s)
{
	struct bpf_args *a = s->args;

	s->loop = loop_new();
	int err = loop_end_signals(s->loop, 0, on_end, s);
	err = err ? err : loop_timer(s->loop, a->interval_ms, on_interval, s);
	if (a->duration_ms)
		err = err ? err
			  : loop_after(s->loop, a->duration_ms + a->interval_ms / 2, on_end, s);
	if (err || a->batch)
		return err;
	bpf_screen_open(&s->screen);
	err = loop_signal(s->loop, SIGWINCH, on_resize, s);
	if (s->screen.has_keys)
		err = err ? err : loop_fd(s->loop, STDIN_FILENO, on_key, s);
	return err;
}

static int run(struct session *s)
{
	int err = bpf_programs_new(&s->programs);

	err = err ? err : read_all(s);
	if (err) {
		bpf_detail_cannot(err);
		return 1;
	}
	err = watch(s);
	if (!err) {
		if (s->screen.is_open)
			draw(s);
		loop_run(s->loop);
	}
	bpf_screen_close(&s->screen);
	if (err)
		log_error("cannot wait for events: %s", strerror(-err));
	else if (s->error)
		bpf_detail_cannot(s->error);
	return err || s->error ? 1 : cli_printed();
}

static int watch_all(struct bpf_args *a)
{
	struct session s = {.args = a};

	a->interval_ms = a->interval_ms ? a->interval_ms : INTERVAL_MS;
	a->batch |= a->json || !isatty(STDOUT_FILENO);
	int code = run(&s);
	loop_free(s.loop);
	bpf_uses_done(&s.uses);
	bpf_programs_free(s.programs);
	return code;
}

int cmd_bpf(int argc, char **argv)
{
	struct bpf_args *a CLEANUP(freep) = mem_alloc(sizeof(*a));

	if (!parse(argc, argv, a))
		return cli_usage("bpf");
	if (a->help) {
		help();
		return 0;
	}
	if (!a->program)
		return watch_all(a);
	const struct bpf_detail_options o = {
		a->program, a->duration_ms ? a->duration_ms : DETAIL_MS,
		a->frequency ? a->frequency : FREQUENCY, a->each, a->json};
	return bpf_detail_run(&o);
}
