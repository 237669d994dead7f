#include <string.h>

#include "base/log.h"
#include "base/mem.h"
#include "cli/cli.h"
#include "cli/shown.h"

static void help(void)
{
	puts("Usage: smolder query [options] [SELECTOR | FILE...]\n"
	     "\n"
	     "Shows what was stored: of all processes, or of those that SELECTOR names, such as\n"
	     "'cpu{comm=\"nginx\", pid!=\"1\", unit=~\"web.*\"}', or just nginx: a word that is "
	     "no\n"
	     "profile type is a process. FILEs are read instead of the store if given: anything "
	     "that\n"
	     "'smolder flame' reads. Needs no privileges but those of the store.\n"
	     "\n"
	     "      --from TIME       5m (so long ago), 14:02, 'yesterday 14:02', 2026-11-15, RFC "
	     "3339,\n"
	     "                        now-1h+5m, or seconds\n"
	     "                        since 1970 (an hour before --to)\n"
	     "      --to TIME         the same (now)");
	shown_help();
	puts("  -h, --help            this\n"
	     "\n"
	     "Examples:\n"
	     "  smolder query nginx\n"
	     "  smolder query 'cpu{comm=\"nginx\"}' --from now-1h -o out.svg\n"
	     "  smolder query cpu --from 14:02 --to 14:05");
}

static const struct option long_options[] = {
	SHOWN_OPTIONS,
	{"help", no_argument, NULL, 'h'},
	{},
};

DEFINE_CLEANUP(struct profile *, profile_free)
DEFINE_CLEANUP(struct source *, source_close)

static int of_files(struct shown *q, char **files, int count, const struct renderer *r)
{
	CLEANUP(profile_freep) struct profile *p = profile_new();

	for (int i = 0; i < count; i++)
		if (source_file(files[i], p))
			return 1;
	if (!shown_cut(&p, q)) {
		shown_no_function(p, q);
		return 1;
	}
	q->out.options.subject = source_file_name(files[0]);
	return shown_write(p, r, &q->out, "query");
}

static int of_store(struct shown *q, const char *selector, const struct renderer *r)
{
	CLEANUP(profile_freep) struct profile *p = profile_new();
	struct source_question ask = {.selector = selector};
	struct store_answer answer;

	if (!source_selector(selector) || !shown_range(q->from, q->to, &ask.range))
		return cli_usage("query");
	CLEANUP(source_closep) struct source *s = source_open(&q->source);
	if (!s)
		return 1;
	shown_keep(q, &ask);
	int code = source_profile(s, &ask, p, &answer);
	if (code)
		return code;
	if (!answer.samples)
		return shown_nothing(s, &ask, &answer);
	if (!shown_cut(&p, q)) {
		shown_no_function(p, q);
		return 1;
	}
	CLEANUP(freep) char *subject = source_subject(s, &ask);
	q->out.options.subject = subject;
	code = shown_write(p, r, &q->out, "query");
	if (!code)
		source_report(p, &answer, "");
	return code;
}

int cmd_query(int argc, char **argv)
{
	static const struct shown_command command = {"query", long_options, help, NULL};
	struct shown q = {};
	const struct renderer *r;

	int code = shown_parse(&q, &command, argc, argv, &r);
	if (code >= 0)
		return code;
	argv += optind;
	argc -= optind;
	if (argc && source_is_file(argv[0])) {
		if (q.from || q.to) {
			log_error("%s is a file: --from and --to are of the store", argv[0]);
			return cli_usage("query");
		}
		return of_files(&q, argv, argc, r);
	}
	if (argc > 1) {
		log_error("one selector is enough; quote it: 'cpu{comm=\"nginx\"}'");
		return cli_usage("query");
	}
	return of_store(&q, argc ? argv[0] : NULL, r);
}
