#include <errno.h>
#include <fcntl.h>
#include <fts.h>
#include <getopt.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/log.h"
#include "base/mem.h"
#include "cli/cli.h"
#include "cli/report.h"
#include "cli/service.h"
#include "render/describe.h"
#include "symbol/debug_cache.h"

#define COPY_BYTES (256u << 10)
#define FILES_MAX  1000000u /* of a directory, that are looked at */

static void help(void)
{
	puts("Usage: smolder symbols add [options] FILE|DIR...\n"
	     "       smolder symbols list [options]\n"
	     "       smolder symbols remove [options] BUILD-ID...\n"
	     "\n"
	     "Gives a server the debug files of programs whose symbols were stripped, so that "
	     "their\n"
	     "functions have names wherever they are shown, also in what was stored before. 'add'\n"
	     "takes every file with a symbol table and a build id, of a directory all that are in "
	     "it;\n"
	     "'list' shows what the server has, and what it was asked for in vain; 'remove' takes\n"
	     "files away, or has the server look for one again.\n"
	     "\n"
	     "      --store DIR         directory of the server's store (/var/lib/smolder as "
	     "root)\n"
	     "      --symbols-max SIZE  limit of the files that are kept (2GiB)\n"
	     "      --config FILE       YAML file with these options by name; flags win\n"
	     "                          (" SERVICE_CONFIG ")\n"
	     "  -q, --quiet             print nothing but errors\n"
	     "  -h, --help              print this help\n"
	     "\n"
	     "Examples:\n"
	     "  smolder symbols add ./build/app.debug\n"
	     "  smolder symbols add /usr/lib/debug/.build-id");
}

struct symbols_command {
	struct debug_cache *cache;
	uint64_t looked_at, added, bytes, without, failed;
};

static int copy(int from, int to)
{
	CLEANUP(freep) char *buf = mem_resize_array(NULL, COPY_BYTES, 1);

	for (;;) {
		ssize_t n = read(from, buf, COPY_BYTES);
		if (n <= 0)
			return n < 0 ? -errno : 0;
		for (ssize_t at = 0; at < n;) {
			ssize_t out = write(to, buf + at, (size_t)(n - at));
			if (out <= 0)
				return out < 0 ? -errno : -EIO;
			at += out;
		}
	}
}

static int take(struct symbols_command *s, int fd)
{
	struct debug_cache_part part;
	char id[DEBUG_CACHE_ID];

	int r = debug_cache_part(s->cache, &part);
	if (r)
		return r;
	r = copy(fd, part.fd);
	if (r) {
		debug_cache_drop(s->cache, &part);
		return r;
	}
	return debug_cache_take(s->cache, &part, NULL, DEBUG_CACHE_ADDED, id);
}

static const char *words(int error)
{
	return error == -EBADMSG  ? "it is not an ELF file with a symbol table"
	       : error == -ESTALE ? "it has no build id"
	       : error == -EFBIG ? "it is larger than a quarter of --symbols-max; raise that, here "
				   "and of the "
				   "server"
	       : error == -ENOSPC ? "there is no room for it: on the disk, or under --symbols-max"
				  : strerror(-error);
}

/* One that was named must do; of a directory's files, those that can are taken. */
static void add_file(struct symbols_command *s, const char *path, bool named)
{
	char id[DEBUG_CACHE_ID];
	struct stat st = {};

	s->looked_at++;
	/* O_NONBLOCK: opening a FIFO would wait for its writer. */
	CLEANUP(fd_closep)
	int fd = open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC | (named ? 0 : O_NOFOLLOW));
	int r = fd < 0 || fstat(fd, &st) != 0 ? -errno : debug_cache_check(fd, id);
	if (!named && (r == -EBADMSG || r == -ESTALE || r == -ELOOP)) {
		s->without++;
		return;
	}
	if (!r && (uint64_t)st.st_size > debug_cache_file_max(s->cache))
		r = -EFBIG;
	if (!r)
		r = take(s, fd);
	if (r) {
		log_error("cannot add %s: %s", path, words(r));
		s->failed++;
		return;
	}
	s->added++;
	s->bytes += (uint64_t)st.st_size;
}

static void add_directory(struct symbols_command *s, char *path)
{
	char *const paths[] = {path, NULL};
	FTS *all = fts_open(paths, FTS_PHYSICAL | FTS_NOCHDIR | FTS_XDEV, NULL);
	uint64_t until = s->looked_at + FILES_MAX;

	for (FTSENT *e; all && (e = fts_read(all));) {
		if (e->fts_info == FTS_F)
			add_file(s, e->fts_path, false);
		else if (e->fts_info == FTS_DNR || e->fts_info == FTS_ERR)
			log_warn("cannot read %s: %s", e->fts_path, strerror(e->fts_errno));
		if (s->looked_at >= until) {
			log_warn("%s has more than %u files; the rest was not looked at", path,
				 FILES_MAX);
			break;
		}
	}
	if (all)
		fts_close(all);
}

static int add(struct symbols_command *s, int count, char **paths)
{
	char size[DESCRIBE_MAX];
	struct stat st;

	if (!count) {
		log_error("name the files or directories to add");
		return cli_usage("symbols");
	}
	for (int i = 0; i < count; i++) {
		if (stat(paths[i], &st) == 0 && S_ISDIR(st.st_mode))
			add_directory(s, paths[i]);
		else
			add_file(s, paths[i], true);
	}
	log_info("added %" PRIu64 " debug files of %s%s", s->added,
		 describe_amount(s->bytes, "bytes", size),
		 s->added ? ": their functions have names from now on" : "");
	if (!s->added && !s->failed && s->without)
		log_error("none of %" PRIu64 " files has a symbol table and a build id",
			  s->without);
	return s->failed || !s->added;
}

static int by_use(const void *a, const void *b)
{
	const struct debug_cache_file *x = a, *y = b;

	return x->used_s != y->used_s ? (x->used_s < y->used_s ? 1 : -1) : strcmp(x->id, y->id);
}

static int list(struct symbols_command *s)
{
	static const char *const states[] = {[DEBUG_CACHE_MISSING] = "missing",
					     [DEBUG_CACHE_DOWNLOADED] = "downloaded",
					     [DEBUG_CACHE_ADDED] = "added"};
	size_t count;
	CLEANUP(freep) struct debug_cache_file *files = debug_cache_list(s->cache, &count);

	qsort(files, count, sizeof(*files), by_use);
	printf("%-10s  %12s  %-19s  BUILD ID\n", "STATE", "BYTES", "USED");
	for (size_t i = 0; i < count; i++) {
		char when[32];
		report_time((uint64_t)files[i].used_s * 1000, when);
		printf("%-10s  %12" PRIu64 "  %-19s  %s\n", states[files[i].state], files[i].bytes,
		       when, files[i].id);
	}
	return cli_printed();
}

static int remove_ids(struct symbols_command *s, int count, char **ids)
{
	int code = 0;

	if (!count) {
		log_error("name the build ids to remove; 'smolder symbols list' shows them");
		return cli_usage("symbols");
	}
	for (int i = 0; i < count; i++) {
		int r = debug_cache_is_id(ids[i]) ? debug_cache_remove(s->cache, ids[i]) : -EINVAL;
		if (!r)
			continue;
		log_error("cannot remove %s: %s", ids[i],
			  r == -EINVAL   ? "that is no build id, which is a row of hex digits"
			  : r == -ENOENT ? "the server has no such file"
					 : strerror(-r));
		code = 1;
	}
	return code;
}

static int run(struct symbols_command *s, const char *what, int argc, char **argv)
{
	if (strcmp(what, "add") == 0)
		return add(s, argc, argv);
	if (strcmp(what, "remove") == 0)
		return remove_ids(s, argc, argv);
	if (strcmp(what, "list") != 0)
		log_error("symbols does not know '%s': add, list or remove", what);
	else if (argc)
		log_error("symbols list takes no argument '%s'", argv[0]);
	else
		return list(s);
	return cli_usage("symbols");
}

enum { OPT_STORE = 256, OPT_MAX, OPT_CONFIG };

/* -1 to go on; else the exit code. */
static int parse(int argc, char **argv, struct settings *set)
{
	static const struct option options[] = {
		{"store", required_argument, NULL, OPT_STORE},
		{"symbols-max", required_argument, NULL, OPT_MAX},
		{"config", required_argument, NULL, OPT_CONFIG},
		{"quiet", no_argument, NULL, 'q'},
		{"help", no_argument, NULL, 'h'},
		{},
	};
	struct settings_error e;
	const char *config = NULL;

	for (int c; (c = getopt_long(argc, argv, "qh", options, NULL)) != -1;) {
		switch (c) {
		case OPT_STORE:
		case OPT_MAX:
			if (settings_set(set, c == OPT_STORE ? SET_STORE : SET_SYMBOLS_MAX, optarg,
					 &e))
				break;
			log_error("--%s", e.text);
			return cli_usage("symbols");
		case OPT_CONFIG:
			config = optarg;
			break;
		case 'q':
			log_level = LOG_QUIET;
			break;
		case 'h':
			help();
			return 0;
		default:
			return cli_usage("symbols");
		}
	}
	return service_read_config(set, config) ? -1 : 1;
}

/* The directory of the store; caller frees. NULL after reporting why there is none. */
static char *find_store(const struct settings *set)
{
	CLEANUP(freep) char *store = service_store_dir(set);
	struct stat st;

	if (!store)
		log_error("this user has no home directory with a store in it: name one with "
			  "--store DIR");
	else if (stat(store, &st) != 0)
		log_error("there is no store at %s: %s; name another with --store DIR", store,
			  strerror(errno));
	else
		return TAKE_PTR(store);
	return NULL;
}

int cmd_symbols(int argc, char **argv)
{
	struct symbols_command s = {};
	struct settings set = {};
	int code = parse(argc, argv, &set);

	if (code < 0 && optind == argc) {
		log_error("symbols needs to know what to do: add, list or remove");
		code = cli_usage("symbols");
	}
	CLEANUP(freep) char *store = code < 0 ? find_store(&set) : NULL;
	if (store) {
		CLEANUP(debug_cache_freep)
		struct debug_cache *cache =
			debug_cache_new(store, settings_number(&set, SET_SYMBOLS_MAX), false);
		s.cache = cache;
		code = run(&s, argv[optind], argc - optind - 1, argv + optind + 1);
	}
	settings_done(&set);
	return code < 0 ? 1 : code;
}
