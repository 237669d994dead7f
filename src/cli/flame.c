#include <errno.h>
#include <string.h>

#include "base/file.h"
#include "base/log.h"
#include "base/mem.h"
#include "cli/cli.h"
#include "cli/output_options.h"
#include "cli/profile_file.h"
#include "ingest/ingest.h"

struct flame {
	struct cli_output out;
	struct ingest_options in;
	char **files; /* borrowed from argv; none: standard input */
	int file_count;
};

static void help(void)
{
	puts("Usage: smolder flame [options] [FILE|-]...\n"
	     "\n"
	     "Converts profiles of other tools to a flame graph or any other format. Reads folded\n"
	     "stacks, pprof and the output of 'perf script', also with gzip; several files are "
	     "added\n"
	     "up. Without FILE it reads standard input. Needs no privileges.\n"
	     "\n"
	     "  -o, --output FILE|-   output file; its extension selects the format. By default "
	     "SVG,\n"
	     "                        to standard output, or if that is a terminal, to a file "
	     "here\n"
	     "                        named after the first FILE (prof.folded: prof.svg)\n"
	     "  -f, --format FORMAT   one of the formats below\n"
	     "      --from FORMAT     read as folded, pprof or perf, instead of guessing\n"
	     "      --sample-type T   pprof: the sample type to show (inuse_space); perf: the "
	     "event\n"
	     "      --threads         a frame for each thread, above that of its process");
	output_options_help();
	puts("  -h, --help            print this help\n"
	     "\n"
	     "Formats:");
	for (const struct renderer *r = renderers; r->name; r++)
		printf("  %-10s %s\n", r->name, r->help);
	puts("\n"
	     "Examples:\n"
	     "  perf script | smolder flame -o perf.svg\n"
	     "  smolder flame stacks.folded -o stacks.pb.gz");
}

enum { OPT_FROM = 256, OPT_SAMPLE_TYPE, OPT_THREADS };

static const struct option long_options[] = {
	OUTPUT_OPTIONS,
	{"from", required_argument, NULL, OPT_FROM},
	{"sample-type", required_argument, NULL, OPT_SAMPLE_TYPE},
	{"threads", no_argument, NULL, OPT_THREADS},
	{"help", no_argument, NULL, 'h'},
	{},
};

static bool option(struct flame *f, int opt, const char *arg)
{
	if (output_options_owns(opt))
		return output_options_set(&f->out, opt, arg);
	switch (opt) {
	case OPT_FROM:
		if (ingest_format_by_name(arg, &f->in.format))
			return true;
		log_error("--from takes folded, pprof or perf, not '%s'", arg);
		return false;
	case OPT_SAMPLE_TYPE:
		f->in.sample_type = arg;
		return true;
	case OPT_THREADS:
		f->out.options.tree.by_thread = true;
		return true;
	default: /* getopt has said it */
		return false;
	}
}

static bool read_all(const struct flame *f, struct profile *p)
{
	if (f->file_count == 0)
		return profile_file_read("-", &f->in, p) == 0;
	for (int i = 0; i < f->file_count; i++)
		if (profile_file_read(f->files[i], &f->in, p) != 0)
			return false;
	return true;
}

/* The first FILE's name without its folder and extension. */
static char *own_name(const struct flame *f)
{
	const char *in = f->file_count && strcmp(f->files[0], "-") ? f->files[0] : "flame";
	const char *slash = strrchr(in, '/');
	const char *base = slash ? slash + 1 : in;
	size_t len = strlen(base);

	if (len > 3 && strcmp(base + len - 3, ".gz") == 0)
		len -= 3;
	const char *dot = memrchr(base, '.', len);
	if (dot && dot > base)
		len = (size_t)(dot - base);
	return mem_strndup(base, len);
}

static int write_profile(const struct flame *f, const struct renderer *r, const struct profile *p)
{
	CLEANUP(freep) char *name = own_name(f);
	CLEANUP(freep) char *path = cli_path(&f->out, r, name, false);

	for (int i = 0; i < f->file_count && !f->out.path; i++)
		if (strcmp(path, "-") != 0 && strcmp(f->files[i], path) == 0) {
			log_error("not overwriting %s, which is an input file; name the output "
				  "with -o",
				  path);
			return 1;
		}
	int err = cli_write(p, r, &f->out, path);
	if (!err && !f->out.path && strcmp(path, "-") != 0)
		log_info("wrote %s", path);
	return err;
}

int cmd_flame(int argc, char **argv)
{
	struct flame f = {.out.options.tree = {.column = TREE_VALUE, .by_comm = true}};
	int opt;

	while ((opt = getopt_long(argc, argv, OUTPUT_SHORT "h", long_options, NULL)) != -1) {
		if (opt == 'h') {
			help();
			return 0;
		}
		if (!option(&f, opt, optarg))
			return cli_usage("flame");
	}
	f.files = argv + optind;
	f.file_count = argc - optind;

	const struct renderer *r = cli_renderer(&f.out, "svg");
	if (!r)
		return cli_usage("flame");
	if (f.file_count == 0 && isatty(STDIN_FILENO)) {
		log_error(
			"give a FILE, or pipe stacks in: perf script | smolder flame -o perf.svg");
		return cli_usage("flame");
	}

	CLEANUP(profile_freep) struct profile *p = profile_new();
	if (!read_all(&f, p))
		return 1;
	if (p->sample_count == 0) {
		log_error("there are no samples in %s",
			  f.file_count == 1 ? f.files[0] : "the input");
		return 1;
	}
	if (p->info.capped)
		log_warn("%llu samples have a shortened stack, because there are more than %u "
			 "different stacks",
			 (unsigned long long)p->info.capped, INGEST_STACKS_MAX);
	if (p->info.truncated)
		log_warn("%llu samples had more than %u frames and were truncated",
			 (unsigned long long)p->info.truncated, INGEST_DEPTH_MAX);
	f.out.options.counted = !f.in.sample_type; /* a type that was asked for is what is shown */
	f.out.options.subject = f.file_count ? profile_file_name(f.files[0]) : NULL;
	return write_profile(&f, r, p);
}
