#include <sys/socket.h>

#include "base/clock.h"
#include "base/mem.h"
#include "serve/http_internal.h"

#define CONNECTIONS_FREE 32     /* that are kept free for new clients */
#define REQUEST_MS       60000  /* from the end of one request until the next has fully arrived */
#define TAKING_MS        600000 /* for a client to take its answer */

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
void http_touch(struct http *h, struct connection *c, struct http_request *r)
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

void http_on_connection(void *cls, struct MHD_Connection *connection, void **context,
			enum MHD_ConnectionNotificationCode code)
{
	struct http *h = cls;
	struct connection *c = *context;

	if (code == MHD_CONNECTION_NOTIFY_STARTED) {
		if (h->connection_count >= HTTP_CONNECTIONS_MAX - CONNECTIONS_FREE)
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
void http_drop_slow(struct http *h)
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
