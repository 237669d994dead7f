#include "cli/bcc_options.h"

#include "base/log.h"
#include "cli/cli.h"

#define SECONDS_MAX 99999999

static bool set_ids(int option, uint32_t *list, unsigned *count)
{
	const char name[] = {'-', (char)option, '\0'};

	return target_ids(name, optarg, list, count);
}

static bool set_option(const struct bcc_command *c, struct bcc_args *a, int option)
{
	struct recording_options *r = &a->recording;
	uint64_t n;

	if (option == c->threads)
		return set_ids(option, r->target.tids, &r->target.tid_count);
	switch (option) {
	case 'p':
		return set_ids(option, r->target.pids, &r->target.pid_count);
	case 'U':
		r->sampler.filter.no_kernel = true;
		return true;
	case 'K':
		r->sampler.filter.no_user = true;
		return true;
	case 'd':
		a->render.tree.delimited = true;
		return true;
	case 'f':
		a->folded = true;
		return true;
	case BCC_STORAGE:
		return cli_number("--stack-storage-size", optarg, 1, UINT32_MAX, &n);
	case 'h':
		a->help = true;
		return true;
	default:
		/* If it is '?', getopt has said why. */
		return option != '?' && c->set(c->ctx, option);
	}
}

bool bcc_parse(const struct bcc_command *c, int argc, char **argv, struct bcc_args *a)
{
	struct recording_options *r = &a->recording;
	int option;

	while ((option = getopt_long(argc, argv, c->options, c->long_options, NULL)) != -1)
		if (!set_option(c, a, option))
			return false;
	if (a->help)
		return true;
	if (optind < argc) {
		uint64_t seconds;
		if (!cli_number("the duration", argv[optind++], 1, SECONDS_MAX, &seconds))
			return false;
		r->duration_ms = seconds * 1000;
	}
	const char *why = c->conflict(c->ctx);
	if (optind < argc)
		why = "there is one argument too many";
	else if (r->sampler.filter.no_kernel && r->sampler.filter.no_user)
		why = "-U and -K exclude each other";
	if (why)
		log_error("%s", why);
	return !why;
}

void bcc_print_ids(const struct bcc_args *a)
{
	const struct target_options *t = &a->recording.target;
	const uint32_t *ids = t->pid_count ? t->pids : t->tids;

	for (unsigned i = 0; i < (t->pid_count ? t->pid_count : t->tid_count); i++)
		printf("%s%u", i ? ", " : "", ids[i]);
}

const char *bcc_stacks(const struct bcc_args *a)
{
	const struct wire_filter *f = &a->recording.sampler.filter;

	return f->no_kernel ? "user" : f->no_user ? "kernel" : "user + kernel";
}

void bcc_print_duration(const struct bcc_args *a)
{
	if (a->recording.duration_ms)
		printf(" for %llu secs.\n", (unsigned long long)a->recording.duration_ms / 1000);
	else
		puts("... Hit Ctrl-C to end.");
	fflush(stdout);
}

int bcc_record(struct bcc_args *a, const char *unit, const char *what)
{
	struct recording_result result;
	struct cli_output out = {.options = a->render};
	int code = recording_run(&a->recording, &result);

	if (code)
		return code;
	if (!a->folded)
		putchar('\n');
	if (unit)
		result.profile->info.unit = unit;
	code = cli_write(result.profile, render_by_name(a->folded ? "folded" : "text"), &out, "-");
	if (code == 0 && result.lost)
		log_warn("%llu %s were lost", (unsigned long long)result.lost, what);
	profile_free(result.profile);
	return code;
}
