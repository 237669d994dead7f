/*
 * connect: unary calls of the Connect protocol: one message in a POST, one in the answer, both in
 * protobuf or both in JSON, as the Content-Type says. Either may be in gzip.
 */
#pragma once

#include <protobuf-c/protobuf-c.h>

#include "serve/query_job.h"

#define CONNECT_BODY_MAX (64u << 10)

struct connect_call {
	struct query_job q;
	const struct connect_method *method;
	const ProtobufCMessage *request;
	FILE *out;    /* of the answer */
	bool is_json; /* private */
};

struct connect_method {
	const char *name; /* NULL ends a list */
	const ProtobufCMessageDescriptor *request;
	/* On a thread: calls connect_answer() once, or sets the job's error. */
	void (*answer)(struct connect_call *c, struct store *s);
};

/* Takes a request for one of the methods, whose name the request's path ends in. */
void connect_start(struct server *s, struct http_request *r, const struct connect_method *methods,
		   const char *name);

void connect_answer(struct connect_call *c, const ProtobufCMessage *message);

/* The message's own small memory: all of it is freed after the answer. */
#define CONNECT_LIST(arena, type, count)                                                           \
	((type *)memset(arena_alloc((arena), ((count) + 1) * sizeof(type)), 0,                     \
			((count) + 1) * sizeof(type)))
