/*
 * far: what is sent to a far side, and what its answers mean: one table entry for each protocol
 * that can be spoken to it.
 *
 *	http://host:7117             smolder's own, to `smolder serve` or `run`
 *	otlp+http://host:4318        OTLP profiles: POST /v1development/profiles
 *	pyroscope+http://host:4040   Pyroscope: POST /push.v1.PusherService/Push
 *
 * or the same with https. What the URL has as a path comes before the protocol's own.
 *
 * A record (spool.h) may take several requests: those of other tools have a part of its series
 * each, in order. They know no identity of a message: one whose answer was lost is stored twice,
 * unless the far side recognises the id of a profile, which is the same each time.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/fetch.h"
#include "base/pack.h"
#include "forward/spool.h"

#define FAR_SERIES_MAX 100 /* of a request */
#define FAR_WHY        256

enum far_verdict {
	FAR_SENT,      /* what was in the request */
	FAR_GO_ON,     /* there is a next request of the same record */
	FAR_LATER,     /* not now: the same again after a while */
	FAR_FAULT,     /* likewise; but it may be that it fails at this very record (status 500) */
	FAR_TOO_LARGE, /* it might take a smaller one */
	FAR_REFUSED,   /* it will never take it */
};

struct far_request {
	struct pack body;
	const char *content_type;
	bool is_gzip;
	uint64_t through; /* the series that are done with it */
	uint64_t series;  /* in it */
	uint64_t samples; /* in it */
};

struct far_answer {
	char why[FAR_WHY]; /* unless it was sent, and if some was rejected */
	uint64_t rejected; /* profiles, of those that were sent */
	uint64_t live_until_ms;
	bool flush; /* as in struct window_reply */
};

struct far_protocol {
	const char *prefix, *name, *path;
	void *(*new)(void);
	void (*free)(void *self);
	/*
	 * The next request of a record, with at most `most` series; ret->body empty: there is
	 * nothing in the rest of it for this protocol. -errno: it cannot be expressed.
	 */
	int (*make)(void *self, const struct spooled *r, uint32_t most, struct far_request *ret);
	/* What an answer to it means. */
	enum far_verdict (*judge)(void *self, const struct fetch_answer *a, struct far_answer *ret);
};

extern const struct far_protocol far_smolder, far_otlp, far_pyroscope;

/* The protocol that a URL names; NULL: it is no such URL. *ret_url: what to ask; caller frees. */
const struct far_protocol *far_find(const char *to, char **ret_url);
bool far_is_url(const char *to);

/* ---- what protocols share -------------------------------------------------------------------- */

/* By the status alone; with the beginning of the body as the reason. */
enum far_verdict far_judge_status(const struct fetch_answer *a, struct far_answer *ret);

/* Rows [first, end) of the nth series of a window; false: there is none. */
struct far_rows {
	uint32_t first, end;
	uint64_t samples;
};

bool far_rows(const struct window *w, uint64_t nth, struct far_rows *ret);

/* A row in parts: what was taken in each span of a trace, last what was in none; empty ones are
 * left out. */
struct far_parts {
	const struct window *window;
	const struct window_span_row *next, *end;
	uint64_t count, value; /* that are left */
	bool in_spans;         /* it has some */
};

struct far_part {
	const struct window_span *span; /* NULL: none */
	uint64_t count, value;
};

void far_parts(const struct window *w, const struct window_row *row, struct far_parts *ret);
bool far_next_part(struct far_parts *p, struct far_part *ret);

/* An id of a profile, the same whenever it is made, in the form of a UUID (version 8). */
void far_profile_id(const struct window *w, uint64_t nth, uint8_t ret[static 16]);

/* What a type is called elsewhere: "off_cpu". */
const char *far_type_name(const struct window *w);
