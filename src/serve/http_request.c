#include <errno.h>
#include <stdarg.h>
#include <sys/eventfd.h>

#include "base/log.h"
#include "base/mem.h"
#include "base/text.h"
#include "render/escape.h"
#include "serve/http_internal.h"

/* ---- reading it ---------------------------------------------------------------------------- */

const char *http_param(const struct http_request *r, const char *name)
{
	return MHD_lookup_connection_value(r->connection, MHD_GET_ARGUMENT_KIND, name);
}

struct each {
	http_param_fn *fn;
	void *ctx;
};

static enum MHD_Result on_param(void *cls, enum MHD_ValueKind kind, const char *key,
				const char *value)
{
	struct each *e = cls;

	(void)kind;
	e->fn(e->ctx, key, value ? value : "");
	return MHD_YES;
}

void http_each_param(const struct http_request *r, http_param_fn *fn, void *ctx)
{
	struct each e = {fn, ctx};

	MHD_get_connection_values(r->connection, MHD_GET_ARGUMENT_KIND, on_param, &e);
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

static void write_param(void *ctx, const char *name, const char *value)
{
	struct url *u = ctx;

	fputc(u->any ? '&' : '?', u->out);
	u->any = true;
	escape_url(u->out, name);
	fputc('=', u->out);
	escape_url(u->out, value);
}

void http_write_url(const struct http_request *r, FILE *out)
{
	CLEANUP(freep) char *text = NULL;
	size_t len;
	struct url u = {.out = open_memstream(&text, &len)};

	fputs(r->path, u.out);
	http_each_param(r, write_param, &u);
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
		if (err && r->http->stats.unowned++ == 0)
			log_info("the user of a connection on loopback could not be determined "
				 "(%s), so it gets access only by a token; more of these are "
				 "only counted",
				 err == -ENOENT ? "it was closed, or is not of this machine"
						: strerror(-err));
	}
	if (c->owned != OWNED)
		return -ENOENT;
	*ret = c->owner;
	return 0;
}

/* ---- answering it -------------------------------------------------------------------------- */

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

enum MHD_Result http_queue(struct http_request *r, unsigned status, struct MHD_Response *response)
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
		http_queue(r, a->status, response);
		return;
	}
	r->late = response;
	r->late_status = a->status;
	MHD_resume_connection(r->connection);
	eventfd_write(r->http->wake, 1);
}

/* Connect's name of what an HTTP status says. */
static const char *connect_code(unsigned status)
{
	static const struct {
		unsigned status;
		const char *code;
	} codes[] = {
		{400, "invalid_argument"}, {401, "unauthenticated"},   {403, "permission_denied"},
		{404, "not_found"},        {405, "unimplemented"},     {413, "resource_exhausted"},
		{415, "unimplemented"},    {501, "unimplemented"},     {429, "resource_exhausted"},
		{503, "unavailable"},      {504, "deadline_exceeded"},
	};

	for (size_t i = 0; i < ARRAY_SIZE(codes); i++)
		if (codes[i].status == status)
			return codes[i].code;
	return "internal";
}

void http_fail_text(struct http_request *r, unsigned status, const char *allow, const char *text)
{
	char clean[TEXT_MAX + 1];
	size_t clean_len = text_clean(text, strlen(text), clean);
	char *body = NULL;
	size_t len;
	FILE *f = open_memstream(&body, &len);

	if (r->plain) {
		fprintf(f, "%s\n", clean);
	} else {
		if (strstr(r->path, "Service/"))
			fprintf(f, "{\"code\":\"%s\",\"message\":", connect_code(status));
		else
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
	http_fail_text(r, status, NULL, text);
}
