#include "serve/connect.h"

#include <errno.h>

#include "base/mem.h"
#include "ingest/protojson.h"
#include "serve/gzip.h"

#define UNPACKED_MAX (1u << 20) /* of a request in gzip */

static bool wrong(struct connect_call *c, const char *why)
{
	return query_job_wrong(&c->q, 400, "the request cannot be read: %s", why);
}

/* The request as a message of its type; NULL after setting the error. */
static ProtobufCMessage *read_request(struct connect_call *c)
{
	const char *packed = http_header(c->q.request, "Content-Encoding");
	CLEANUP(freep) char *plain = NULL;
	CLEANUP(pack_done) struct pack wire = {};
	struct protojson_error err = {};
	size_t len;
	const void *body = http_body(c->q.request, &len);

	if (packed && strcmp(packed, "gzip") == 0) {
		if (gzip_unpack(body, len, UNPACKED_MAX, &plain, &len) != 0) {
			wrong(c, "it is not gzip, as its Content-Encoding says, or too large");
			return NULL;
		}
		body = plain;
	}
	if (len > CONNECT_BODY_MAX) {
		wrong(c, "it is too large");
		return NULL;
	}
	if (c->is_json) {
		if (protojson_read(body, len, c->method->request, false, &wire, &err) != 0) {
			wrong(c, err.text);
			return NULL;
		}
		body = wire.bytes;
		len = wire.len;
	}
	ProtobufCMessage *m = protobuf_c_message_unpack(c->method->request, NULL, len, body);
	if (!m)
		wrong(c, "it is not the message of this method");
	return m;
}

void connect_answer(struct connect_call *c, const ProtobufCMessage *message)
{
	if (c->is_json) {
		protojson_write(message, c->out);
		return;
	}
	size_t len = protobuf_c_message_get_packed_size(message);
	CLEANUP(freep) uint8_t *bytes = mem_alloc(len + 1);
	protobuf_c_message_pack(message, bytes);
	fwrite(bytes, 1, len, c->out);
}

static void read_store(struct query_job *q, struct store *s, FILE *out)
{
	struct connect_call *c = (struct connect_call *)q;
	ProtobufCMessage *request = read_request(c);

	if (!request)
		return;
	c->request = request;
	c->out = out;
	c->method->answer(c, s);
	protobuf_c_message_free_unpacked(request, NULL);
}

static void send_answer(struct query_job *q)
{
	query_job_send(q, ((struct connect_call *)q)->is_json ? "application/json"
							      : "application/proto");
}

static void free_call(struct query_job *q)
{
	query_job_done(q);
	free(q);
}

static bool has_type(const struct http_request *r, const char *type)
{
	const char *given = http_header(r, "Content-Type");

	return given && strncmp(given, type, strlen(type)) == 0;
}

void connect_start(struct server *s, struct http_request *r, const struct connect_method *methods,
		   const char *name)
{
	bool is_json = has_type(r, "application/json");

	if (!is_json && !has_type(r, "application/proto")) {
		http_fail(r, 415, "the Content-Type is not application/proto or application/json");
		return;
	}
	while (methods->name && strcmp(methods->name, name) != 0)
		methods++;
	if (!methods->name) {
		http_fail(r, 501, "there is no such method: %.60s", name);
		return;
	}
	struct connect_call *c = mem_alloc(sizeof(*c));
	c->q = (struct query_job){.server = s,
				  .request = r,
				  .read = read_store,
				  .finish = query_job_pack,
				  .answer = send_answer,
				  .free = free_call};
	c->method = methods;
	c->is_json = is_json;
	query_job_begin(&c->q, true);
}
