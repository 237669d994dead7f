/*
 * http_internal: what the files of the HTTP server share; others use http.h.
 *
 *	http.c              the daemon, its loop, and the life of a request
 *	http_request.c      reading a request and answering it
 *	http_connections.c  which connections there are, and which one to close when there are many
 */
#pragma once

#include <microhttpd.h>

#include "serve/http.h"
#include "serve/listen.h"
#include "serve/peer.h"

#define HTTP_CONNECTIONS_MAX 256

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
	char address[LISTEN_ADDRESS];
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
	size_t bodies;             /* bytes of large ones */
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
	bool crowded_out; /* there is no memory for its body */
	bool held, answered;
	bool plain;                /* errors are for go tool pprof */
	struct MHD_Response *late; /* of a request that was held: queued when it is called again */
	unsigned late_status;
};

/* http_request.c */

/* Sends an answer now: the request is neither held nor answered yet, or was held and resumed. */
enum MHD_Result http_queue(struct http_request *r, unsigned status, struct MHD_Response *response);
/* Answers with an error; `allow` is the value of the Allow header, or NULL. */
void http_fail_text(struct http_request *r, unsigned status, const char *allow, const char *text);

/* http_connections.c */

/* A MHD_NotifyConnectionCallback. */
void http_on_connection(void *cls, struct MHD_Connection *connection, void **context,
			enum MHD_ConnectionNotificationCode code);
/* A request has begun (r) or ended (NULL) on it; `c` may be NULL. */
void http_touch(struct http *h, struct connection *c, struct http_request *r);
/* Closes connections on which a request or the taking of its answer has been too slow. */
void http_drop_slow(struct http *h);
