/*
 * context_payload: what an OpenTelemetry process context has in it: a protobuf message
 *
 *	ProcessContext  1 Resource resource, 2 repeated KeyValue attributes
 *	Resource        1 repeated KeyValue attributes
 *	KeyValue        1 string key, 2 AnyValue value
 *	AnyValue        1 string string_value; what else there may be is not read
 *
 * The bytes are another process's: they may be anything. Nothing is allocated, and nesting is not
 * followed beyond these four.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#define CONTEXT_VALUE_MAX 255 /* bytes of a value; longer ones are cut */

struct context_payload { /* "": it does not say */
	char service[CONTEXT_VALUE_MAX + 1];
	char version[CONTEXT_VALUE_MAX + 1];
	char environment[CONTEXT_VALUE_MAX + 1];
	bool has_threads; /* its threads say in otel_thread_ctx_v1 what they work on */
};

/* 0, or -EBADMSG: it is no such message. */
int context_payload_read(const void *bytes, size_t len, struct context_payload *ret);
