/*
 * http: requests in, answers out; libmicrohttpd in the event loop, one thread.
 *
 * What everybody who sends something must keep to is checked here, before a route sees it:
 *
 *	Host     an IP address, localhost, this machine's name, or one that was allowed: a web page
 *	         that points its own name at us (DNS rebinding) gets 403
 *	Origin   where there is one, it must be ourselves: no other page's script may send. What the
 *	         browser says of where a request comes from (Sec-Fetch-Site) must agree; a link may
 *	         lead here from anywhere
 *	sizes    URL and headers 32 KB, bodies `body_max`
 *	time     30 s without a byte; 60 s for a request, 10 minutes for taking its answer
 *	guard    where there is one
 *
 * Of 256 connections a few are always free: for one that comes, the one which has been idle for
 * longest is closed.
 *
 * A route answers at once with http_answer(), or calls http_hold(), and answers later from the
 * same thread. Answering calls no other route: what was held is sent from the loop, or by
 * http_free().
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/types.h>

#include "base/loop.h"

#define HTTP_HEADERS 12 /* of an answer, beside those that every one has */

struct http;
struct http_request;

typedef void http_fn(void *ctx, struct http_request *r);

struct http_route {
	const char *method; /* "GET" (and HEAD), "POST" */
	const char *path;   /* "/api/v1/query"; one * stands for a part without slashes */
	http_fn *fn;
	size_t body_max; /* of POST */
	bool sends;      /* it is for those who bring something to be kept */
};

/* Whether a request may go on to its route; if not, it has been answered. */
typedef bool http_guard_fn(void *ctx, struct http_request *r);

struct http_options {
	const char *listen;       /* "127.0.0.1:7117", "[::1]:7117", ":7117"; port 0: any */
	const char *const *hosts; /* names in Host that are fine, beside those above */
	size_t host_count;
	const char *tls_cert, *tls_key;  /* PEM, borrowed until http_free; NULL: no TLS */
	const struct http_route *routes; /* borrowed; ends with a NULL path */
	void *ctx;                       /* of the routes and the guard */
	http_guard_fn *guard;            /* NULL: none */
	bool may_be_public;              /* else it listens on loopback alone */
	const char *const *unguarded;    /* paths of routes; borrowed; ends with NULL */
};

struct http_error {
	char text[256]; /* one sentence */
};

/* 0 or -errno with *ret_err. */
int http_new(struct loop *l, const struct http_options *o, struct http **ret,
	     struct http_error *ret_err);
/*
 * The end, in two steps. After the first nobody connects and no route is called: requests that come
 * on connections which are open get 503. Then those that are held are answered, by whoever holds
 * them; http_free() gives clients half a second to take those answers. NULL is fine for both.
 */
void http_stop(struct http *h);
void http_free(struct http *h);

const char *http_address(const struct http *h); /* "127.0.0.1:7117", with the real port */
bool http_is_public(const struct http *h);      /* it listens beyond this machine */

struct http_stats {
	uint64_t requests, refused; /* refused: by what is checked here */
	uint64_t turned_away;       /* … of them by the guard */
	uint64_t unowned;           /* connections whose owner could not be found */
	uint64_t dropped;           /* connections, for room or since they took too long */
	uint64_t by_class[6];       /* answers by the first digit of their status */
	uint32_t connections;
};

void http_stats(const struct http *h, struct http_stats *ret);

/* Of a request; all borrowed, and valid until it is answered. */
const char *http_param(const struct http_request *r, const char *name); /* NULL: not given */
const char *http_header(const struct http_request *r, const char *name);
const char *http_cookie(const struct http_request *r, const char *name);
/* Its path and parameters, encoded to be a parameter's value itself. */
void http_write_url(const struct http_request *r, FILE *out);
const char *http_star(const struct http_request *r); /* what the * of the path stands for */
const void *http_body(const struct http_request *r, size_t *ret_len);
int http_fd(const struct http_request *r);     /* its socket, to see whether the client is there */
bool http_sends(const struct http_request *r); /* as its route says */
/*
 * The user who asks, where the server listens on loopback (serve/peer.h): asked for once in a
 * connection. -ENOENT when nobody can be found, or who asks does so for another (a proxy).
 */
int http_owner(struct http_request *r, uid_t *ret);

struct http_answer {
	unsigned status;
	const char *type; /* Content-Type; borrowed for the call, as are the headers */
	void *body;       /* from malloc; taken over */
	size_t len;
	struct {
		const char *name, *value;
	} headers[HTTP_HEADERS]; /* Cache-Control is no-store unless it is one of them */
};

void http_hold(struct http_request *r);
void http_answer(struct http_request *r, const struct http_answer *a);

/* {"error": "…"}; below /debug/pprof plain text, in the way that go tool pprof shows it. */
__attribute__((format(printf, 3, 4))) void http_fail(struct http_request *r, unsigned status,
						     const char *fmt, ...);
