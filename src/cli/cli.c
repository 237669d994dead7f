#include "cli/cli.h"

#include <errno.h>
#include <signal.h>
#include <string.h>
#include <sys/stat.h>

#include "base/file.h"
#include "base/log.h"
#include "base/mem.h"
#include "collect/probe.h"

static void say_formats(const char *what, const char *arg)
{
	char known[256] = "";

	for (const struct renderer *r = renderers; r->name; r++) {
		size_t n = strlen(known);
		snprintf(known + n, sizeof(known) - n, "%s%s", n ? ", " : "", r->name);
	}
	log_error("%s '%s' is not known; use -f with one of %s", what, arg, known);
}

const struct renderer *cli_renderer(const struct cli_output *o, const char *fallback)
{
	const struct renderer *r = NULL;

	if (o->format) {
		r = render_by_name(o->format);
		if (!r)
			say_formats("the format", o->format);
	} else if (o->path && strcmp(o->path, "-") != 0) {
		r = render_by_path(o->path);
		if (!r)
			say_formats("the extension of", o->path);
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

int cli_write(const struct profile *p, const struct renderer *r, const struct cli_output *o,
	      const char *path)
{
	struct file_out out;

	if (!path)
		path = "-";
	int err = file_out_open(&out, path);
	if (!err) {
		err = r->render(p, &o->options, out.f);
		if (err)
			file_out_abort(&out);
		else
			err = file_out_commit(&out);
	}
	if (err == -EOPNOTSUPP && o->options.tree.base)
		log_error("the format %s has no way to show a difference; svg, html, top, text, "
			  "folded, json and tree do%s",
			  r->name,
			  strcmp(r->name, "pprof") == 0 ? " (and 'go tool pprof -diff_base' itself)"
							: "");
	else if (err)
		say_unwritable(path, err);
	return err ? 1 : 0;
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

int cli_usage(const char *command)
{
	fprintf(stderr, "Try 'smolder %s --help'.\n", command);
	return EXIT_USAGE;
}

void cli_cannot_sample(int err, const struct sampler_error *why, const char *event)
{
	bool is_event = strcmp(why->doing, SAMPLER_OPENING_EVENT) == 0;
	char text[1024];

	if (is_event && (err == -EINVAL || err == -ENOENT || err == -EOPNOTSUPP)) {
		log_error("cannot %s '%s': %s", why->doing, event,
			  err == -EINVAL
				  ? "the kernel does not take this rate or period"
				  : "this machine does not have it; cpu-clock works everywhere");
		return;
	}
	probe_explain(err, text, sizeof(text));
	log_error("cannot %s: %s", why->doing, text);
	if (why->detail[0])
		log_debug("%s", why->detail);
}

char *cli_cache_dir(void)
{
	const char *home = getenv("HOME"), *cache = getenv("XDG_CACHE_HOME");

	if (geteuid() == 0)
		return mem_strdup("/var/cache/smolder");
	if (cache && cache[0] == '/')
		return mem_printf("%s/smolder", cache);
	return home && home[0] == '/' ? mem_printf("%s/.cache/smolder", home) : NULL;
}

bool cli_ignored(int signo)
{
	struct sigaction a;

	return sigaction(signo, NULL, &a) == 0 && a.sa_handler == SIG_IGN;
}

int cli_end_signals(struct loop *l, int only, loop_fn *fn, void *ctx)
{
	if (only)
		return loop_signal(l, only, fn, ctx);
	int err = loop_signal(l, SIGTERM, fn, ctx);
	err = err ? err : loop_signal(l, SIGINT, fn, ctx);
	if (!err && !cli_ignored(SIGHUP))
		err = loop_signal(l, SIGHUP, fn, ctx);
	return err;
}
