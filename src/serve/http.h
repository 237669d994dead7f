/*
 * http: an HTTP server: libmicrohttpd in the event loop, on one thread.
 *
 * Every request is checked before a route sees it:
 *
 *	Host     must be an IP address, localhost, this machine's name, or a name that was allowed:
 *	         a web page that points its own name at us (DNS rebinding) gets 403
 *	Origin   if present, must be our own: no other page's script may send requests. The
 *	         browser's Sec-Fetch-Site must agree; links from anywhere are fine
 *	sizes    URL and headers up to 32 KB, bodies up to `body_max`; those that may be larger
 *	         than a window share HTTP_BODIES_MAX, and 503 is the answer beyond it
 *	time     30 s without a byte; 60 s for a request, 10 minutes for taking its answer
 *	guard    access control, if there is any
 *
 * There can be 256 connections, and a few are always kept free: when a new one comes, the one that
 * has been idle longest is closed.
 *
 * A route answers at once with http_answer(), or calls http_hold() and answers later, on the same
 * thread. Answering never calls another route: held requests are sent from the loop, or by
 * http_free().
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/types.h>

#include "base/loop.h"

#define HTTP_HEADERS    12          /* of an answer, besides those that every answer has */
#define HTTP_BODIES_MAX (64u << 20) /* bytes of large bodies in memory at once … */
#define HTTP_BODY_LARGE (1u << 20)  /* … which are those of routes that allow more than this */

struct http;
struct http_request;

typedef void http_fn(void *ctx, struct http_request *r);

struct http_route {
	const char *method; /* "GET" (and HEAD), "POST" */
	const char *path;   /* "/api/v1/query"; one * matches any text without slashes */
	http_fn *fn;
	size_t body_max; /* of POST */
	bool sends;      /* clients use it to store something */
};

/* Whether a request may proceed to its route; if not, the guard has answered it. */
typedef bool http_guard_fn(void *ctx, struct http_request *r);

struct http_options {
	const char *listen;       /* "127.0.0.1:7117", "[::1]:7117", ":7117"; port 0: any */
	const char *const *hosts; /* allowed names in Host, besides those above */
	size_t host_count;
	const char *tls_cert, *tls_key;  /* PEM, borrowed until http_free; NULL: no TLS */
	const struct http_route *routes; /* borrowed; ends with a NULL path */
	void *ctx;                       /* of the routes and the guard */
	http_guard_fn *guard;            /* NULL: none */
	bool may_be_public;              /* else it listens on loopback only */
	const char *const *unguarded; /* paths of routes without access control; ends with NULL */
};

struct http_error {
	char text[256]; /* one sentence */
};

/* 0 or -errno with *ret_err. */
int http_new(struct loop *l, const struct http_options *o, struct http **ret,
	     struct http_error *ret_err);
/*
 * Shutdown, in two steps. After http_stop() no connection is accepted and no route is called:
 * requests on open connections get 503. Then whoever holds requests answers them; http_free() gives
 * clients half a second to take those answers. NULL is fine for both.
 */
void http_stop(struct http *h);
void http_free(struct http *h);

const char *http_address(const struct http *h); /* "127.0.0.1:7117", with the real port */
bool http_is_public(const struct http *h);      /* other machines can reach it */

struct http_stats {
	uint64_t requests, refused; /* refused: by the checks above */
	uint64_t turned_away;       /* of those, by the guard */
	uint64_t unowned;           /* connections whose user could not be determined */
	uint64_t crowded_out;       /* of those, because large bodies filled their memory */
	uint64_t dropped;     /* connections closed because there were too many, or too slow */
	uint64_t by_class[6]; /* answers by the first digit of their status */
	uint32_t connections;
};

void http_stats(const struct http *h, struct http_stats *ret);

/* Of a request; all borrowed, and valid until it is answered. */
const char *http_param(const struct http_request *r, const char *name); /* NULL: not given */
/* Calls fn for each parameter of the URL, in order. */
typedef void http_param_fn(void *ctx, const char *name, const char *value);
void http_each_param(const struct http_request *r, http_param_fn *fn, void *ctx);
const char *http_header(const struct http_request *r, const char *name);
const char *http_cookie(const struct http_request *r, const char *name);
/* Writes its path and parameters, encoded as the value of a parameter. */
void http_write_url(const struct http_request *r, FILE *out);
const char *http_star(const struct http_request *r); /* what matched the * of the path */
const void *http_body(const struct http_request *r, size_t *ret_len);
int http_fd(const struct http_request *r);     /* its socket, to notice when the client hangs up */
bool http_sends(const struct http_request *r); /* as its route says */
/*
 * The user of this machine who sent the request, if the server listens on loopback (serve/peer.h);
 * looked up once per connection. -ENOENT if unknown, or if the request came through a proxy.
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

/*
 * Answers {"error": "…"}; below /debug/pprof plain text, which go tool pprof shows; to what speaks
 * Connect ("/querier.v1.QuerierService/Series"), {"code": "…", "message": "…"}.
 */
__attribute__((format(printf, 3, 4))) void http_fail(struct http_request *r, unsigned status,
						     const char *fmt, ...);
