#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>

#include "base/file.h"
#include "base/log.h"
#include "base/loop.h"
#include "base/mem.h"
#include "base/privilege.h"
#include "cli/cli.h"
#include "cli/halves.h"
#include "cli/pod_names.h"
#include "cli/secrets.h"
#include "cli/service.h"
#include "cli/spool_dir.h"
#include "forward/forward.h"

#define ALIVE_MS    5000
#define CA_FILE_MAX (4u << 20)

struct agent {
	struct settings settings;
	struct loop *loop; /* of the sender */
	struct forward *forward;
	int alive_fd; /* -1: none */
};

static void help(void)
{
	puts("Usage: smolder agent --to URL [options]\n"
	     "\n"
	     "Samples every process on this machine continuously and sends the profiles to a\n"
	     "server every ten seconds: 'smolder serve' or 'smolder run' elsewhere, or what takes\n"
	     "OTLP profiles or Pyroscope's (otlp+http://HOST:4318, pyroscope+https://HOST:4040).\n"
	     "While it cannot be reached, they wait on disk. Needs root, and keeps only the\n"
	     "capabilities it uses.\n"
	     "");
	service_help((const enum setting[]){
		SET_TO,         SET_SPOOL,      SET_SPOOL_MAX, SET_TOKEN_FILE,    SET_BASIC_AUTH,
		SET_HEADER,     SET_CA_FILE,    SET_FREQUENCY, SET_EVENTS,        SET_OFFCPU,
		SET_FINDINGS,   SET_USER,       SET_HOST,      SET_HOST_ROOT,     SET_LABEL,
		SET_KEEP,       SET_DROP,       SET_KUBELET,   SET_KUBELET_TOKEN, SET_KUBELET_CA,
		SET_POD_LABEL,  SET_TABLES,     SET_LINES,     SET_THREADS,       SET_IDLE_IN,
		SET_BLOCKED_IN, SET_WINDOWS_FD, SETTINGS});
}

/* ---- the sender's half ----------------------------------------------------------------------- */

/* What is sent with each request; from malloc, NULL: none. */
struct credentials {
	char *authorization, *headers, *ca_pem;
};

static void credentials_done(struct credentials *c)
{
	if (c->authorization)
		explicit_bzero(c->authorization, strlen(c->authorization));
	free(c->authorization);
	free(c->headers);
	free(c->ca_pem);
}

/* Read before privileges are dropped. 0, or 1 after reporting why not. */
static int read_credentials(const struct settings *s, struct credentials *ret)
{
	const char *token = settings_text(s, SET_TOKEN_FILE);
	const char *basic = settings_text(s, SET_BASIC_AUTH);
	const char *ca = settings_text(s, SET_CA_FILE);
	const struct settings_list *headers = settings_list(s, SET_HEADER);
	size_t len;

	if (token && basic) {
		log_error(
			"--token-file and --basic-auth are two ways to say who this is: give one");
		return EXIT_USAGE;
	}
	if (token || basic) {
		ret->authorization = token ? secrets_bearer(token) : secrets_basic(basic);
		if (!ret->authorization)
			return 1;
	}
	int err = ca ? file_read(ca, CA_FILE_MAX, &ret->ca_pem, NULL) : 0;
	if (err) {
		log_error("cannot read the CA certificates in %s: %s", ca, strerror(-err));
		return 1;
	}
	if (!headers->count)
		return 0;
	FILE *out = open_memstream(&ret->headers, &len);
	for (size_t i = 0; i < headers->count; i++)
		fprintf(out, "%s\r\n", headers->items[i]);
	fclose(out);
	return 0;
}

static bool is_loopback(const char *to)
{
	const char *host = strstr(to, "://") + strlen("://");

	return strncmp(host, "127.", 4) == 0 || strncmp(host, "[::1]", 5) == 0 ||
	       (strncmp(host, "localhost", 9) == 0 && strchr(":/", host[9]));
}

/*
 * An ordinary user, that of an existing spool if it has one. But a server of smolder's on this
 * machine knows senders without a token by their user: to that it sends as who started it, without
 * any capability.
 */
static int find_user(const struct settings *s, const char *dir, struct privilege_user *ret)
{
	const char *name = settings_text(s, SET_USER);
	bool is_known_by_user =
		is_loopback(settings_text(s, SET_TO)) && !settings_text(s, SET_TOKEN_FILE);
	struct stat st;

	if (geteuid() != 0 || !privilege_may_become() || (is_known_by_user && !name)) {
		privilege_user_of(geteuid(), getegid(), ret);
		return 0;
	}
	if (!name && dir && stat(dir, &st) == 0 && st.st_uid != 0) {
		privilege_user_of(st.st_uid, st.st_gid, ret);
		return 0;
	}
	if (privilege_find_user(name, ret) == 0)
		return 0;
	log_error("there is no user %s to send as; --user names another", name ? name : "nobody");
	return 1;
}

/* The directory of the spool, for that user; *ret_fd -1: there is none, and windows wait in memory.
 * 0, or 1 after reporting why not. */
static int open_dir(const char *dir, bool is_default, const struct privilege_user *u, int *ret_fd)
{
	struct spool_dir_error why = {};

	*ret_fd = -1;
	if (!dir || spool_dir_open(dir, u, ret_fd, &why) == 0)
		return 0;
	if (is_default) {
		log_warn("windows that cannot be sent at once wait in memory, up to 16 MB: cannot "
			 "use %s: %s; --spool DIR names another directory",
			 dir, why.text);
		return 0;
	}
	log_error("cannot use the directory %s as a spool: %s", dir, why.text);
	return 1;
}

static void on_end(void *ctx, int signo)
{
	const struct agent *a = ctx;

	(void)signo;
	forward_finish(a->forward);
}

static void on_alive(void *ctx, int what)
{
	const struct agent *a = ctx;

	(void)what;
	if (write(a->alive_fd, "", 1) < 0 && errno == EPIPE)
		loop_stop(a->loop); /* whoever started us is gone */
}

static int forward(struct agent *a, const struct forward_options *o, int end_signal)
{
	struct forward_error why = {};

	a->loop = loop_new();
	int err = forward_new(a->loop, o, &a->forward, &why);
	if (err) {
		log_error("%s", why.text);
		loop_free(a->loop);
		return 1;
	}
	err = loop_end_signals(a->loop, end_signal, on_end, a);
	if (!err && a->alive_fd >= 0) {
		err = loop_timer(a->loop, ALIVE_MS, on_alive, a);
		on_alive(a, 0);
	}
	err = err ? err : loop_run(a->loop);
	if (err)
		log_error("cannot wait for events: %s", strerror(-err));
	forward_free(a->forward);
	loop_free(a->loop);
	return err ? 1 : 0;
}

static int be_sender(void *ctx, const struct halves_place *at)
{
	struct agent *a = ctx;
	const char *to = settings_text(&a->settings, SET_TO);
	const char *told = settings_text(&a->settings, SET_SPOOL);
	CLEANUP(freep) char *dir = told ? mem_strdup(told) : spool_dir_default(to);
	CLEANUP(credentials_done) struct credentials c = {};
	struct forward_options o = {.to = to,
				    .windows_fd = at->windows_fd,
				    .kubelet = pod_names_kubelet(&a->settings),
				    .max_bytes = settings_number(&a->settings, SET_SPOOL_MAX)};
	struct privilege_user u;

	a->alive_fd = at->alive_fd;
	int code = read_credentials(&a->settings, &c);
	code = code ? code : find_user(&a->settings, dir, &u);
	code = code ? code : open_dir(dir, !told, &u, &o.dir);
	if (code)
		return code;
	int err = privilege_become(&u);
	if (err) {
		log_error("cannot become the user %s: %s", u.name, strerror(-err));
		fd_closep(&o.dir);
		return 1;
	}
	halves_part(at);
	o.authorization = c.authorization;
	o.headers = c.headers;
	o.ca_pem = c.ca_pem;
	o.dir_name = o.dir >= 0 ? dir : NULL;
	return forward(a, &o, at->end_signal);
}

/* ---- both ------------------------------------------------------------------------------------ */

static void say_ready(void *ctx)
{
	const struct agent *a = ctx;

	log_info("sampling every process at %s Hz, sending to %s",
		 settings_text(&a->settings, SET_FREQUENCY), settings_text(&a->settings, SET_TO));
}

static bool reload(void *ctx)
{
	struct agent *a = ctx;

	return service_reload(&a->settings);
}

int cmd_agent(int argc, char **argv)
{
	struct agent a = {.alive_fd = -1};
	struct halves_options o = {.settings = &a.settings,
				   .other = "sender",
				   .comm = "smolder-send",
				   .be_other = be_sender,
				   .ready = say_ready,
				   .reload = reload,
				   .ctx = &a};
	int code = service_options("agent", argc, argv, help, &a.settings);

	if (code < 0) {
		int fd = (int)settings_number(&a.settings, SET_WINDOWS_FD);
		if (!settings_text(&a.settings, SET_TO)) {
			log_error("agent needs --to URL, the server to send to");
			code = cli_usage("agent");
		} else if (fd) {
			code = be_sender(&a, &(struct halves_place){fd, -1, 0});
		} else {
			code = halves_run(&o);
		}
	}
	settings_done(&a.settings);
	return code;
}
