#include "serve/http.h"

#include <arpa/inet.h>
#include <errno.h>
#include <microhttpd.h>
#include <netdb.h>
#include <poll.h>
#include <stdarg.h>
#include <sys/eventfd.h>
#include <sys/socket.h>

#include "base/clock.h"
#include "base/mem.h"
#include "base/text.h"
#include "render/escape.h"
#include "serve/peer.h"
#include "serve/tls.h"

#define PORT_DEFAULT    "7117"
#define CONNECTIONS_MAX 256
#define CONNECTIONS_FEW 32 /* that are kept free */
#define BACKLOG         512
#define CONNECTION_ROOM (32u << 10) /* URL, headers, and the buffers of a connection */
#define IDLE_SECONDS    30
#define REQUEST_MS      60000      /* from the end of the last to the whole of the next */
#define TAKING_MS       600000     /* for an answer to be taken */
#define DISCARD_MAX     (1u << 20) /* of a body that is too long: then the connection ends */
#define TIMEOUTS_MS     5000       /* how often idle connections are looked for */
#define LAST_MS         500        /* for the last answers to be taken */
#define RUNS_MAX        64         /* of the daemon, before others have their turn */
#define PPROF           "/debug/pprof/"
#define GOING_DOWN      "the server is going down"

/* In order of the last thing that happened on them: `since_ms`. */
struct connection {
	struct connection *prev, *next;
	struct MHD_Connection *mhd;
	struct http_request *request; /* NULL: between two, or its head is not complete */
	uint64_t since_ms;            /* CLOCK_MONOTONIC */
	enum { NOT_ASKED, OWNED, UNOWNED } owned;
	uid_t owner;
	bool dropped; /* its end is on the way */
};

struct http {
	struct loop *loop;
	struct MHD_Daemon *daemon;
	const struct http_route *routes;
	void *ctx;
	char **hosts;
	size_t host_count;
	char address[80];
	bool is_public;
	http_guard_fn *guard;
	const char *const *unguarded;
	struct peer peer;
	int epoll;
	int wake; /* an eventfd: the daemon has more to do */
	bool stopping;
	int listener; /* that the daemon listened on, when it does no more; else -1 */
	struct connection *oldest, *newest;
	uint32_t connection_count; /* that are not dropped */
	struct http_stats stats;
};

struct http_request {
	struct http *http;
	struct MHD_Connection *connection;
	const struct http_route *route; /* NULL: refused already */
	struct connection *on;
	char *path;
	char *star;
	uint8_t *body;
	size_t len, cap, discarded;
	bool held, answered;
	bool plain;                /* errors are for go tool pprof */
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
	const char *place = origin ? strstr(origin, "://") : NULL;

	if (is(site, "same-origin"))
		return !place || strcasecmp(place + 3, host) == 0;
	if (origin && (!place || strcasecmp(place + 3, host) != 0))
		return false;
	return !site || is(site, "none") ||
	       (is(http_header(r, "Sec-Fetch-Mode"), "navigate") &&
		is(http_header(r, "Sec-Fetch-Dest"), "document") && strcmp(method, "POST") != 0);
}

/* ---- answers ------------------------------------------------------------------------------- */

static struct MHD_Response *response_of(const struct http *h, const struct http_answer *a)
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
	if (h->stopping)
		MHD_add_response_header(response, "Connection", "close");
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
	struct MHD_Response *response = response_of(r->http, a);

	if (!r->held) {
		queue(r, a->status, response);
		return;
	}
	r->late = response;
	r->late_status = a->status;
	MHD_resume_connection(r->connection);
	eventfd_write(r->http->wake, 1);
}

static void fail(struct http_request *r, unsigned status, const char *allow, const char *text)
{
	char clean[TEXT_MAX + 1];
	size_t clean_len = text_clean(text, strlen(text), clean);
	char *body = NULL;
	size_t len;
	FILE *f = open_memstream(&body, &len);

	if (r->plain) {
		fprintf(f, "%s\n", clean);
	} else {
		fputs("{\"error\":", f);
		escape_json(f, clean, clean_len);
		fputs("}\n", f);
	}
	fclose(f);
	http_answer(r, &(struct http_answer){
			       .status = status,
			       .type = r->plain ? "text/plain; charset=utf-8" : "application/json",
			       .body = body,
			       .len = len,
			       .headers = {{"Allow", allow},
					   {"Retry-After", status == 503 ? "1" : NULL},
					   {"X-Go-Pprof", r->plain ? "1" : NULL},
					   {"WWW-Authenticate",
					    status == 401 ? "Bearer realm=\"smolder\"" : NULL}},
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

const char *http_cookie(const struct http_request *r, const char *name)
{
	return MHD_lookup_connection_value(r->connection, MHD_COOKIE_KIND, name);
}

struct url {
	FILE *out;
	bool any;
};

static enum MHD_Result write_param(void *cls, enum MHD_ValueKind kind, const char *key,
				   const char *value)
{
	struct url *u = cls;

	(void)kind;
	fputc(u->any ? '&' : '?', u->out);
	u->any = true;
	escape_url(u->out, key);
	fputc('=', u->out);
	escape_url(u->out, value ? value : "");
	return MHD_YES;
}

void http_write_url(const struct http_request *r, FILE *out)
{
	CLEANUP(freep) char *text = NULL;
	size_t len;
	struct url u = {.out = open_memstream(&text, &len)};

	fputs(r->path, u.out);
	MHD_get_connection_values(r->connection, MHD_GET_ARGUMENT_KIND, write_param, &u);
	fclose(u.out);
	escape_url(out, text);
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

bool http_sends(const struct http_request *r)
{
	return r->route && r->route->sends;
}

/* Who says that it asks for another: then it is not who owns the connection that counts. */
static bool is_forwarded(const struct http_request *r)
{
	static const char *const headers[] = {"Forwarded", "X-Forwarded-For", "X-Real-IP", "Via"};

	for (size_t i = 0; i < ARRAY_SIZE(headers); i++)
		if (http_header(r, headers[i]))
			return true;
	return false;
}

int http_owner(struct http_request *r, uid_t *ret)
{
	struct connection *c = r->on;

	if (r->http->is_public || !c || is_forwarded(r))
		return -ENOENT;
	if (c->owned == NOT_ASKED) {
		int err = peer_owner(&r->http->peer, http_fd(r), &c->owner);
		c->owned = err ? UNOWNED : OWNED;
		r->http->stats.unowned += err != 0;
	}
	if (c->owned != OWNED)
		return -ENOENT;
	*ret = c->owner;
	return 0;
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

/* ---- connections --------------------------------------------------------------------------- */

static void unlink_connection(struct http *h, struct connection *c)
{
	*(c->prev ? &c->prev->next : &h->oldest) = c->next;
	*(c->next ? &c->next->prev : &h->newest) = c->prev;
}

static void link_newest(struct http *h, struct connection *c)
{
	c->since_ms = clock_ms(CLOCK_MONOTONIC);
	c->prev = h->newest;
	c->next = NULL;
	*(h->newest ? &h->newest->next : &h->oldest) = c;
	h->newest = c;
}

/* Something happened: a request is whole so far, or is over. */
static void touch(struct http *h, struct connection *c, struct http_request *r)
{
	if (!c)
		return;
	unlink_connection(h, c);
	link_newest(h, c);
	c->request = r;
}

/* The daemon closes what has been shut down, in its own time. */
static void drop(struct http *h, struct connection *c)
{
	const union MHD_ConnectionInfo *info =
		MHD_get_connection_info(c->mhd, MHD_CONNECTION_INFO_CONNECTION_FD);

	c->dropped = true;
	h->connection_count--;
	h->stats.dropped++;
	if (info)
		shutdown(info->connect_fd, SHUT_RDWR);
}

/* Who is being worked for stays; who takes an answer goes last. */
static void make_room(struct http *h)
{
	struct connection *taking = NULL;

	for (struct connection *c = h->oldest; c; c = c->next) {
		if (c->dropped || (c->request && c->request->held && !c->request->answered))
			continue;
		if (!c->request || !c->request->answered) {
			drop(h, c);
			return;
		}
		taking = taking ? taking : c;
	}
	if (taking)
		drop(h, taking);
}

static void on_connection(void *cls, struct MHD_Connection *connection, void **context,
			  enum MHD_ConnectionNotificationCode code)
{
	struct http *h = cls;
	struct connection *c = *context;

	if (code == MHD_CONNECTION_NOTIFY_STARTED) {
		if (h->connection_count >= CONNECTIONS_MAX - CONNECTIONS_FEW)
			make_room(h);
		*context = c = mem_alloc(sizeof(*c));
		c->mhd = connection;
		link_newest(h, c);
		h->connection_count++;
	} else if (c) {
		unlink_connection(h, c);
		h->connection_count -= !c->dropped;
		free(c);
		*context = NULL;
	}
}

/* A byte now and then keeps nobody. */
static void drop_slow(struct http *h)
{
	uint64_t now = clock_ms(CLOCK_MONOTONIC);

	for (struct connection *c = h->oldest; c; c = c->next) {
		bool is_answered = c->request && c->request->answered;
		if (c->dropped || (c->request && c->request->held && !is_answered))
			continue;
		if (now - c->since_ms > (is_answered ? TAKING_MS : REQUEST_MS))
			drop(h, c);
	}
}

/* ---- the life of a request ----------------------------------------------------------------- */

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
		return refuse(
			r, 403, NULL,
			"the Host of this request is not a name of this server; 'smolder serve "
			"--names NAME' allows one");
	if (!origin_is_fine(r, method, host))
		return refuse(
			r, 403, NULL,
			"cross-origin request refused: this server answers its own page alone");
	r->route = find_route(r->http, method, url, &r->star, &allow);
	if (!r->route && allow)
		return refuse(r, 405, allow, "that path takes another method");
	if (!r->route)
		return refuse(r, 404, NULL, "there is nothing at that path; docs/api.md lists all");
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
		r->path = mem_strdup(url);
		r->on = MHD_get_connection_info(connection, MHD_CONNECTION_INFO_SOCKET_CONTEXT)
				->socket_context;
		touch(r->http, r->on, r);
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
	touch(cls, r->on, NULL);
	if (r->late)
		MHD_destroy_response(r->late);
	free(r->path);
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
	drop_slow(ctx);
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

/* ---- listening ----------------------------------------------------------------------------- */

static int complain(struct http_error *ret, int err, const char *address, const char *why)
{
	snprintf(ret->text, sizeof(ret->text), "cannot listen on %.80s: %.150s", address, why);
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
	if (strspn(port, "0123456789") != strlen(port) || strlen(number) > 5 ||
	    strtoul(port, NULL, 10) > UINT16_MAX)
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

static bool is_loopback(const struct sockaddr *a)
{
	const struct in6_addr *v6 = &((const struct sockaddr_in6 *)a)->sin6_addr;
	uint32_t v4 = ntohl(((const struct sockaddr_in *)a)->sin_addr.s_addr);

	if (a->sa_family == AF_INET)
		return v4 >> 24 == IN_LOOPBACKNET;
	return a->sa_family == AF_INET6 &&
	       (IN6_IS_ADDR_LOOPBACK(v6) ||
		(IN6_IS_ADDR_V4MAPPED(v6) && v6->s6_addr[12] == IN_LOOPBACKNET));
}

bool http_is_listen(const char *listen)
{
	char host[256], port[16];

	return split_listen(listen, host, port);
}

bool http_is_loopback(const char *listen)
{
	struct addrinfo hints = {.ai_socktype = SOCK_STREAM,
				 .ai_flags = AI_PASSIVE | AI_NUMERICSERV},
			*found;
	char host[256], port[16];

	if (!split_listen(listen, host, port) ||
	    getaddrinfo(*host ? host : NULL, port, &hints, &found) != 0)
		return false;
	bool yes = is_loopback(found->ai_addr);
	freeaddrinfo(found);
	return yes;
}

static int listen_on(struct http *h, const char *address, bool may_be_public, int *ret_fd,
		     struct http_error *ret_err)
{
	struct addrinfo hints = {.ai_socktype = SOCK_STREAM,
				 .ai_flags = AI_PASSIVE | AI_NUMERICSERV},
			*found;
	char host[256], port[16];

	if (!split_listen(address, host, port))
		return complain(ret_err, -EINVAL, address,
				"it should be ADDRESS:PORT, with a port up to 65535");
	int r = getaddrinfo(*host ? host : NULL, port, &hints, &found);
	if (r)
		return complain(ret_err, -EINVAL, address, gai_strerror(r));
	h->is_public = !is_loopback(found->ai_addr);
	if (h->is_public && !may_be_public) {
		freeaddrinfo(found);
		return complain(ret_err, -EACCES, address,
				"others could ask there what this machine does; give a token "
				"(--token-file FILE), or listen on 127.0.0.1");
	}

	CLEANUP(fd_closep)
	int fd = socket(found->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	int one = 1;
	if (fd >= 0)
		setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one));
	if (fd < 0 || bind(fd, found->ai_addr, found->ai_addrlen) != 0 || listen(fd, BACKLOG) != 0)
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
		on_connection, h, MHD_OPTION_CONNECTION_LIMIT, CONNECTIONS_MAX,
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
	int r = listen_on(h, o->listen, o->may_be_public, &fd, ret_err);
	if (r)
		return r;
	note_address(h, fd);
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
		loop_forget_fd(h->loop, h->epoll);
	if (h->wake >= 0)
		loop_forget_fd(h->loop, h->wake);
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
