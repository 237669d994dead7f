/*
 * receiver: window messages of collectors, local and remote, into the store.
 *
 * Of each collector (instance) it keeps the dictionary that the messages build on, and the metrics
 * it last sent. Bounded: at most RECEIVER_INSTANCES of them and RECEIVER_BYTES in all; beyond that
 * the one not heard of for longest is forgotten, which it learns by WINDOW_RESET when it comes
 * back.
 *
 * A message that is sent again (its answer was lost, or was "later") is known by its bytes, so that
 * its entries, which are in the dictionary by then, are not taken for a gap.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/pack.h"
#include "profile/window.h"
#include "store/store.h"

#define RECEIVER_INSTANCES 256
#define RECEIVER_BYTES     (96u << 20)

struct receiver;

struct receiver *receiver_new(struct store *s); /* borrowed */
void receiver_free(struct receiver *r);

/* One message; its answer is appended to `reply`, also when it makes no sense at all. */
enum window_status receiver_message(struct receiver *r, const void *bytes, size_t len,
				    uint64_t now_ms, struct pack *reply);

/* Controls, which collectors learn with their next answer. */
void receiver_live(struct receiver *r, uint64_t until_ms); /* windows of 1 s until then */
/* Each is told once to send what it has; but not that of `run`, see receiver_control(). */
void receiver_flush(struct receiver *r);

/* The same controls as a message of their own, for a collector that listens all the time. */
void receiver_control(const struct receiver *r, bool flush, uint64_t now_ms, struct pack *out);

/* The latest message came from the collector of `run`, which takes the place of any before it. */
void receiver_is_local(struct receiver *r);

/*
 * Collectors heard of since `since_ms`, and those of them whose windows up to `until_ms` are not
 * all here.
 */
struct receiver_reach {
	uint32_t local, local_behind;   /* 0 or 1 */
	uint32_t remote, remote_behind; /* by HTTP */
};

struct receiver_reach receiver_reach(const struct receiver *r, uint64_t since_ms,
				     uint64_t until_ms);

/* Each metric of each collector, as it was last sent; not of one that another took over from. */
typedef void receiver_metric_fn(void *ctx, const uint8_t instance[16], const char *name,
				double value);
void receiver_metrics(const struct receiver *r, receiver_metric_fn *fn, void *ctx);

/*
 * Which collector's cost /status reports, where several send: that of `run`, else `previous` (or
 * NULL) if it was heard of since `since_ms`, else the one heard of last. False: there is none.
 */
bool receiver_main_collector(const struct receiver *r, const uint8_t previous[16],
			     uint64_t since_ms, uint8_t ret[16]);

struct receiver_stats {
	uint64_t messages, bytes;
	uint64_t by_status[WINDOW_REFUSED + 1];
	uint64_t malformed; /* of those refused: not a message that can be read */
	uint64_t forgotten; /* instances, for the caps */
	uint32_t instances;
	uint64_t dictionary_bytes;
	uint64_t last_ms; /* when a message came that could be read, 0: never */
	uint8_t last_instance[16];
	int last_error;       /* of the store: 0, -ENOSPC, … */
	char last_words[256]; /* its sentence */
};

void receiver_stats(const struct receiver *r, struct receiver_stats *ret);
