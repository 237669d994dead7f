#include "base/fetch.h"

#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <time.h>

#include "base/clock.h"
#include "base/curl.h"
#include "base/loop.h"
#include "base/mem.h"

#define HEAD_MAX (64u << 10)
#define SLICE_MS 100

struct fetching {
	const struct fetch_request *request;
	uint64_t began_ms;
	char *bytes; /* of the answer, with its headers */
	size_t len, cap;
	struct fetch_error *err;
};

static int failed(struct fetch_error *err, int code, const char *why)
{
	snprintf(err->text, sizeof(err->text), "%s", why);
	return code;
}

static int go_on(struct fetching *f)
{
	const struct fetch_request *r = f->request;
	uint64_t waited = clock_ms(CLOCK_MONOTONIC) - f->began_ms;

	if (r->wait && !r->wait(r->wait_ctx, waited, f->len))
		return failed(f->err, -ECANCELED, "interrupted");
	if (r->timeout_ms && waited > r->timeout_ms)
		return failed(f->err, -ETIMEDOUT, "timed out");
	return 0;
}

/* Waits until the socket is ready, or the request is given up. */
static int wait_for(struct fetching *f, int fd, short events)
{
	for (;;) {
		struct pollfd p = {.fd = fd, .events = events};
		int r = go_on(f);
		if (r)
			return r;
		int n = poll(&p, 1, SLICE_MS);
		if (n > 0)
			return 0;
		if (n < 0 && errno != EINTR)
			return failed(f->err, -errno, strerror(errno));
	}
}

static int put(struct fetching *f, const void *bytes, size_t len)
{
	if (f->len + len > f->request->max + HEAD_MAX)
		return failed(f->err, -EFBIG, "the answer is too large");
	if (f->len + len + 1 > f->cap) {
		f->cap = MAX(f->len + len + 1, MAX(2 * f->cap, (size_t)4096));
		f->bytes = mem_resize_array(f->bytes, f->cap, 1);
	}
	memcpy(f->bytes + f->len, bytes, len);
	f->len += len;
	f->bytes[f->len] = '\0';
	return 0;
}

/* ---- without TLS ---------------------------------------------------------------------------- */

struct endpoint {
	char host[256], port[8];
	const char *path;
};

/* getaddrinfo() accepts larger numbers, and truncates them to another port. */
static bool is_port(const char *text)
{
	size_t len = strlen(text);
	unsigned long n = strtoul(text, NULL, 10);

	return len <= 5 && strspn(text, "0123456789") == len && n > 0 && n <= UINT16_MAX;
}

static bool split_url(const char *url, struct endpoint *ret)
{
	const char *at = strstr(url, "://") + strlen("://");
	const char *end = at + strcspn(at, "/?#");
	const char *host_end = memchr(at, ':', (size_t)(end - at)), *port = "80";
	size_t port_len = 2;

	if (*at == '[') {
		const char *close = memchr(at, ']', (size_t)(end - at));
		if (!close)
			return false;
		host_end = close[1] == ':' ? close + 1 : NULL;
		ret->host[0] = '\0';
	}
	if (host_end) {
		port = host_end + 1;
		port_len = (size_t)(end - port);
	}
	const char *stop = host_end ? host_end : end;
	size_t len = (size_t)(stop - at);
	if (*at == '[') {
		at++;
		len -= 2;
	}
	if (!len || len >= sizeof(ret->host) || !port_len || port_len >= sizeof(ret->port))
		return false;
	snprintf(ret->host, sizeof(ret->host), "%.*s", (int)len, at);
	snprintf(ret->port, sizeof(ret->port), "%.*s", (int)port_len, port);
	ret->path = end;
	return is_port(ret->port);
}

bool fetch_is_url(const char *url)
{
	struct endpoint endpoint;

	return (strncmp(url, "http://", 7) == 0 || strncmp(url, "https://", 8) == 0) &&
	       split_url(url, &endpoint);
}

static int try_connect(struct fetching *f, const struct addrinfo *a, int *ret_fd)
{
	CLEANUP(fd_closep)
	int fd = socket(a->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	int err = 0;
	socklen_t len = sizeof(err);

	if (fd < 0)
		return failed(f->err, -errno, strerror(errno));
	if (connect(fd, a->ai_addr, a->ai_addrlen) != 0) {
		if (errno != EINPROGRESS)
			return failed(f->err, -errno, strerror(errno));
		int r = wait_for(f, fd, POLLOUT);
		if (r)
			return r;
		getsockopt(fd, SOL_SOCKET, SO_ERROR, &err, &len);
		if (err)
			return failed(f->err, -err, strerror(err));
	}
	*ret_fd = TAKE_FD(fd);
	return 0;
}

/* A name being resolved; freed by whichever of the two threads is done last. */
struct lookup {
	struct endpoint endpoint;
	int result;
	struct addrinfo *found;
	int event; /* an eventfd that says it is done */
	atomic_int users;
};

static void lookup_drop(struct lookup *l)
{
	if (atomic_fetch_sub(&l->users, 1) != 1)
		return;
	if (l->found)
		freeaddrinfo(l->found);
	close(l->event);
	free(l);
}

static void *look_up(void *ctx)
{
	struct addrinfo hints = {.ai_socktype = SOCK_STREAM};
	struct lookup *l = ctx;

	l->result = getaddrinfo(l->endpoint.host, l->endpoint.port, &hints, &l->found);
	eventfd_write(l->event, 1);
	lookup_drop(l);
	return NULL;
}

static int start_lookup(struct lookup *l)
{
	pthread_t thread;
	int r = loop_thread(&thread, look_up, l);

	if (!r)
		pthread_detach(thread);
	return r;
}

/* 0 with *ret for freeaddrinfo(). */
static int resolve(struct fetching *f, const struct endpoint *p, struct addrinfo **ret)
{
	struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_flags = AI_NUMERICHOST};

	if (getaddrinfo(p->host, p->port, &hints, ret) == 0)
		return 0; /* it is an address, not a name */
	struct lookup *l = mem_alloc(sizeof(*l));
	l->endpoint = *p;
	l->event = eventfd(0, EFD_CLOEXEC);
	atomic_store(&l->users, 2);
	int r = l->event < 0 ? -errno : start_lookup(l);
	if (r) {
		atomic_store(&l->users, 1); /* the thread does not exist */
		lookup_drop(l);
		return failed(f->err, r, strerror(-r));
	}
	r = wait_for(f, l->event, POLLIN);
	if (!r && l->result)
		r = failed(f->err, -EHOSTUNREACH, gai_strerror(l->result));
	else if (!r)
		*ret = TAKE_PTR(l->found);
	lookup_drop(l);
	return r;
}

static int connect_to(struct fetching *f, const struct endpoint *p, int *ret_fd)
{
	struct addrinfo *found;

	int r = resolve(f, p, &found);
	if (r)
		return r;
	r = -EHOSTUNREACH;
	for (const struct addrinfo *a = found; a && r && r != -ECANCELED; a = a->ai_next)
		r = try_connect(f, a, ret_fd);
	freeaddrinfo(found);
	return r;
}

static int send_all(struct fetching *f, int fd, const char *bytes, size_t len)
{
	while (len) {
		ssize_t n = send(fd, bytes, len, MSG_NOSIGNAL);
		if (n > 0) {
			bytes += n;
			len -= (size_t)n;
		} else if (n < 0 && errno == EAGAIN) {
			int r = wait_for(f, fd, POLLOUT);
			if (r)
				return r;
		} else if (n < 0 && errno == EPIPE) {
			return 0; /* the server may have answered early */
		} else if (n < 0 && errno != EINTR) {
			return failed(f->err, -errno, strerror(errno));
		}
	}
	return 0;
}

static int send_request(struct fetching *f, int fd, const struct endpoint *p)
{
	const struct fetch_request *r = f->request;
	const char *slash = *p->path == '/' ? "" : "/";
	bool v6 = strchr(p->host, ':');

	/* With HTTP/1.0 the answer is not chunked and ends with the connection. */
	CLEANUP(freep)
	char *head = mem_printf("%s %s%.*s HTTP/1.0\r\nHost: %s%s%s:%s\r\n"
				"User-Agent: smolder/%s\r\n",
				r->method ? r->method : "GET", slash, (int)strcspn(p->path, "#"),
				p->path, v6 ? "[" : "", p->host, v6 ? "]" : "", p->port,
				SMOLDER_VERSION);
	int e = send_all(f, fd, head, strlen(head));
	if (!e && r->body) {
		CLEANUP(freep)
		char *more =
			mem_printf("Content-Type: %s\r\nContent-Length: %zu\r\n",
				   r->content_type ? r->content_type : "application/octet-stream",
				   r->body_len);
		e = send_all(f, fd, more, strlen(more));
	}
	if (!e && r->authorization) {
		CLEANUP(freep)
		char *more = mem_printf("Authorization: %s\r\n", r->authorization);
		e = send_all(f, fd, more, strlen(more));
	}
	if (!e && r->headers)
		e = send_all(f, fd, r->headers, strlen(r->headers));
	if (!e)
		e = send_all(f, fd, "\r\n", 2);
	return e || !r->body ? e : send_all(f, fd, r->body, r->body_len);
}

static int receive(struct fetching *f, int fd)
{
	char buf[64 << 10];

	for (;;) {
		ssize_t n = recv(fd, buf, sizeof(buf), 0);
		if (n == 0)
			return 0;
		int r = 0;
		if (n > 0)
			r = put(f, buf, (size_t)n);
		else if (errno == EAGAIN)
			r = wait_for(f, fd, POLLIN);
		else if (errno == ECONNRESET && f->len)
			return 0;
		else if (errno != EINTR)
			r = failed(f->err, -errno, strerror(errno));
		if (r)
			return r;
	}
}

/* Splits the answer into headers and body. */
static int split_answer(struct fetching *f, struct fetch_answer *ret)
{
	char *end = f->len ? memmem(f->bytes, f->len, "\r\n\r\n", 4) : NULL;
	unsigned status;

	if (!end || sscanf(f->bytes, "HTTP/%*u.%*u %u", &status) != 1)
		return failed(f->err, -EBADMSG, "the answer is not HTTP");
	size_t head = (size_t)(end - f->bytes) + 4;
	struct fetch_answer a = {.status = status, .headers = mem_strndup(f->bytes, head)};
	a.len = f->len - head;
	uint64_t length = fetch_header_number(&a, "Content-Length");
	if (length && a.len < length &&
	    (!f->request->method || strcmp(f->request->method, "HEAD"))) {
		fetch_answer_done(&a);
		return failed(f->err, -EBADMSG,
			      "the connection was closed before the answer was complete");
	}
	a.body = mem_alloc(a.len + 1);
	memcpy(a.body, f->bytes + head, a.len);
	*ret = a;
	return 0;
}

static int fetch_plain(struct fetching *f, struct fetch_answer *ret)
{
	CLEANUP(fd_closep) int fd = -1;
	struct endpoint endpoint;

	if (!split_url(f->request->url, &endpoint))
		return failed(f->err, -EINVAL,
			      "not a URL of the form http://HOST:PORT, with a port up to 65535");
	int r = connect_to(f, &endpoint, &fd);
	if (!r)
		r = send_request(f, fd, &endpoint);
	if (!r)
		r = receive(f, fd);
	return r ? r : split_answer(f, ret);
}

/* ---- with libcurl --------------------------------------------------------------------------- */

static size_t on_body(const char *bytes, size_t one, size_t len, void *ctx)
{
	return put(ctx, bytes, one * len) ? 0 : one * len;
}

static size_t on_header(const char *bytes, size_t one, size_t len, void *ctx)
{
	struct fetching *head = ctx;

	/* Of several answers (redirect, 100 Continue) only the last counts. */
	if (len > 5 && strncmp(bytes, "HTTP/", 5) == 0)
		head->len = 0;
	return put(head, bytes, one * len) ? 0 : one * len;
}

static struct curl_slist *add_headers(const struct curl *c, struct curl_slist *to,
				      const char *lines)
{
	size_t len;

	for (; lines && (len = strcspn(lines, "\r")); lines += len + strspn(lines + len, "\r\n")) {
		CLEANUP(freep) char *line = mem_strndup(lines, len);
		to = c->slist_append(to, line);
	}
	return to;
}

static int on_progress(void *ctx, curl_off_t total, curl_off_t now, curl_off_t up_total,
		       curl_off_t up)
{
	(void)total;
	(void)now;
	(void)up_total;
	(void)up;
	return go_on(ctx) ? 1 : 0;
}

static int fetch_by_curl(struct fetching *f, struct fetch_answer *ret)
{
	const struct fetch_request *r = f->request;
	struct fetch_request head_request = {.max = HEAD_MAX};
	struct fetching head = {.request = &head_request, .err = f->err};
	struct curl_slist *headers = NULL;
	struct curl c = {};
	char why[CURL_ERROR_SIZE] = "";
	const char *missing;
	long status = 0;

	if (!curl_load(&c, &missing)) {
		snprintf(why, sizeof(why), "https needs libcurl (Debian: libcurl4): %s", missing);
		return failed(f->err, -ENOENT, why);
	}
	CURL *easy = c.easy_init();
	c.easy_setopt(easy, CURLOPT_URL, r->url);
	c.easy_setopt(easy, CURLOPT_NOSIGNAL, 1L);
	c.easy_setopt(easy, CURLOPT_QUICK_EXIT, 1L); /* does not wait for name resolution */
	if (r->ca_file)
		c.easy_setopt(easy, CURLOPT_CAINFO, r->ca_file);
	if (r->ca_pem)
		c.easy_setopt(easy, CURLOPT_CAINFO_BLOB,
			      &(struct curl_blob){(void *)(uintptr_t)r->ca_pem, strlen(r->ca_pem),
						  CURL_BLOB_COPY});
	c.easy_setopt(easy, CURLOPT_USERAGENT, "smolder/" SMOLDER_VERSION);
	c.easy_setopt(easy, CURLOPT_ERRORBUFFER, why);
	c.easy_setopt(easy, CURLOPT_WRITEFUNCTION, on_body);
	c.easy_setopt(easy, CURLOPT_WRITEDATA, f);
	c.easy_setopt(easy, CURLOPT_HEADERFUNCTION, on_header);
	c.easy_setopt(easy, CURLOPT_HEADERDATA, &head);
	c.easy_setopt(easy, CURLOPT_NOPROGRESS, 0L);
	c.easy_setopt(easy, CURLOPT_XFERINFOFUNCTION, on_progress);
	c.easy_setopt(easy, CURLOPT_XFERINFODATA, f);
	if (r->timeout_ms)
		c.easy_setopt(easy, CURLOPT_TIMEOUT_MS, (long)r->timeout_ms);
	if (r->body) {
		CLEANUP(freep)
		char *type =
			mem_printf("Content-Type: %s",
				   r->content_type ? r->content_type : "application/octet-stream");
		headers = c.slist_append(headers, type);
		c.easy_setopt(easy, CURLOPT_POSTFIELDSIZE_LARGE, (curl_off_t)r->body_len);
		c.easy_setopt(easy, CURLOPT_POSTFIELDS, r->body);
	}
	if (r->authorization) {
		CLEANUP(freep) char *who = mem_printf("Authorization: %s", r->authorization);
		headers = c.slist_append(headers, who);
	}
	headers = add_headers(&c, headers, r->headers);
	if (headers)
		c.easy_setopt(easy, CURLOPT_HTTPHEADER, headers);
	if (r->method)
		c.easy_setopt(easy, CURLOPT_CUSTOMREQUEST, r->method);
	CURLcode code = c.easy_perform(easy);
	c.easy_getinfo(easy, CURLINFO_RESPONSE_CODE, &status);
	c.easy_cleanup(easy);
	c.slist_free_all(headers);
	if (code == CURLE_ABORTED_BY_CALLBACK) {
		free(head.bytes);
		return -ECANCELED; /* go_on() has set the error */
	}
	if (code) {
		free(head.bytes);
		return failed(f->err, -EIO, *why ? why : c.easy_strerror(code));
	}
	ret->status = (unsigned)status;
	ret->headers = head.bytes ? head.bytes : mem_strdup("");
	ret->body = f->bytes ? f->bytes : mem_strdup("");
	ret->len = f->len;
	f->bytes = NULL;
	return 0;
}

int fetch(const struct fetch_request *r, struct fetch_answer *ret, struct fetch_error *ret_err)
{
	struct fetching f = {.request = r, .began_ms = clock_ms(CLOCK_MONOTONIC), .err = ret_err};
	int e;

	if (strncmp(r->url, "http://", 7) == 0)
		e = fetch_plain(&f, ret);
	else if (strncmp(r->url, "https://", 8) == 0)
		e = fetch_by_curl(&f, ret);
	else
		e = failed(ret_err, -EINVAL, "the URL does not begin with http:// or https://");
	free(f.bytes);
	return e;
}

void fetch_answer_done(struct fetch_answer *a)
{
	free(a->headers);
	free(a->body);
	*a = (struct fetch_answer){};
}

static const char *header(const struct fetch_answer *a, const char *name)
{
	size_t len = strlen(name);

	for (const char *line = a->headers; line && *line; line = strchr(line, '\n')) {
		line += *line == '\n';
		if (strncasecmp(line, name, len) == 0 && line[len] == ':')
			return line + len + 1 + strspn(line + len + 1, " \t");
	}
	return NULL;
}

uint64_t fetch_header_number(const struct fetch_answer *a, const char *name)
{
	const char *value = header(a, name);

	return value ? strtoull(value, NULL, 10) : 0;
}

uint64_t fetch_retry_after_ms(const struct fetch_answer *a, uint64_t now_ms)
{
	const char *value = header(a, "Retry-After");
	struct tm tm = {};

	if (!value)
		return 0;
	if (*value >= '0' && *value <= '9')
		return MIN(strtoull(value, NULL, 10), UINT32_MAX) * 1000;
	if (!strptime(value, "%a, %d %b %Y %H:%M:%S", &tm))
		return 0;
	time_t at = timegm(&tm);
	return at > 0 && (uint64_t)at * 1000 > now_ms ? (uint64_t)at * 1000 - now_ms : 0;
}
