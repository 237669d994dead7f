#include "serve/server.h"

#include <errno.h>
#include <malloc.h>
#include <sys/eventfd.h>
#include <sys/socket.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/mem.h"
#include "profile/pods.h"
#include "query/package.h"
#include "serve/connect.h"
#include "serve/server_internal.h"
#include "serve/version_watch.h"

#define THREADS       2
#define WAITING       16
#define LOGIN_MAX     4096
#define SYMBOLS_MAX   (1u << 20) /* bytes of addresses that a client would have named */
#define TEND_EVERY_MS 10000
#define MESSAGES_ONCE 32 /* of the windows' socket, before others have their turn */

/* ---- windows ------------------------------------------------------------------------------- */

static void on_post(void *ctx, struct http_request *r)
{
	struct server *s = ctx;
	struct pack reply = {};
	size_t len;
	const void *body = http_body(r, &len);

	enum window_status status =
		receiver_message(s->receiver, body, len, clock_ms(CLOCK_REALTIME), &reply);
	http_answer(r, &(struct http_answer){
			       .status = status == WINDOW_REFUSED ? 400
					 : status == WINDOW_LATER ? 503
								  : 200,
			       .type = "application/octet-stream",
			       .body = reply.bytes,
			       .len = reply.len,
		       });
}

static void on_windows(void *ctx, int fd)
{
	struct server *s = ctx;

	for (int i = 0; i < MESSAGES_ONCE; i++) {
		struct pack reply = {};
		ssize_t n = recv(fd, s->message, WINDOW_MESSAGE_MAX + 1, MSG_DONTWAIT);
		if (n < 0 && (errno == EAGAIN || errno == EINTR))
			return;
		if (n <= 0) { /* the other end is gone for good */
			loop_remove_fd(s->loop, fd);
			s->windows_fd = -1;
			return;
		}
		if (pods_is_ask(s->message, (size_t)n)) {
			if (s->kubelet)
				kubelet_ask(s->kubelet);
			continue;
		}
		if (receiver_message(s->receiver, s->message, (size_t)n, clock_ms(CLOCK_REALTIME),
				     &reply) != WINDOW_REFUSED)
			receiver_is_local(s->receiver);
		/* One that does not read its answers sends the message again. */
		send(fd, reply.bytes, reply.len, MSG_DONTWAIT | MSG_NOSIGNAL);
		pack_done(&reply);
	}
}

static int send_pods(void *ctx, const void *bytes, size_t len)
{
	const struct server *s = ctx;

	return send(s->windows_fd, bytes, len, MSG_DONTWAIT | MSG_NOSIGNAL) < 0 ? -errno : 0;
}

/* What a collector could not name may be known elsewhere. */
static void on_frames(void *ctx, const struct profile *dict, uint32_t first)
{
	struct server *s = ctx;

	stored_names_look(s->names, dict, first);
}

/* ---- as time passes ------------------------------------------------------------------------ */

static void say_warning(struct server *s)
{
	struct store_error warning;

	if (store_warning(s->store, &warning))
		log_warn("%s", warning.text);
}

/* A step; the rest comes after whatever else is waiting. */
static void maintain(struct server *s)
{
	bool more = store_maintain(s->store, clock_ms(CLOCK_REALTIME));

	say_warning(s);

	if (more)
		eventfd_write(s->maintain_fd, 1);
	else if (s->maintaining)
		malloc_trim(0); /* what packing needed goes back to the system */
	s->maintaining = more;
}

static void on_tick(void *ctx, int what)
{
	struct server *s = ctx;

	(void)what;
	maintain(s);
	cost_snapshot(s->cost);
	version_watch_tick(s->version_watch);
}

static void on_more(void *ctx, int fd)
{
	eventfd_t ignored;

	eventfd_read(fd, &ignored);
	maintain(ctx);
}

/* ---- life ---------------------------------------------------------------------------------- */

const struct http_route server_routes[] = {
	{"GET", "/", page_index, 0, false},
	{"GET", "/assets/*", page_asset, 0, false},
	{"POST", "/api/v1/windows", on_post, WINDOW_MESSAGE_MAX, true},
	{"POST", "/api/v1/ingest", push_pprof, PUSH_BODY_MAX, true},
	{"POST", "/ingest", push_pyroscope, PUSH_BODY_MAX, true},
	{"POST", "/pyroscope/ingest", push_pyroscope, PUSH_BODY_MAX, true},
	{"POST", "/push.v1.PusherService/Push", push_connect, PUSH_BODY_MAX, true},
	{"POST", "/v1development/profiles", push_otlp, PUSH_BODY_MAX, true},
	{"GET", "/api/v1/query", api_query, 0, false},
	{"GET", "/api/v1/diff", api_diff, 0, false},
	{"GET", "/api/v1/changes", changes_api, 0, false},
	{"GET", "/api/v1/types", api_types, 0, false},
	{"GET", "/api/v1/labels", api_labels, 0, false},
	{"GET", "/api/v1/labels/*/values", api_values, 0, false},
	{"GET", "/api/v1/series", api_series, 0, false},
	{"GET", "/api/v1/heatmap", api_heatmap, 0, false},
	{"GET", "/api/v1/findings", api_findings, 0, false},
	{"GET", "/api/v1/targets", targets_json, 0, false},
	{"GET", "/api/v1/status", status_json, 0, false},
	{"POST", "/querier.v1.QuerierService/*", querier_call, CONNECT_BODY_MAX, false},
	{"POST", "/settings.v1.SettingsService/Get", grafana_settings_get, CONNECT_BODY_MAX, false},
	{"POST", "/settings.v1.SettingsService/Set", grafana_settings_set, CONNECT_BODY_MAX, true},
	{"GET", "/pyroscope/render", pyroscope_render, 0, false},
	{"GET", "/pyroscope/render-diff", pyroscope_render_diff, 0, false},
	{"GET", "/pyroscope/label-values", pyroscope_label_values, 0, false},
	{"GET", "/debug/pprof/", live_profile_index, 0, false},
	{"GET", "/debug/pprof/profile", live_profile_take, 0, false},
	{"GET", "/debug/pprof/block", live_profile_block, 0, false},
	{"GET", "/debug/pprof/cmdline", live_profile_cmdline, 0, false},
	{"GET", "/debug/pprof/symbol", live_profile_symbol, 0, false},
	{"POST", "/debug/pprof/symbol", live_profile_symbol, SYMBOLS_MAX, false},
	{"GET", "/login", login_form, 0, false},
	{"POST", "/login", login_post, LOGIN_MAX, false},
	{"GET", "/plain.css", login_css, 0, false},
	{"GET", "/metrics", status_metrics, 0, false},
	{"GET", "/healthz", status_healthz, 0, false},
	{"GET", "/readyz", status_readyz, 0, false},
	{},
};

static const char *const unguarded[] = {"/login", "/plain.css", "/healthz", "/readyz", NULL};

static int start_http(struct server *s, const struct server_options *o,
		      struct server_error *ret_err)
{
	struct http_options http = {
		.listen = o->listen ? o->listen : SERVER_LISTEN,
		.hosts = o->hosts,
		.host_count = o->host_count,
		.tls_cert = o->tls_cert,
		.tls_key = o->tls_key,
		.routes = server_routes,
		.ctx = s,
		.guard = login_guard,
		.may_be_public = s->token,
		.unguarded = unguarded,
	};
	struct http_error err;

	int r = http_new(s->loop, &http, &s->http, &err);
	if (r)
		snprintf(ret_err->text, sizeof(ret_err->text), "%s", err.text);
	return r;
}

static int watch(struct server *s)
{
	s->maintain_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (s->maintain_fd < 0)
		return -errno;
	int r = loop_fd(s->loop, s->maintain_fd, on_more, s);
	if (!r)
		r = loop_timer(s->loop, TEND_EVERY_MS, on_tick, s);
	if (!r && s->windows_fd >= 0)
		r = loop_fd(s->loop, s->windows_fd, on_windows, s);
	return r;
}

static const char *files_dir(const struct server_options *o)
{
	return o->files_dir ? o->files_dir : o->store_place;
}

static void start_names(struct server *s, const struct server_options *o)
{
	struct debuginfod_options ask = {
		.urls = o->debuginfod, .count = o->debuginfod_count, .ca_file = o->ca_file};

	s->debug_files = debug_cache_new(files_dir(o), o->symbols_max, o->debuginfod_count);
	ask.cache = s->debug_files;
	s->debuginfod = o->debuginfod_count ? debuginfod_new(&ask) : NULL;
	s->names = stored_names_new(s->debug_files, s->debuginfod ? debuginfod_want : NULL,
				    s->debuginfod);
	s->store_options.name = stored_names_frame;
	s->store_options.name_ctx = s->names;
	if (s->debuginfod)
		receiver_on_frames(s->receiver, on_frames, s);
}

DEFINE_CLEANUP(struct server *, server_free)

int server_new(struct loop *l, const struct server_options *o, struct server **ret,
	       struct server_error *ret_err)
{
	CLEANUP(server_freep) struct server *s = mem_alloc(sizeof(*s));
	struct store_error err = {};

	*ret_err = (struct server_error){};
	s->loop = l;
	s->maintain_fd = -1;
	s->windows_fd = o->windows_fd;
	s->store_place = mem_strdup(o->store_place);
	s->store_options = o->store;
	store_options_fill(&s->store_options); /* the status tells them */
	s->deadline_ms = o->deadline_ms ? o->deadline_ms : SERVER_DEADLINE_S * 1000;
	s->started_ms = clock_ms(CLOCK_REALTIME);
	s->message = mem_alloc(WINDOW_MESSAGE_MAX + 1);
	s->has_tls = o->tls_cert;
	s->token = o->token ? token_new(o->token) : NULL;
	if (o->token && !s->token) {
		snprintf(ret_err->text, sizeof(ret_err->text), "the token cannot be used");
		return -EINVAL;
	}
	s->access = access_new(&o->access);
	int r = store_open(o->store_place, &s->store_options, &s->store, &err);
	if (r) {
		snprintf(ret_err->text, sizeof(ret_err->text), "%s", err.text);
		ret_err->pid = err.pid;
		return r;
	}
	say_warning(s);
	s->receiver = receiver_new(s->store);
	s->rules = o->rules;
	receiver_set_rules(s->receiver, s->rules);
	s->packages = packages_new(NULL);
	start_names(s, o);
	s->jobs = jobs_new(l, o->threads ? o->threads : THREADS, WAITING);
	s->live_profiles = live_profiles_new(s);
	s->pushes = pushes_new(s);
	s->grafana_settings = grafana_settings_new(files_dir(o));
	s->cost = cost_new(s);
	s->version_watch = version_watch_new(s);
	if (o->kubelet.url && o->windows_fd >= 0)
		s->kubelet = kubelet_new(l, &o->kubelet, send_pods, s);
	r = start_http(s, o, ret_err);
	if (r)
		return r;
	if (o->scrape && o->scrape->job_count)
		s->scraper = scraper_new(l, s->store, o->scrape);
	r = watch(s);
	if (r) {
		snprintf(ret_err->text, sizeof(ret_err->text), "cannot start the server: %s",
			 strerror(-r));
		return r;
	}
	*ret = TAKE_PTR(s);
	return 0;
}

void server_free(struct server *s)
{
	if (!s)
		return;
	kubelet_free(s->kubelet);
	scraper_free(s->scraper);
	http_stop(s->http);
	if (s->windows_fd >= 0)
		loop_remove_fd(s->loop, s->windows_fd);
	if (s->maintain_fd >= 0) {
		loop_remove_fd(s->loop, s->maintain_fd);
		close(s->maintain_fd);
	}
	cost_free(s->cost);
	live_profiles_free(s->live_profiles);
	pushes_free(s->pushes);
	jobs_free(s->jobs); /* answers what is held */
	version_watch_free(s->version_watch);
	packages_free(s->packages);
	stored_names_free(s->names);
	debuginfod_free(s->debuginfod);
	debug_cache_free(s->debug_files);
	http_free(s->http);
	grafana_settings_free(s->grafana_settings);
	receiver_free(s->receiver);
	store_close(s->store);
	free(s->store_place);
	free(s->message);
	token_free(s->token);
	access_free(s->access);
	free(s);
}

const char *server_address(const struct server *s)
{
	return http_address(s->http);
}

bool server_is_public(const struct server *s)
{
	return http_is_public(s->http);
}

/* One that is not taken (nobody reads them now) is no loss: the next answer brings the same. */
static void send_control(struct server *s, bool flush)
{
	struct pack control = {};

	if (s->windows_fd < 0)
		return;
	receiver_control(s->receiver, flush, clock_ms(CLOCK_REALTIME), &control);
	send(s->windows_fd, control.bytes, control.len, MSG_DONTWAIT | MSG_NOSIGNAL);
	pack_done(&control);
}

void server_live(struct server *s, uint64_t until_ms)
{
	receiver_live(s->receiver, until_ms);
	send_control(s, false);
}

void server_flush(struct server *s)
{
	receiver_flush(s->receiver);
	send_control(s, true);
}
