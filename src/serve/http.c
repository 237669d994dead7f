#include <arpa/inet.h>
#include <errno.h>
#include <poll.h>
#include <sys/eventfd.h>

#include "base/clock.h"
#include "base/mem.h"
#include "serve/http_internal.h"
#include "serve/tls.h"

#define CONNECTION_ROOM (32u << 10) /* for URL and headers, and the buffers of a connection */
#define IDLE_SECONDS    30
#define DISCARD_MAX     (1u << 20) /* of a body that is too long; after that the connection ends */
#define TIMEOUTS_MS     5000       /* between looking for slow connections */
#define LAST_MS         500        /* for clients to take the last answers */
#define RUNS_MAX        64 /* of the daemon, before other parts of the loop have their turn */
#define PPROF           "/debug/pprof/"
#define GOING_DOWN      "the server is shutting down"

/* ---- which requests are refused ------------------------------------------------------------ */

static bool is_address(const char *host)
{
	struct in6_addr a;

	return inet_pton(AF_INET, host, &a) == 1 || inet_pton(AF_INET6, host, &a) == 1;
}

/* An attacker's page can have any name point here, but it cannot make a browser send another's. */
static bool host_is_fine(const struct http *h, const char *value)
{
	char host[256], own[256];

	if (!value || !listen_split_host(value, host))
		return false;
	if (is_address(host) || strcasecmp(host, "localhost") == 0)
		return true;
	if (gethostname(own, sizeof(own)) == 0 && strcasecmp(host, own) == 0)
		return true;
	for (size_t i = 0; i < h->host_count; i++)
		if (strcasecmp(host, h->hosts[i]) == 0)
			return true;
	return false;
}

static bool is(const char *value, const char *word)
{
	return value && strcasecmp(value, word) == 0;
}

/*
 * Cross-origin requests are refused. A page of another site names itself in Origin; ours has the
 * same host and port as Host. Browsers also say where a request comes from in Sec-Fetch-Site, which
 * no script can set: our own page may hide its Origin, and from other sites only a link that is
 * followed is fine.
 */
static bool origin_is_fine(const struct http_request *r, const char *method, const char *host)
{
	const char *origin = http_header(r, "Origin"), *site = http_header(r, "Sec-Fetch-Site");
	const char *host_at = origin ? strstr(origin, "://") : NULL;

	if (is(site, "same-origin"))
		return !host_at || strcasecmp(host_at + 3, host) == 0;
	if (origin && (!host_at || strcasecmp(host_at + 3, host) != 0))
		return false;
	return !site || is(site, "none") ||
	       (is(http_header(r, "Sec-Fetch-Mode"), "navigate") &&
		is(http_header(r, "Sec-Fetch-Dest"), "document") && strcmp(method, "POST") != 0);
}

/* ---- routes -------------------------------------------------------------------------------- */

/* Whether a path is a route's; *ret_star is what its * stands for. */
static bool path_matches(const char *pattern, const char *path, char **ret_star)
{
	const char *star = strchr(pattern, '*');

	if (!star)
		return strcmp(pattern, path) == 0;
	size_t head = (size_t)(star - pattern), tail = strlen(star + 1), len = strlen(path);
	if (len <= head + tail || strncmp(pattern, path, head) != 0 ||
	    strcmp(path + len - tail, star + 1) != 0 || memchr(path + head, '/', len - head - tail))
		return false;
	*ret_star = mem_strndup(path + head, len - head - tail);
	return true;
}

/* The route of a path; without one of that method *ret_allow is the method it has. */
static const struct http_route *find_route(const struct http *h, const char *method,
					   const char *path, char **ret_star,
					   const char **ret_allow)
{
	bool head = strcmp(method, "HEAD") == 0;

	*ret_allow = NULL;
	for (const struct http_route *r = h->routes; r->path; r++) {
		char *star = NULL;
		if (!path_matches(r->path, path, &star))
			continue;
		if (strcmp(r->method, head ? "GET" : method) == 0) {
			*ret_star = star;
			return r;
		}
		free(star);
		*ret_allow = r->method;
	}
	return NULL;
}

/* ---- the life of a request ----------------------------------------------------------------- */

static bool is_large(const struct http_request *r)
{
	return r->route && r->route->body_max > HTTP_BODY_LARGE;
}

static void free_body(struct http_request *r)
{
	if (is_large(r))
		r->http->bodies -= r->cap;
	free(TAKE_PTR(r->body));
	r->len = r->cap = 0;
}

static enum MHD_Result refuse(struct http_request *r, unsigned status, const char *allow,
			      const char *text)
{
	r->http->stats.refused++;
	free_body(r);
	r->route = NULL;
	http_fail_text(r, status, allow, text);
	return MHD_YES;
}

static bool is_let_in(struct http_request *r)
{
	const struct http *h = r->http;

	for (const char *const *path = h->unguarded; path && *path; path++)
		if (strcmp(*path, r->route->path) == 0)
			return true;
	return !h->guard || h->guard(h->ctx, r);
}

/* With the head of a request: what can be said before its body. */
static enum MHD_Result begin(struct http_request *r, const char *url, const char *method)
{
	const char *host = http_header(r, "Host"), *length = http_header(r, "Content-Length");
	const char *allow;

	r->http->stats.requests++;
	r->plain = strncmp(url, PPROF, strlen(PPROF)) == 0;
	if (r->http->stopping)
		return refuse(r, 503, NULL, GOING_DOWN);
	if (!host_is_fine(r->http, host))
		return refuse(r, 403, NULL,
			      "the Host header is not a name of this server; 'smolder serve "
			      "--names NAME' adds one");
	if (!origin_is_fine(r, method, host))
		return refuse(r, 403, NULL, "cross-origin request refused");
	r->route = find_route(r->http, method, url, &r->star, &allow);
	if (!r->route && allow)
		return refuse(r, 405, allow, "method not allowed for this path");
	if (!r->route)
		return refuse(r, 404, NULL, "no such path; docs/api.md lists them");
	if (!is_let_in(r)) {
		r->http->stats.refused++;
		r->http->stats.turned_away++;
		r->route = NULL;
		return MHD_YES;
	}
	if (length && strtoull(length, NULL, 10) > r->route->body_max)
		return refuse(r, 413, NULL, "the body is too large");
	return MHD_YES;
}

/* Room for n more bytes; false: all large bodies together would take too much. */
static bool grow_body(struct http_request *r, size_t n)
{
	size_t cap = MAX(r->len + n, 2 * r->cap);

	if (r->len + n <= r->cap)
		return true;
	if (is_large(r)) {
		if (r->http->bodies + cap - r->cap > HTTP_BODIES_MAX)
			return false;
		r->http->bodies += cap - r->cap;
	}
	r->cap = cap;
	r->body = mem_resize_array(r->body, cap, 1);
	return true;
}

static enum MHD_Result take_body(struct http_request *r, const char *bytes, size_t *len)
{
	size_t n = *len;

	*len = 0;
	if (r->len + n > r->route->body_max) {
		/* It came in chunks, without a length: it is read to its end, or to ours. */
		r->discarded += n;
		return r->discarded > DISCARD_MAX ? MHD_NO : MHD_YES;
	}
	if (r->crowded_out || !grow_body(r, n)) {
		r->crowded_out = true;
		free_body(r);
		return MHD_YES;
	}
	memcpy(r->body + r->len, bytes, n);
	r->len += n;
	return MHD_YES;
}

static enum MHD_Result on_request(void *cls, struct MHD_Connection *connection, const char *url,
				  const char *method, const char *version, const char *upload,
				  size_t *upload_len, void **request)
{
	struct http_request *r = *request;

	(void)version;
	if (!r) {
		*request = r = mem_alloc(sizeof(*r));
		r->http = cls;
		r->connection = connection;
		r->path = mem_strdup(url);
		r->on = MHD_get_connection_info(connection, MHD_CONNECTION_INFO_SOCKET_CONTEXT)
				->socket_context;
		http_touch(r->http, r->on, r);
		return begin(r, url, method);
	}
	if (r->late)
		return http_queue(r, r->late_status, TAKE_PTR(r->late));
	if (!r->route || r->answered) {
		*upload_len = 0;
		return MHD_YES;
	}
	if (*upload_len)
		return take_body(r, upload, upload_len);
	if (r->discarded)
		return refuse(r, 413, NULL, "the body is too large");
	if (r->crowded_out) {
		r->http->stats.crowded_out++;
		return refuse(r, 503, NULL,
			      "too many large bodies at once; send it again a little later");
	}
	if (r->http->stopping)
		return refuse(r, 503, NULL, GOING_DOWN);
	r->route->fn(r->http->ctx, r);
	return MHD_YES;
}

static void on_end(void *cls, struct MHD_Connection *connection, void **request,
		   enum MHD_RequestTerminationCode code)
{
	struct http_request *r = *request;

	(void)connection;
	(void)code;
	if (!r)
		return;
	http_touch(cls, r->on, NULL);
	if (r->late)
		MHD_destroy_response(r->late);
	free(r->path);
	free(r->star);
	free_body(r);
	free(r);
	*request = NULL;
}

/* ---- the loop ------------------------------------------------------------------------------ */

static void run(void *ctx, int what)
{
	struct http *h = ctx;
	MHD_UNSIGNED_LONG_LONG timeout;

	(void)what;
	/* It may have more to do at once, which its descriptor does not tell. */
	for (int i = 0; i < RUNS_MAX; i++) {
		MHD_run(h->daemon);
		if (MHD_get_timeout(h->daemon, &timeout) != MHD_YES || timeout > 0)
			return;
	}
	eventfd_write(h->wake, 1);
}

static void on_wake(void *ctx, int fd)
{
	eventfd_t ignored;

	eventfd_read(fd, &ignored);
	run(ctx, 0);
}

static void on_timer(void *ctx, int what)
{
	http_drop_slow(ctx);
	run(ctx, what);
}

static bool has_answers(const struct http *h)
{
	for (const struct connection *c = h->oldest; c; c = c->next)
		if (!c->dropped && c->request && (c->request->late || c->request->answered))
			return true;
	return false;
}

/* Until all answers are taken, or for as long as it is waited for that. */
static void send_last(struct http *h)
{
	uint64_t end = clock_ms(CLOCK_MONOTONIC) + LAST_MS;

	do {
		struct pollfd p = {.fd = h->epoll, .events = POLLIN};
		run(h, 0);
		if (!has_answers(h))
			return;
		poll(&p, 1, 10);
	} while (clock_ms(CLOCK_MONOTONIC) < end);
}

/* ---- start and end ------------------------------------------------------------------------- */

static int complain(struct http_error *ret, int err, const char *address, const char *why)
{
	snprintf(ret->text, sizeof(ret->text), "cannot listen on %.80s: %.150s", address, why);
	return err;
}

static void copy_hosts(struct http *h, const struct http_options *o)
{
	h->hosts = mem_alloc_array(o->host_count + 1, sizeof(*h->hosts));
	for (size_t i = 0; i < o->host_count; i++)
		h->hosts[h->host_count++] = mem_strdup(o->hosts[i]);
}

/* An escaped NUL stays escaped: what stands behind it would be lost without a trace. */
static size_t unescape(void *ctx, struct MHD_Connection *c, char *s)
{
	(void)ctx;
	(void)c;
	return strstr(s, "%00") ? strlen(s) : MHD_http_unescape(s);
}

/* What MHD has to say (a malformed request) is nothing that an operator can act on. */
static void no_log(void *cls, const char *fmt, va_list ap)
{
	(void)cls;
	(void)fmt;
	(void)ap;
}

/* The socket is the daemon's when this returns 0. */
static int start_daemon(struct http *h, const struct http_options *o, int fd,
			struct http_error *ret_err)
{
	unsigned flags = MHD_USE_EPOLL | MHD_ALLOW_SUSPEND_RESUME | MHD_USE_ERROR_LOG;
	struct MHD_OptionItem tls[] = {
		{MHD_OPTION_HTTPS_MEM_CERT, 0, (void *)o->tls_cert},
		{MHD_OPTION_HTTPS_MEM_KEY, 0, (void *)o->tls_key},
		{MHD_OPTION_END, 0, NULL},
	};
	const char *why;

	if (o->tls_cert) {
		int r = tls_load(&why);
		if (r)
			return complain(ret_err, r, o->listen, why);
		flags |= MHD_USE_TLS;
	} else {
		tls[0] = tls[2];
	}
	h->daemon = MHD_start_daemon(
		flags, 0, NULL, NULL, on_request, h, MHD_OPTION_LISTEN_SOCKET, fd,
		MHD_OPTION_EXTERNAL_LOGGER, no_log, NULL, MHD_OPTION_UNESCAPE_CALLBACK, unescape,
		NULL, MHD_OPTION_NOTIFY_COMPLETED, on_end, h, MHD_OPTION_NOTIFY_CONNECTION,
		http_on_connection, h, MHD_OPTION_CONNECTION_LIMIT, HTTP_CONNECTIONS_MAX,
		MHD_OPTION_CONNECTION_TIMEOUT, IDLE_SECONDS, MHD_OPTION_CONNECTION_MEMORY_LIMIT,
		(size_t)CONNECTION_ROOM, MHD_OPTION_ARRAY, tls, MHD_OPTION_END);
	if (h->daemon)
		return 0;
	return complain(ret_err, -EIO, o->listen,
			o->tls_cert ? "the certificate or its key cannot be used"
				    : "the HTTP server did not start");
}

DEFINE_CLEANUP(struct http *, http_free)

int http_new(struct loop *l, const struct http_options *o, struct http **ret,
	     struct http_error *ret_err)
{
	CLEANUP(http_freep) struct http *h = mem_alloc(sizeof(*h));
	int fd;

	h->epoll = h->listener = -1;
	h->wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	h->loop = l;
	h->routes = o->routes;
	h->ctx = o->ctx;
	copy_hosts(h, o);
	h->guard = o->guard;
	h->unguarded = o->unguarded;
	peer_init(&h->peer);
	const char *why;
	int r = listen_open(o->listen, o->may_be_public, &fd, &h->is_public, &why);
	if (r)
		return complain(ret_err, r, o->listen, why);
	listen_address(fd, h->address);
	r = start_daemon(h, o, fd, ret_err);
	if (r) {
		close(fd);
		return r;
	}
	h->epoll = MHD_get_daemon_info(h->daemon, MHD_DAEMON_INFO_EPOLL_FD)->epoll_fd;
	r = h->wake < 0 ? -EMFILE : loop_fd(l, h->epoll, run, h);
	if (!r)
		r = loop_fd(l, h->wake, on_wake, h);
	if (!r)
		r = loop_timer(l, TIMEOUTS_MS, on_timer, h);
	if (r)
		return complain(ret_err, r, o->listen, strerror(-r));
	*ret = TAKE_PTR(h);
	return 0;
}

void http_stop(struct http *h)
{
	if (!h || h->stopping || !h->daemon)
		return;
	h->stopping = true;
	h->listener = MHD_quiesce_daemon(h->daemon);
}

void http_free(struct http *h)
{
	if (!h)
		return;
	http_stop(h);
	if (h->epoll >= 0)
		loop_remove_fd(h->loop, h->epoll);
	if (h->wake >= 0)
		loop_remove_fd(h->loop, h->wake);
	if (h->daemon) {
		send_last(h);
		MHD_stop_daemon(h->daemon);
	}
	fd_closep(&h->listener);
	fd_closep(&h->wake);
	peer_done(&h->peer);
	for (size_t i = 0; i < h->host_count; i++)
		free(h->hosts[i]);
	free(h->hosts);
	free(h);
}

const char *http_address(const struct http *h)
{
	return h->address;
}

bool http_is_public(const struct http *h)
{
	return h->is_public;
}

void http_stats(const struct http *h, struct http_stats *ret)
{
	const union MHD_DaemonInfo *info =
		MHD_get_daemon_info(h->daemon, MHD_DAEMON_INFO_CURRENT_CONNECTIONS);

	*ret = h->stats;
	ret->connections = info ? info->num_connections : 0;
}
