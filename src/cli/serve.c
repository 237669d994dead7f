#include <errno.h>
#include <malloc.h>
#include <signal.h>
#include <string.h>

#include "base/log.h"
#include "base/loop.h"
#include "base/mem.h"
#include "cli/cli.h"
#include "cli/source.h"
#include "query/timerange.h"
#include "serve/server.h"

#define HOSTS_MAX 16

static void help(void)
{
	puts("Usage: smolder serve [options]\n"
	     "\n"
	     "Keeps what collectors send and answers questions about it over HTTP: the second half "
	     "of\n"
	     "'smolder run' on its own, for collectors on other machines. Needs no privileges.\n"
	     "\n"
	     "      --store DIR       where to keep it (as root /var/lib/smolder, else under\n"
	     "                        ~/.local/state)\n"
	     "      --listen ADDR:PORT\n"
	     "                        where to answer (127.0.0.1:7117)\n"
	     "      --host NAME       a name that clients may call this server by; may be "
	     "repeated\n"
	     "      --tls-cert FILE   answer over TLS with this certificate (PEM, its chain behind "
	     "it)\n"
	     "      --tls-key FILE    and its key\n"
	     "      --retention TIME  how long to keep it (30d)\n"
	     "      --max-size SIZE   how much, the oldest goes first (2GiB)\n"
	     "      --deadline TIME   longest question (30s)\n"
	     "      --windows-fd N    take windows from this socket as well (for 'smolder run')\n"
	     "  -q, --quiet           no words but errors\n"
	     "  -v, --verbose         more of them\n"
	     "  -h, --help            this");
}

enum {
	OPT_STORE = 256,
	OPT_LISTEN,
	OPT_HOST,
	OPT_TLS_CERT,
	OPT_TLS_KEY,
	OPT_RETENTION,
	OPT_MAX_SIZE,
	OPT_DEADLINE,
	OPT_WINDOWS_FD
};

static const struct option long_options[] = {
	{"store", required_argument, NULL, OPT_STORE},
	{"listen", required_argument, NULL, OPT_LISTEN},
	{"host", required_argument, NULL, OPT_HOST},
	{"tls-cert", required_argument, NULL, OPT_TLS_CERT},
	{"tls-key", required_argument, NULL, OPT_TLS_KEY},
	{"retention", required_argument, NULL, OPT_RETENTION},
	{"max-size", required_argument, NULL, OPT_MAX_SIZE},
	{"deadline", required_argument, NULL, OPT_DEADLINE},
	{"windows-fd", required_argument, NULL, OPT_WINDOWS_FD},
	{"quiet", no_argument, NULL, 'q'},
	{"verbose", no_argument, NULL, 'v'},
	{"help", no_argument, NULL, 'h'},
	{},
};

struct serve {
	struct server_options server;
	const char *hosts[HOSTS_MAX];
};

static bool duration(const char *option, const char *arg, uint64_t *ret)
{
	if (timerange_duration(arg, ret) == 0 && *ret)
		return true;
	log_error("%s takes a time like 30d or 12h, not '%s'", option, arg);
	return false;
}

/* "2GiB", "500M", "1000000" */
static bool size(const char *option, const char *arg, uint64_t *ret)
{
	static const char letters[] = "KMGT";
	char *end;
	double n = strtod(arg, &end);
	double unit = 1;
	const char *letter = *end ? strchr(letters, *end) : NULL;

	if (letter) {
		unit = (double)(1ull << (10 * (letter - letters + 1)));
		end++;
		if (*end == 'i')
			end++;
	}
	if (*end == 'B')
		end++;
	if (end == arg || *end || !(n * unit >= 1 << 20 && n * unit < 0x1p60)) {
		log_error("%s takes a size of at least 1 MiB like 2GiB, not '%s'", option, arg);
		return false;
	}
	*ret = (uint64_t)(n * unit);
	return true;
}

static bool option(struct serve *s, int opt, const char *arg)
{
	uint64_t n;

	switch (opt) {
	case OPT_STORE:
		s->server.store_dir = arg;
		return true;
	case OPT_LISTEN:
		s->server.listen = arg;
		return true;
	case OPT_HOST:
		if (s->server.host_count == HOSTS_MAX) {
			log_error("--host may be given %d times", HOSTS_MAX);
			return false;
		}
		s->hosts[s->server.host_count++] = arg;
		return true;
	case OPT_TLS_CERT:
		s->server.tls_cert = arg;
		return true;
	case OPT_TLS_KEY:
		s->server.tls_key = arg;
		return true;
	case OPT_RETENTION:
		return duration("--retention", arg, &s->server.store.retention_ms);
	case OPT_MAX_SIZE:
		return size("--max-size", arg, &s->server.store.max_bytes);
	case OPT_DEADLINE:
		return duration("--deadline", arg, &s->server.deadline_ms);
	case OPT_WINDOWS_FD:
		if (!cli_number("--windows-fd", arg, 3, 1 << 20, &n))
			return false;
		s->server.windows_fd = (int)n;
		return true;
	case 'q':
		log_level = LOG_QUIET;
		return true;
	case 'v':
		log_level = LOG_VERBOSE;
		return true;
	default: /* getopt has said it */
		return false;
	}
}

static void on_signal(void *ctx, int signo)
{
	log_debug("ending: %s", strsignal(signo));
	loop_stop(ctx);
}

int cmd_serve(int argc, char **argv)
{
	struct serve s = {.server.windows_fd = -1};
	struct server_error err;
	struct server *server;
	int opt;

	while ((opt = getopt_long(argc, argv, "qvh", long_options, NULL)) != -1) {
		if (opt == 'h') {
			help();
			return 0;
		}
		if (!option(&s, opt, optarg))
			return cli_usage("serve");
	}
	if (optind < argc) {
		log_error("there is nothing to do with '%s'", argv[optind]);
		return cli_usage("serve");
	}
	if (!s.server.tls_cert != !s.server.tls_key) {
		log_error("--tls-cert and --tls-key go together");
		return cli_usage("serve");
	}
	CLEANUP(freep) char *dir = s.server.store_dir ? NULL : source_default_store();
	if (dir)
		s.server.store_dir = dir;
	s.server.hosts = s.hosts;

	/* Threads come and go with questions: their memory is better shared. */
	mallopt(M_ARENA_MAX, 2);
	struct loop *l = loop_new();
	loop_signal(l, SIGTERM, on_signal, l);
	loop_signal(l, SIGINT, on_signal, l);
	int r = server_new(l, &s.server, &server, &err);
	if (r) {
		log_error("%s", err.text);
		loop_free(l);
		return 1;
	}
	log_info("listening on http%s://%s, storing in %s", s.server.tls_cert ? "s" : "",
		 server_address(server), s.server.store_dir);
	r = loop_run(l);
	server_free(server);
	loop_free(l);
	if (r)
		log_error("waiting failed: %s", strerror(-r));
	return r ? 1 : 0;
}
