#include "cli/serve.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/fetch.h"
#include "base/log.h"
#include "base/loop.h"
#include "base/mem.h"
#include "cli/cli.h"
#include "cli/pod_names.h"
#include "cli/service.h"
#include "cli/store_dir.h"
#include "serve/debuginfod.h"
#include "serve/peer.h"
#include "serve/server.h"

#define NAMES_MAX 16
#define ALIVE_MS  5000

struct serving {
	const struct serve_options *options;
	struct loop *loop;
};

static void on_signal(void *ctx, int signo)
{
	const struct serving *s = ctx;

	log_debug("ending: %s", strsignal(signo));
	loop_stop(s->loop);
}

static void on_alive(void *ctx, int what)
{
	const struct serving *s = ctx;

	(void)what;
	if (write(s->options->alive_fd, "", 1) < 0 && errno == EPIPE)
		loop_stop(s->loop); /* whoever started us is gone */
}

/* "a,b" into names; the text is cut in place. */
static size_t split(char *text, const char *names[static NAMES_MAX])
{
	size_t count = 0;
	char *save = NULL;

	for (char *one = strtok_r(text, ", ", &save); one && count < NAMES_MAX;
	     one = strtok_r(NULL, ", ", &save))
		names[count++] = one;
	return count;
}

void serve_say_who(const struct access_list *a, bool is_public, const char *token)
{
	if (is_public) {
		log_info("access is granted by the token alone");
		return;
	}
	if (peer_check() != 0)
		log_warn("this kernel does not tell which user opened a connection (it lacks "
			 "CONFIG_INET_DIAG), so access needs a token: --token-file FILE");
	CLEANUP(freep) char *who = access_describe(&a->options);
	log_info("access is granted to %s%s; --allow-user NAME adds others", who,
		 token ? ", and by the token" : "");
}

/*
 * Whom to ask for debug files: as the settings say, else as the environment does for all clients of
 * debuginfod. The environment's text is cut in place.
 */
static size_t debuginfod_urls(const struct settings *set, char *environment,
			      const char *urls[static DEBUGINFOD_SERVERS])
{
	const struct settings_list *list = settings_list(set, SET_DEBUGINFOD);
	size_t count = 0;
	char *save = NULL;

	for (size_t i = 0; i < list->count; i++) {
		if (!fetch_is_url(list->items[i]))
			return 0; /* "no" */
		if (count < DEBUGINFOD_SERVERS)
			urls[count++] = list->items[i];
	}
	if (list->count > DEBUGINFOD_SERVERS)
		log_warn("only the first %d debuginfod servers are asked", DEBUGINFOD_SERVERS);
	if (list->count)
		return count;
	for (char *url = strtok_r(environment, " \t\n", &save); url && count < DEBUGINFOD_SERVERS;
	     url = strtok_r(NULL, " \t\n", &save)) {
		if (fetch_is_url(url))
			urls[count++] = url;
		else
			log_warn("DEBUGINFOD_URLS has '%.100s', which is no URL that can be asked",
				 url);
	}
	return count;
}

int serve_run(const struct serve_options *o)
{
	const struct settings *set = o->settings;
	const char *names[NAMES_MAX], *list = settings_text(set, SET_NAMES);
	const char *urls[DEBUGINFOD_SERVERS], *from = getenv("DEBUGINFOD_URLS");
	CLEANUP(freep) char *text = mem_strdup(list ? list : "");
	CLEANUP(freep) char *environment = mem_strdup(from ? from : "");
	CLEANUP(freep) char *cache = cli_cache_dir();
	struct server_options options = {
		.store_place = o->store,
		.files_dir = store_is_directory(o->store) ? o->store : cache,
		.listen = settings_text(set, SET_LISTEN),
		.hosts = names,
		.host_count = split(text, names),
		.token = o->secrets->token,
		.access = o->allowed->options,
		.tls_cert = o->secrets->tls_cert,
		.tls_key = o->secrets->tls_key,
		.store = {.retention_ms = settings_number(set, SET_RETENTION),
			  .max_bytes = settings_number(set, SET_MAX_SIZE),
			  .times_ms = settings_number(set, SET_TIMES)},
		.debuginfod = urls,
		.debuginfod_count = debuginfod_urls(set, environment, urls),
		.ca_file = settings_text(set, SET_CA_FILE),
		.rules = set->rules,
		.scrape = set->scrape,
		.symbols_max = settings_number(set, SET_SYMBOLS_MAX),
		.deadline_ms = settings_number(set, SET_DEADLINE),
		.windows_fd = o->windows_fd,
		.kubelet = pod_names_kubelet(set),
	};
	struct serving s = {.options = o};
	struct server_error err;
	struct server *server;

	s.loop = loop_new();
	loop_end_signals(s.loop, o->end_signal, on_signal, &s);
	int r = server_new(s.loop, &options, &server, &err);
	if (r) {
		log_error("%s", err.text);
		loop_free(s.loop);
		return 1;
	}
	if (server_is_public(server) && !options.tls_cert)
		log_warn("serving other machines without TLS: the token and all profiles can be "
			 "read on the network; --tls-cert and --tls-key prevent that");
	if (o->alive_fd >= 0) {
		loop_timer(s.loop, ALIVE_MS, on_alive, &s);
		on_alive(&s, 0);
	} else {
		log_info("listening on http%s://%s, storing in %s", options.tls_cert ? "s" : "",
			 server_address(server), o->store);
		serve_say_who(o->allowed, server_is_public(server), options.token);
	}
	r = loop_run(s.loop);
	server_free(server);
	loop_free(s.loop);
	if (r)
		log_error("cannot wait for events: %s", strerror(-r));
	return r ? 1 : 0;
}

static void help(void)
{
	puts("Usage: smolder serve [options]\n"
	     "\n"
	     "Stores the profiles that collectors send and answers queries over HTTP: the server\n"
	     "half of 'smolder run' on its own, for collectors on other machines. Needs no\n"
	     "privileges.\n"
	     "");
	service_help((const enum setting[]){SET_STORE, SET_MIGRATE, SET_LISTEN, SET_RETENTION,
					    SET_MAX_SIZE, SET_TIMES, SET_DEADLINE, SET_NAMES,
					    SET_WINDOWS_FD, SET_DEBUGINFOD, SET_SYMBOLS_MAX,
					    SET_TOKEN_FILE, SET_CA_FILE, SET_ALLOW_USER,
					    SET_ALLOW_GROUP, SET_TLS_CERT, SET_TLS_KEY, SETTINGS});
}

/* The store, ready to be opened: 0, or 1 after reporting why it is not. */
static int prepare_store(const char *store, const struct settings *s)
{
	struct privilege_user self = {.uid = geteuid(), .gid = getegid()};
	const char *migrate = settings_text(s, SET_MIGRATE);
	struct store_error err = {};

	if (store_is_directory(store))
		return store_dir_become_owner(store) || store_dir_prepare(store, &self);
	if (strcmp(migrate, "yes") == 0 && store_migrate(store, NULL, &err) != 0) {
		log_error("%s", err.text);
		return 1;
	}
	return 0;
}

/* What --migrate print asks for. */
static int print_schema(const char *store)
{
	struct store_error err = {};

	if (store_is_directory(store)) {
		log_error("--migrate print is for a database: --store clickhouse://USER@HOST:PORT/"
			  "DATABASE");
		return 2;
	}
	if (store_migrate(store, stdout, &err) == 0)
		return 0;
	log_error("%s", err.text);
	return 1;
}

int cmd_serve(int argc, char **argv)
{
	struct settings s = {};
	int code = service_options("serve", argc, argv, help, &s);

	struct secrets secrets = {};
	struct access_list allowed = {};

	if (code < 0)
		code = secrets_read(&s, &secrets);
	else
		goto out;
	if (!code)
		code = access_list_read(&s, &allowed);
	allowed.options.starter_sends = true;
	if (!code) {
		CLEANUP(freep) char *store = service_store_dir(&s);
		int fd = (int)settings_number(&s, SET_WINDOWS_FD);
		struct serve_options o = {.settings = &s,
					  .secrets = &secrets,
					  .allowed = &allowed,
					  .store = store,
					  .windows_fd = fd ? fd : -1,
					  .alive_fd = -1};
		code = !store;
		if (!store)
			log_error("this user has no home directory to keep the store in: name one "
				  "with --store DIR");
		if (store && strcmp(settings_text(&s, SET_MIGRATE), "print") == 0)
			code = print_schema(store);
		else if (store)
			code = prepare_store(store, &s) || serve_run(&o);
	}
	access_list_done(&allowed);
	secrets_done(&secrets);
out:
	settings_done(&s);
	return code;
}
