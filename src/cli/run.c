#include <errno.h>
#include <string.h>

#include "base/log.h"
#include "base/mem.h"
#include "base/privilege.h"
#include "cli/cli.h"
#include "cli/halves.h"
#include "cli/serve.h"
#include "cli/service.h"
#include "cli/store_dir.h"
#include "serve/listen.h"
#include "serve/server.h"

struct run {
	struct settings settings;
	char *store;
	struct privilege_user user;
	struct access_list allowed;
};

static int be_server(void *ctx, const struct halves_place *at)
{
	const struct run *r = ctx;
	struct secrets secrets;
	struct serve_options o = {.settings = &r->settings,
				  .secrets = &secrets,
				  .allowed = &r->allowed,
				  .store = r->store,
				  .windows_fd = at->windows_fd,
				  .alive_fd = at->alive_fd,
				  .end_signal = at->end_signal};

	int code = secrets_read(&r->settings, &secrets);
	if (code)
		return code;
	int err = privilege_become(&r->user);
	if (err) {
		log_error("cannot become the user %s: %s", r->user.name, strerror(-err));
		return 1;
	}
	halves_part(at);
	code = serve_run(&o);
	secrets_done(&secrets);
	return code;
}

/* The page, and a command as it can be typed here. */
static void say_where(const struct run *r, const char *listen)
{
	const char *name = strchr(program_invocation_name, '/') ? program_invocation_name
								: program_invocation_short_name;
	CLEANUP(freep) char *url = listen_url(listen, settings_text(&r->settings, SET_TLS_CERT));
	bool is_default = strcmp(url, "http://" SERVER_LISTEN) == 0; /* that commands ask */

	log_info("open %s/ in a browser, or try: %s query cpu --from now-5m%s%s", url, name,
		 is_default ? "" : " --server ", is_default ? "" : url);
}

static void say_ready(void *ctx)
{
	const struct run *r = ctx;
	const char *listen = settings_text(&r->settings, SET_LISTEN);

	serve_say_who(&r->allowed, !listen_is_loopback(listen),
		      settings_text(&r->settings, SET_TOKEN_FILE));
	log_info("sampling every process at %s Hz; keeping data for %s, up to %s, in %s",
		 settings_text(&r->settings, SET_FREQUENCY),
		 settings_text(&r->settings, SET_RETENTION),
		 settings_text(&r->settings, SET_MAX_SIZE), r->store);
	say_where(r, listen);
}

static bool reload(void *ctx)
{
	struct access_list allowed;
	struct run *r = ctx;

	if (!service_reload(&r->settings) || access_list_read(&r->settings, &allowed))
		return false;
	access_list_done(&r->allowed);
	r->allowed = allowed;
	return true;
}

static int start(struct run *r)
{
	if (access_list_read(&r->settings, &r->allowed))
		return 1;
	r->store = service_store_dir(&r->settings);
	if (!r->store) {
		log_error("this user has no home directory to keep the store in: name one with "
			  "--store DIR");
		return 1;
	}
	if (!store_is_directory(r->store)) {
		log_error(
			"run keeps its store in a directory of this machine: for %s start 'smolder "
			"serve --store', and 'smolder agent --to' it",
			r->store);
		return 1;
	}
	if (store_dir_user(r->store, settings_text(&r->settings, SET_USER), &r->user) ||
	    store_dir_prepare(r->store, &r->user))
		return 1;
	return 0;
}

static void help(void)
{
	puts("Usage: smolder run [options]\n"
	     "\n"
	     "Samples every process on this machine continuously, stores the profiles, and serves\n"
	     "them to 'smolder query', 'smolder diff', 'smolder labels' and a page in the "
	     "browser.\n"
	     "Needs root. The part that reads other processes keeps only the capabilities it "
	     "uses,\n"
	     "the part that answers requests runs as an ordinary user. Stop it with Ctrl-C or\n"
	     "SIGTERM, or by closing its terminal; SIGHUP reloads the configuration.\n"
	     "");
	service_help((const enum setting[]){
		SET_STORE,       SET_LISTEN,        SET_RETENTION,  SET_MAX_SIZE,   SET_TIMES,
		SET_FREQUENCY,   SET_EVENTS,        SET_OFFCPU,     SET_FINDINGS,   SET_USER,
		SET_HOST,        SET_HOST_ROOT,     SET_LABEL,      SET_KEEP,       SET_DROP,
		SET_KUBELET,     SET_KUBELET_TOKEN, SET_KUBELET_CA, SET_POD_LABEL,  SET_TABLES,
		SET_LINES,       SET_THREADS,       SET_IDLE_IN,    SET_BLOCKED_IN, SET_DEBUGINFOD,
		SET_SYMBOLS_MAX, SET_TOKEN_FILE,    SET_CA_FILE,    SET_ALLOW_USER, SET_ALLOW_GROUP,
		SET_TLS_CERT,    SET_TLS_KEY,       SETTINGS});
}

int cmd_run(int argc, char **argv)
{
	struct run r = {};
	struct halves_options o = {.settings = &r.settings,
				   .other = "server",
				   .comm = "smolder-serve",
				   .be_other = be_server,
				   .ready = say_ready,
				   .reload = reload,
				   .ctx = &r};
	int code = service_options("run", argc, argv, help, &r.settings);

	if (code < 0) {
		code = start(&r);
		code = code ? code : halves_run(&o);
	}
	access_list_done(&r.allowed);
	settings_done(&r.settings);
	free(r.store);
	return code;
}
