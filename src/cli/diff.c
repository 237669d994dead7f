#include <errno.h>
#include <math.h>
#include <string.h>

#include "base/log.h"
#include "base/mem.h"
#include "cli/cli.h"
#include "cli/profile_file.h"
#include "cli/query_options.h"
#include "cli/report.h"
#include "render/describe.h"

struct diff {
	struct query_options query; /* first */
	const char *base_from, *base_to;
	bool is_absolute;
};

static void help(void)
{
	puts("Usage: smolder diff [options] [SELECTOR]\n"
	     "       smolder diff [options] BASE-SELECTOR SELECTOR\n"
	     "       smolder diff [options] BASE-FILE FILE\n"
	     "\n"
	     "Compares two profiles: of one selector in two time ranges, of two selectors in the "
	     "same\n"
	     "range, or two files. The base is the older: by default, the range just before "
	     "--from.\n"
	     "What grew is red, what shrank is blue; new and vanished functions are included.\n"
	     "\n"
	     "      --from TIME       start of the newer range: 1h (ago), 14:02, 2026-11-15, …\n"
	     "                        (an hour before --to)\n"
	     "      --to TIME         its end (now)\n"
	     "      --base-from TIME  start of the base (as long before --from as --to is after "
	     "it)\n"
	     "      --base-to TIME    its end (--from, or an hour after --base-from)\n"
	     "      --normalise       scale the base to the same total: compare shares, not "
	     "amounts\n"
	     "      --absolute        do not scale; by default, the base is scaled to the length "
	     "of\n"
	     "                        the newer range");
	query_options_help();
	puts("  -h, --help            print this help\n"
	     "\n"
	     "Examples:\n"
	     "  smolder diff api --from now-1h --base-from now-25h --base-to now-24h\n"
	     "  smolder diff before.pb.gz after.pb.gz -o diff.svg");
}

enum { OPT_BASE_FROM = 256, OPT_BASE_TO, OPT_NORMALISE, OPT_ABSOLUTE };

#define SAME_LENGTH 0.01 /* ranges that differ by less are as long: windows do not end alike */

static const struct option long_options[] = {
	QUERY_OPTIONS,
	{"base-from", required_argument, NULL, OPT_BASE_FROM},
	{"base-to", required_argument, NULL, OPT_BASE_TO},
	{"normalise", no_argument, NULL, OPT_NORMALISE},
	{"absolute", no_argument, NULL, OPT_ABSOLUTE},
	{"normalize", no_argument, NULL, OPT_NORMALISE}, /* the other spelling is as good */
	{"help", no_argument, NULL, 'h'},
	{},
};

static bool both(const struct diff *d)
{
	if (d->is_absolute && d->query.out.options.tree.normalised)
		log_error("--normalise and --absolute exclude each other");
	return d->is_absolute && d->query.out.options.tree.normalised;
}

static bool option(struct query_options *o, int opt, const char *arg)
{
	struct diff *d = (struct diff *)o;

	switch (opt) {
	case OPT_BASE_FROM:
		d->base_from = arg;
		return true;
	case OPT_BASE_TO:
		d->base_to = arg;
		return true;
	case OPT_NORMALISE:
		d->query.out.options.tree.normalised = true;
		return !both(d);
	case OPT_ABSOLUTE:
		d->is_absolute = true;
		return !both(d);
	default: /* getopt has said it */
		return false;
	}
}

/* Empties a profile that lacks the function which the other one has. */
static void empty(struct profile **p)
{
	struct profile *none = profile_new();

	none->info = (*p)->info;
	none->info.type = profile_keep(none, (*p)->info.type);
	none->info.unit = profile_keep(none, (*p)->info.unit);
	profile_free(*p);
	*p = none;
}

/* An hour is more than ten minutes of the same: where lengths are known and differ, what a second
 * had is compared, and that is said. */
static void scale_base(struct diff *d, const struct profile *base, const struct profile *p)
{
	struct tree_options *o = &d->query.out.options.tree;
	double length = (double)p->info.duration_ns, base_length = (double)base->info.duration_ns;
	char is[DESCRIBE_MAX], was[DESCRIBE_MAX];

	if (!base->sample_count || !p->sample_count || d->is_absolute || o->normalised ||
	    length <= 0 || base_length <= 0 ||
	    fabs(length - base_length) <= SAME_LENGTH * MAX(length, base_length))
		return;
	o->base_scale = length / base_length;
	log_info("the base covers %s and the other %s, so the base is scaled by %.4g (--absolute: "
		 "not scaled)",
		 describe_amount(base->info.duration_ns, "nanoseconds", was),
		 describe_amount(p->info.duration_ns, "nanoseconds", is), o->base_scale);
}

/* Cuts both to a function, if one is named, and writes them. */
static int write_both(struct diff *d, const struct renderer *r, struct profile **base,
		      struct profile **p)
{
	bool in_base = query_options_cut(base, &d->query), in_p = query_options_cut(p, &d->query);

	if (!in_base && !in_p) {
		query_options_no_function(*p, &d->query);
		return 1;
	}
	if (!in_base)
		empty(base);
	if (!in_p)
		empty(p);
	scale_base(d, *base, *p);
	d->query.out.options.tree.base = *base;
	return query_options_write(*p, r, &d->query.out, "diff");
}

static int of_files(struct diff *d, char **files, const struct renderer *r)
{
	CLEANUP(profile_freep) struct profile *base = profile_new();
	CLEANUP(profile_freep) struct profile *p = profile_new();

	if (profile_file_read(files[0], NULL, base) || profile_file_read(files[1], NULL, p))
		return 1;
	if (strcmp(base->info.unit, p->info.unit) != 0) {
		log_error("%s counts %s but %s counts %s, so they cannot be compared", files[0],
			  base->info.unit, files[1], p->info.unit);
		return 1;
	}
	CLEANUP(freep) char *subject = mem_printf("%s against %s", files[1], files[0]);
	d->query.out.options.subject = subject;
	return write_both(d, r, &base, &p);
}

/* Both ranges: the base's is the time before, or the same where another selector is compared. */
static bool ranges(const struct diff *d, bool two_selectors, struct timerange *base,
		   struct timerange *range)
{
	if (!query_options_range(d->query.from, d->query.to, range))
		return false;
	if (d->base_from || d->base_to) {
		uint64_t hour = 3600000, length = range->to_ms - range->from_ms;
		if (!query_options_range(d->base_from, d->base_to, base))
			return false;
		/* One end tells the other: as long as the newer. */
		if (!d->base_to)
			base->to_ms = base->from_ms + length;
		else if (!d->base_from)
			base->from_ms = base->to_ms - (length < base->to_ms ? length : hour);
		return true;
	}
	*base = *range;
	if (!two_selectors) {
		/* A range takes in the window that it begins in: the base ends before that. */
		uint64_t length = range->to_ms - range->from_ms;
		base->to_ms = range->from_ms / WINDOW_MS * WINDOW_MS;
		base->from_ms = base->to_ms - MIN(length / WINDOW_MS * WINDOW_MS, base->to_ms);
		if (base->from_ms == base->to_ms)
			base->from_ms -= MIN((uint64_t)WINDOW_MS, base->from_ms);
	}
	return true;
}

static int of_store(struct diff *d, char **selectors, int count, const struct renderer *r)
{
	CLEANUP(profile_freep) struct profile *base = profile_new();
	CLEANUP(profile_freep) struct profile *p = profile_new();
	struct query_request ask = {.selector = count ? selectors[count - 1] : NULL};
	struct query_request base_ask = {.selector = count ? selectors[0] : NULL};
	struct store_answer answer, base_answer;

	if (!query_client_check(base_ask.selector) || !query_client_check(ask.selector) ||
	    !ranges(d, count == 2, &base_ask.range, &ask.range))
		return cli_usage("diff");
	CLEANUP(query_client_closep) struct query_client *c = query_client_open(&d->query.client);
	if (!c)
		return 1;
	query_options_labels(&d->query, &ask);
	query_options_labels(&d->query, &base_ask);
	int code = query_client_profile(c, &base_ask, base, &base_answer);
	if (!code)
		code = query_client_profile(c, &ask, p, &answer);
	if (code)
		return code;
	if (!answer.samples && !base_answer.samples)
		return query_options_explain_empty(c, &ask, &answer);
	/* That a process was not there is an answer; that nobody looked is none. */
	if (!answer.samples || !base_answer.samples)
		query_options_warn_empty(c, answer.samples ? &base_ask : &ask);
	if (!answer.samples) { /* the unit is that of what there is */
		p->info.type = profile_keep(p, base->info.type);
		p->info.unit = profile_keep(p, base->info.unit);
	}
	CLEANUP(freep) char *subject = query_client_subject(c, &ask, base_ask.selector);
	d->query.out.options.subject = subject;
	code = write_both(d, r, &base, &p);
	if (!code) {
		report_answer(base, &base_answer, "base ");
		report_answer(p, &answer, "     ");
	}
	return code;
}

int cmd_diff(int argc, char **argv)
{
	static const struct query_command command = {"diff", long_options, help, option};
	struct diff d = {};
	const struct renderer *r;

	int code = query_options_parse(&d.query, &command, argc, argv, &r);
	if (code >= 0)
		return code;
	argv += optind;
	argc -= optind;
	bool files = argc && profile_file_exists(argv[0]);
	if (argc > 2 || (files && argc != 2)) {
		log_error("give two files, or one or two selectors");
		return cli_usage("diff");
	}
	return files ? of_files(&d, argv, r) : of_store(&d, argv, argc, r);
}
