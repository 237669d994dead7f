/*
 * pyroscope: what Pyroscope's clients push: its old way, POST /ingest, and its new one,
 * push.v1.PusherService/Push.
 *
 * Of /ingest the formats are folded (no format, "folded" or "groups"), lines, and pprof, by itself
 * or in a form with the parts `profile` and `sample_type_config`. name=app.cpu{k=v} gives the
 * service, the type of text, and the labels; sampleRate and units say what a count of text is.
 */
#pragma once

#include "ingest/pushed.h"

struct pyroscope_ingest { /* its parameters, as they came; NULL: not given; borrowed */
	const char *name, *from, *until, *sample_rate, *units, *aggregation, *format;
	const char *content_type;
};

/* Each adds profiles; false after an error. */
bool pyroscope_ingest(struct pushed *p, const struct pyroscope_ingest *request, const void *body,
		      size_t len, uint64_t now_ms);
bool pyroscope_push(struct pushed *p, const void *body, size_t len, bool is_json, uint64_t now_ms);
