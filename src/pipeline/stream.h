/*
 * stream: events of all sources and side-band records in one order of time.
 *
 * Both come from rings of their own. What is newer than the beginning of a drain is left to the
 * next one, since something older may still be on its way from another ring, by up to
 * STREAM_REORDER_MAX_NS where that was seen to happen. So an event is seen with the mappings its
 * process had when it was taken; one that is late nevertheless is counted.
 */
#pragma once

#include "collect/sampler.h"
#include "collect/sideband.h"

struct stream;

struct stream_handler {
	void (*event)(void *ctx, const struct wire_event *e);
	void (*record)(void *ctx, const struct sideband_record *r);
	void (*lost)(void *ctx); /* records were, before what is handed out next; may be NULL */
	void *ctx;
};

/* Both are borrowed and outlive the stream; sideband may be NULL. */
struct stream *stream_new(struct sampler *sampler, struct sideband *sideband);
void stream_free(struct stream *s);

#define STREAM_REORDER_MAX_NS 50000000

/* What came after later things had been handed out; it is handed out all the same. */
struct stream_stats {
	uint64_t late_events, late_records;
};

void stream_stats(const struct stream *s, struct stream_stats *ret);

/* `last`: nothing will follow, hold nothing back. */
void stream_drain(struct stream *s, const struct stream_handler *h, bool last);
