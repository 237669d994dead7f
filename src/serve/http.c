#include "serve/http.h"

#include <arpa/inet.h>
#include <errno.h>
#include <microhttpd.h>
#include <netdb.h>
#include <stdarg.h>
#include <sys/socket.h>

#include "base/mem.h"
#include "base/text.h"
#include "render/escape.h"
#include "serve/tls.h"

#define PORT_DEFAULT    "7117"
#define CONNECTIONS_MAX 128
#define CONNECTION_ROOM (32u << 10) /* URL, headers, and the buffers of a connection */
#define IDLE_SECONDS    30
#define DISCARD_MAX     (1u << 20) /* of a body that is too long: then the connection ends */
#define TIMEOUTS_MS     5000       /* how often idle connections are looked for */

struct http {
	struct loop *loop;
	struct MHD_Daemon *daemon;
	const struct http_route *routes;
	void *ctx;
	char **hosts;
	size_t host_count;
	char address[80];
	int epoll;
	bool running; /* inside MHD_run */
	struct http_stats stats;
};

struct http_request {
	struct http *http;
	struct MHD_Connection *connection;
	const struct http_route *route; /* NULL: refused already */
	char *star;
	uint8_t *body;
	size_t len, cap, discarded;
	bool held, answered;
	struct MHD_Response *late; /* of a request that was held: queued when it is called again */
	unsigned late_status;
};

/* ---- who may ask --------------------------------------------------------------------------- */

/* The host of "host:port" or "[v6]:port", without port and brackets. */
static bool split_host(const char *s, char ret[static 256])
{
	bool bracket = *s == '[';

	s += bracket;
	size_t len = strcspn(s, bracket ? "]" : ":");
	if (!len || len > 255 || (bracket && s[len] != ']'))
		return false;
	memcpy(ret, s, len);
	ret[len] = '\0';
	return true;
}

static bool is_address(const char *host)
{
	struct in6_addr a;

	return inet_pton(AF_INET, host, &a) == 1 || inet_pton(AF_INET6, host, &a) == 1;
}

/* An attacker's page can have any name point here, but it cannot make a browser send another's. */
static bool host_is_fine(const struct http *h, const char *value)
{
	char host[256], own[256];

	if (!value || !split_host(value, host))
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

/* A page of another place names itself in Origin; ours has the same host and port as Host. */
static bool origin_is_fine(const char *origin, const char *host)
{
	if (!origin)
		return true;
	const char *place = strstr(origin, "://");
	return place && host && strcasecmp(place + 3, host) == 0;
}

/* ---- answers ------------------------------------------------------------------------------- */

static void run_soon(struct http *h);

static struct MHD_Response *response_of(const struct http_answer *a)
{
	struct MHD_Response *response =
		MHD_create_response_from_buffer(a->len, a->body, MHD_RESPMEM_MUST_FREE);

	MHD_add_response_header(response, "Content-Type", a->type);
	MHD_add_response_header(response, "X-Content-Type-Options", "nosniff");
	MHD_add_response_header(response, "Cross-Origin-Resource-Policy", "same-origin");
	bool cached = false;
	for (size_t i = 0; i < HTTP_HEADERS; i++) {
		if (!a->headers[i].name || !a->headers[i].value)
			continue;
		MHD_add_response_header(response, a->headers[i].name, a->headers[i].value);
		cached |= strcmp(a->headers[i].name, "Cache-Control") == 0;
	}
	if (!cached)
		MHD_add_response_header(response, "Cache-Control", "no-store");
	return response;
}

static enum MHD_Result queue(struct http_request *r, unsigned status, struct MHD_Response *response)
{
	enum MHD_Result ok = MHD_queue_response(r->connection, status, response);

	MHD_destroy_response(response);
	r->answered = true;
	r->http->stats.by_class[MIN(status / 100, 5u)]++;
	return ok;
}

void http_hold(struct http_request *r)
{
	r->held = true;
	MHD_suspend_connection(r->connection);
}

void http_answer(struct http_request *r, const struct http_answer *a)
{
	struct MHD_Response *response = response_of(a);

	if (!r->held) {
		queue(r, a->status, response);
		return;
	}
	r->late = response;
	r->late_status = a->status;
	MHD_resume_connection(r->connection);
	run_soon(r->http);
}

static void fail(struct http_request *r, unsigned status, const char *allow, const char *text)
{
	char clean[TEXT_MAX + 1];
	char *body = NULL;
	size_t len;
	FILE *f = open_memstream(&body, &len);

	fputs("{\"error\":", f);
	escape_json(f, clean, text_clean(text, strlen(text), clean));
	fputs("}\n", f);
	fclose(f);
	http_answer(r, &(struct http_answer){
			       .status = status,
			       .type = "application/json",
			       .body = body,
			       .len = len,
			       .headers = {{"Allow", allow},
					   {"Retry-After", status == 503 ? "1" : NULL}},
		       });
}

void http_fail(struct http_request *r, unsigned status, const char *fmt, ...)
{
	char text[TEXT_MAX];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	fail(r, status, NULL, text);
}

static enum MHD_Result refuse(struct http_request *r, unsigned status, const char *allow,
			      const char *text)
{
	r->http->stats.refused++;
	r->route = NULL;
	fail(r, status, allow, text);
	return MHD_YES;
}

/* ---- requests ------------------------------------------------------------------------------ */

const char *http_param(const struct http_request *r, const char *name)
{
	return MHD_lookup_connection_value(r->connection, MHD_GET_ARGUMENT_KIND, name);
}

const char *http_header(const struct http_request *r, const char *name)
{
	return MHD_lookup_connection_value(r->connection, MHD_HEADER_KIND, name);
}

const char *http_star(const struct http_request *r)
{
	return r->star ? r->star : "";
}

const void *http_body(const struct http_request *r, size_t *ret_len)
{
	*ret_len = r->len;
	return r->body;
}

int http_fd(const struct http_request *r)
{
	const union MHD_ConnectionInfo *info =
		MHD_get_connection_info(r->connection, MHD_CONNECTION_INFO_CONNECTION_FD);

	return info ? info->connect_fd : -1;
}

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

/* With the head of a request: what can be said before its body. */
static enum MHD_Result begin(struct http_request *r, const char *url, const char *method)
{
	const char *host = http_header(r, "Host"), *length = http_header(r, "Content-Length");
	const char *allow;

	r->http->stats.requests++;
	if (!host_is_fine(r->http, host))
		return refuse(
			r, 403, NULL,
			"the Host of this request is not a name of this server; 'smolder serve "
			"--host NAME' allows one");
	if (!origin_is_fine(http_header(r, "Origin"), host))
		return refuse(r, 403, NULL, "a page of another place may not ask here");
	r->route = find_route(r->http, method, url, &r->star, &allow);
	if (!r->route && allow)
		return refuse(r, 405, allow, "that path takes another method");
	if (!r->route)
		return refuse(r, 404, NULL, "there is nothing at that path; docs/api.md lists all");
	if (length && strtoull(length, NULL, 10) > r->route->body_max)
		return refuse(r, 413, NULL, "the body is too large");
	return MHD_YES;
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
	if (r->len + n > r->cap) {
		r->cap = MAX(r->len + n, 2 * r->cap);
		r->body = mem_resize_array(r->body, r->cap, 1);
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
		return begin(r, url, method);
	}
	if (r->late)
		return queue(r, r->late_status, TAKE_PTR(r->late));
	if (!r->route || r->answered) {
		*upload_len = 0;
		return MHD_YES;
	}
	if (*upload_len)
		return take_body(r, upload, upload_len);
	if (r->discarded)
		return refuse(r, 413, NULL, "the body is too large");
	r->route->fn(r->http->ctx, r);
	return MHD_YES;
}

static void on_end(void *cls, struct MHD_Connection *connection, void **request,
		   enum MHD_RequestTerminationCode code)
{
	struct http_request *r = *request;

	(void)cls;
	(void)connection;
	(void)code;
	if (!r)
		return;
	if (r->late)
		MHD_destroy_response(r->late);
	free(r->star);
	free(r->body);
	free(r);
	*request = NULL;
}

/* ---- the loop ------------------------------------------------------------------------------ */

static void run(void *ctx, int what)
{
	struct http *h = ctx;
	MHD_UNSIGNED_LONG_LONG timeout;

	(void)what;
	h->running = true;
	/* It may have more to do at once, which its descriptor does not tell. */
	for (int i = 0; i < 64; i++) {
		MHD_run(h->daemon);
		if (MHD_get_timeout(h->daemon, &timeout) != MHD_YES || timeout > 0)
			break;
	}
	h->running = false;
}

static void run_soon(struct http *h)
{
	if (!h->running)
		run(h, 0);
}

/* ---- listening ----------------------------------------------------------------------------- */

static int complain(struct http_error *ret, int err, const char *address, const char *why)
{
	snprintf(ret->text, sizeof(ret->text), "cannot listen on %.80s: %.120s", address, why);
	return err;
}

/* "addr:port", "[v6]:port", ":port", "port". */
static bool split_listen(const char *s, char host[static 256], char port[static 16])
{
	const char *colon = strrchr(s, ':');
	const char *number = colon ? colon + 1 : s;

	if (*s == '[' && colon && colon[-1] != ']')
		return false;
	snprintf(port, 16, "%s", *number ? number : PORT_DEFAULT);
	host[0] = '\0';
	if (strspn(port, "0123456789") != strlen(port) || strlen(number) > 5)
		return false;
	if (!colon)
		snprintf(host, 256, "127.0.0.1");
	else if (colon > s)
		return split_host(s, host);
	return true;
}

static void note_address(struct http *h, int fd)
{
	struct sockaddr_storage a;
	socklen_t len = sizeof(a);
	char host[64], port[16];

	if (getsockname(fd, (struct sockaddr *)&a, &len) != 0 ||
	    getnameinfo((struct sockaddr *)&a, len, host, sizeof(host), port, sizeof(port),
			NI_NUMERICHOST | NI_NUMERICSERV) != 0)
		return;
	snprintf(h->address, sizeof(h->address), strchr(host, ':') ? "[%s]:%s" : "%s:%s", host,
		 port);
}

static int listen_on(const char *address, int *ret_fd, struct http_error *ret_err)
{
	struct addrinfo hints = {.ai_socktype = SOCK_STREAM,
				 .ai_flags = AI_PASSIVE | AI_NUMERICSERV},
			*found;
	char host[256], port[16];

	if (!split_listen(address, host, port))
		return complain(ret_err, -EINVAL, address, "it should be ADDRESS:PORT");
	int r = getaddrinfo(*host ? host : NULL, port, &hints, &found);
	if (r)
		return complain(ret_err, -EINVAL, address, gai_strerror(r));

	CLEANUP(fd_closep)
	int fd = socket(found->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	int one = 1;
	if (fd >= 0)
		setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one));
	if (fd < 0 || bind(fd, found->ai_addr, found->ai_addrlen) != 0 || listen(fd, 64) != 0)
		r = -errno;
	freeaddrinfo(found);
	if (r)
		return complain(ret_err, r, address, strerror(-r));
	*ret_fd = TAKE_FD(fd);
	return 0;
}

static void copy_hosts(struct http *h, const struct http_options *o)
{
	h->hosts = mem_alloc_array(o->host_count + 1, sizeof(*h->hosts));
	for (size_t i = 0; i < o->host_count; i++)
		h->hosts[h->host_count++] = mem_strdup(o->hosts[i]);
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
		MHD_OPTION_EXTERNAL_LOGGER, no_log, NULL, MHD_OPTION_NOTIFY_COMPLETED, on_end, h,
		MHD_OPTION_CONNECTION_LIMIT, CONNECTIONS_MAX, MHD_OPTION_CONNECTION_TIMEOUT,
		IDLE_SECONDS, MHD_OPTION_CONNECTION_MEMORY_LIMIT, (size_t)CONNECTION_ROOM,
		MHD_OPTION_ARRAY, tls, MHD_OPTION_END);
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

	h->epoll = -1;
	h->loop = l;
	h->routes = o->routes;
	h->ctx = o->ctx;
	copy_hosts(h, o);
	int r = listen_on(o->listen, &fd, ret_err);
	if (r)
		return r;
	note_address(h, fd);
	r = start_daemon(h, o, fd, ret_err);
	if (r) {
		close(fd);
		return r;
	}
	h->epoll = MHD_get_daemon_info(h->daemon, MHD_DAEMON_INFO_EPOLL_FD)->epoll_fd;
	r = loop_fd(l, h->epoll, run, h);
	if (!r)
		r = loop_timer(l, TIMEOUTS_MS, run, h);
	if (r)
		return complain(ret_err, r, o->listen, strerror(-r));
	*ret = TAKE_PTR(h);
	return 0;
}

void http_free(struct http *h)
{
	if (!h)
		return;
	if (h->epoll >= 0)
		loop_forget_fd(h->loop, h->epoll);
	if (h->daemon)
		MHD_stop_daemon(h->daemon);
	for (size_t i = 0; i < h->host_count; i++)
		free(h->hosts[i]);
	free(h->hosts);
	free(h);
}

const char *http_address(const struct http *h)
{
	return h->address;
}

void http_stats(const struct http *h, struct http_stats *ret)
{
	const union MHD_DaemonInfo *info =
		MHD_get_daemon_info(h->daemon, MHD_DAEMON_INFO_CURRENT_CONNECTIONS);

	*ret = h->stats;
	ret->connections = info ? info->num_connections : 0;
}
