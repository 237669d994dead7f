#include "cli/cli.h"

#include <errno.h>
#include <signal.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <time.h>

#include "base/clock.h"
#include "base/duration.h"
#include "base/file.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/nearest.h"
#include "collect/probe.h"

#define SECONDS_MAX (366 * 24 * 3600ull)

static void say_formats(const char *what, const char *arg)
{
	const char *names[32] = {};
	char known[256] = "";
	size_t count = 0;

	for (const struct renderer *r = renderers; r->name; r++) {
		size_t n = strlen(known);
		snprintf(known + n, sizeof(known) - n, "%s%s", n ? ", " : "", r->name);
		if (count + 1 < ARRAY_SIZE(names))
			names[count++] = r->name;
	}
	const char *meant = nearest_word(arg, names);
	log_error("unknown %s '%s'%s%s%s; use -f with one of %s", what, arg,
		  meant ? " (did you mean " : "", meant ? meant : "", meant ? "?)" : "", known);
}

const struct renderer *cli_renderer(const struct cli_output *o, const char *fallback)
{
	const struct renderer *r = NULL;

	if (o->format) {
		r = render_by_name(o->format);
		if (!r)
			say_formats("format", o->format);
	} else if (o->path && strcmp(o->path, "-") != 0) {
		r = render_by_path(o->path);
		if (!r)
			say_formats("extension of", o->path);
	} else {
		r = render_by_name(fallback);
	}
	return r;
}

static void say_unwritable(const char *path, int err)
{
	log_error("cannot write %s: %s", strcmp(path, "-") ? path : "standard output",
		  strerror(-err));
}

bool cli_writable(const char *path)
{
	struct file_out out;
	struct stat st;

	/* A pipe may have no reader yet, and stdout is there already. */
	if (strcmp(path, "-") == 0 || (stat(path, &st) == 0 && !S_ISREG(st.st_mode)))
		return true;
	int err = file_out_open(&out, path);
	if (err)
		say_unwritable(path, err);
	else
		file_out_abort(&out);
	return !err;
}

static bool is_for_reading(const struct renderer *r)
{
	static const char *const formats[] = {"folded", "text", "top", "tree"};

	for (size_t i = 0; i < ARRAY_SIZE(formats); i++)
		if (strcmp(r->name, formats[i]) == 0)
			return true;
	return false;
}

char *cli_path(const struct cli_output *o, const struct renderer *r, const char *name, bool shared)
{
	if (o->path)
		return mem_strdup(o->path);
	if (is_for_reading(r) || (!shared && !isatty(STDOUT_FILENO)))
		return mem_strdup("-");
	return mem_printf("%s.%.*s", name, (int)strcspn(r->extensions, ","), r->extensions);
}

char *cli_file_name(const char *of)
{
	time_t now = time(NULL);
	struct tm utc;
	char stamp[32];

	strftime(stamp, sizeof(stamp), "%Y%m%dT%H%M%SZ", gmtime_r(&now, &utc));
	char *name = mem_printf("smolder-%.64s-%s", of, stamp);
	for (char *c = name; *c; c++)
		if (!strchr("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-",
			    *c))
			*c = '_';
	return name;
}

unsigned cli_terminal_columns(void)
{
	struct winsize size;

	return isatty(STDOUT_FILENO) && ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 ? size.ws_col
										     : 0;
}

/* While it has no name: nothing else can stand in its place. */
static void give_to_invoker(FILE *f)
{
	const char *uid = getenv("SUDO_UID"), *gid = getenv("SUDO_GID");

	if (geteuid() == 0 && uid && gid &&
	    fchown(fileno(f), (uid_t)strtoul(uid, NULL, 10), (gid_t)strtoul(gid, NULL, 10)) != 0)
		log_warn("cannot make the user who called sudo the owner of the file: %s",
			 strerror(errno));
}

int cli_write(const struct profile *p, const struct renderer *r, const struct cli_output *o,
	      const char *path)
{
	CLEANUP(freep) char *cache = cli_cache_dir();
	CLEANUP(packages_freep) struct packages *packages = packages_new(cache);
	struct render_options render = o->options;
	struct file_out out;

	render.help.packages = packages;

	if (strcmp(path, "-") == 0)
		render.terminal_columns = cli_terminal_columns();
	int err = file_out_open(&out, path);
	if (!err) {
		if (o->to_invoker && out.path)
			give_to_invoker(out.f);
		err = r->render(p, &render, out.f);
		if (err)
			file_out_abort(&out);
		else
			err = file_out_commit(&out);
	}
	if (err == -EPIPE)
		return 0;
	if (err == -EOPNOTSUPP && o->options.tree.base)
		log_error("the format %s cannot show a difference; svg, html, top, tree, text, "
			  "folded, json and columns can%s",
			  r->name,
			  strcmp(r->name, "pprof") == 0
				  ? " (for pprof, use 'go tool pprof -diff_base')"
				  : "");
	else if (err == -ENODATA)
		log_error(
			"the format %s needs CPU time with lines of functions, which this profile "
			"does not have: keep those of the program with --lines (run, agent and "
			"record), or store the CPU profiles that it makes of itself",
			r->name);
	else if (err)
		say_unwritable(path, err);
	return err ? 1 : 0;
}

int cli_printed(void)
{
	struct file_out out = {.f = stdout};
	int err = file_out_commit(&out);

	if (!err || err == -EPIPE)
		return 0;
	say_unwritable("-", err);
	return 1;
}

FILE *cli_open_lines(const char *path, const char *mode, FILE *usual)
{
	if (!path)
		return usual;
	if (strcmp(path, "-") == 0)
		return stdout;
	FILE *f = fopen(path, mode);
	if (!f)
		say_unwritable(path, -errno);
	return f;
}

int cli_close_lines(FILE *f, const char *path)
{
	const char *name = f == stdout ? "-" : path;
	struct file_out out = {.f = f};

	if (f == stderr) { /* who cannot write there cannot be told so */
		fflush(f);
		return 0;
	}
	int err = file_out_commit(&out);
	if (!err || err == -EPIPE)
		return 0;
	say_unwritable(name, err);
	return 1;
}

void cli_progress(const char *doing, uint64_t began_ns, uint64_t until_ns)
{
	uint64_t now = clock_ns(CLOCK_MONOTONIC);

	if (until_ns)
		log_progress("%s: %.0f s left", doing,
			     until_ns > now ? (double)(until_ns - now) / 1e9 : 0.0);
	else
		log_progress("%s for %.0f s: Ctrl-C to stop", doing,
			     (double)(now - began_ns) / 1e9);
}

bool cli_number(const char *option, const char *arg, uint64_t min, uint64_t max, uint64_t *ret)
{
	char *end;

	errno = 0;
	unsigned long long n = strtoull(arg, &end, 10);
	if (errno || end == arg || *end || *arg == '-' || n < min || n > max) {
		log_error("%s takes a whole number from %llu to %llu, not '%s'", option,
			  (unsigned long long)min, (unsigned long long)max, arg);
		return false;
	}
	*ret = n;
	return true;
}

bool cli_word(const char *option, const char *arg, const struct cli_word *words, int *ret)
{
	const char *names[16] = {};
	char known[128] = "";

	for (size_t i = 0; words[i].name; i++) {
		size_t n = strlen(known);
		if (strcmp(words[i].name, arg) == 0) {
			*ret = words[i].value;
			return true;
		}
		names[i] = words[i].name;
		snprintf(known + n, sizeof(known) - n, "%s%s", n ? ", " : "", words[i].name);
	}
	const char *meant = nearest_word(arg, names);
	log_error("%s takes one of %s, not '%s'%s%s%s", option, known, arg,
		  meant ? "; did you mean " : "", meant ? meant : "", meant ? "?" : "");
	return false;
}

bool cli_seconds(const char *command, const char *arg, uint64_t *ret_ms)
{
	uint64_t ms;

	if (duration_parse_ms(arg, DURATION_S, &ms) != 0 || !ms || ms > SECONDS_MAX * 1000) {
		if (!strchr("0123456789.-", *arg))
			log_error("a duration is a number of seconds such as 5 or 0.5, not '%s'; "
				  "to start a program, put it after --: smolder %s -- %s",
				  arg, command, arg);
		else
			log_error("a duration is a number of seconds such as 5 or 0.5, or 2m, not "
				  "'%s'",
				  arg);
		return false;
	}
	*ret_ms = ms;
	return true;
}

bool cli_plain_seconds(const char *command, int argc, char **argv, uint64_t *ret_ms)
{
	if (optind < argc && !cli_seconds(command, argv[optind++], ret_ms))
		return false;
	if (optind < argc)
		log_error("unexpected argument '%s'; to start a program, put it after --",
			  argv[optind]);
	return optind >= argc;
}

bool cli_takes(int option, bool *ret_help)
{
	if (option == 'q')
		log_level = LOG_QUIET;
	else if (option == 'v')
		log_level = LOG_VERBOSE;
	else if (option == 'h')
		*ret_help = true;
	else
		return false;
	return true;
}

int cli_usage(const char *command)
{
	fprintf(stderr, "Try 'smolder %s --help'.\n", command);
	return EXIT_USAGE;
}

char *cli_cache_dir(void)
{
	const char *home = getenv("HOME"), *cache = getenv("XDG_CACHE_HOME");

	if (geteuid() == 0)
		return mem_strdup("/var/cache/smolder");
	if (cache && cache[0] == '/')
		return mem_printf("%s/smolder", cache);
	if (!home || home[0] != '/')
		return NULL;
	/* A new user may have none; if it cannot be made, whoever needs it says so. */
	CLEANUP(freep) char *parent = mem_printf("%s/.cache", home);
	mkdir(parent, 0700);
	return mem_printf("%s/smolder", parent);
}
