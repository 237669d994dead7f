/*
 * receiver: puts the window messages of collectors, local and remote, into the store.
 *
 * For each collector (instance) it keeps the dictionary that messages build on, and the metrics it
 * sent last. At most RECEIVER_INSTANCES of them and RECEIVER_BYTES in all; beyond that the one that
 * has been silent longest is forgotten, and told to start again (WINDOW_RESET) when it comes back.
 *
 * A message that is sent again (its answer was lost, or was "later") is recognised by its bytes, so
 * that its entries, which are in the dictionary by then, are not taken for a gap.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/pack.h"
#include "profile/window.h"
#include "query/rules.h"
#include "store/store.h"

#define RECEIVER_INSTANCES 256
#define RECEIVER_BYTES     (96u << 20)

struct receiver;

struct receiver *receiver_new(struct store *s); /* borrowed */

/* One that puts them elsewhere: as store_append(). */
typedef int receiver_append_fn(void *ctx, const struct profile *dict, const struct window *w,
			       uint64_t now_ms, struct store_error *ret_err);
struct receiver *receiver_new_into(receiver_append_fn *fn, void *ctx);
void receiver_free(struct receiver *r);

/* Has fn told of the frames that a message has added to a dictionary: those from id `first` on. */
typedef void receiver_frames_fn(void *ctx, const struct profile *dict, uint32_t first);
void receiver_on_frames(struct receiver *r, receiver_frames_fn *fn, void *ctx);

/* Has them count every window that is stored; borrowed. NULL: none. */
void receiver_set_rules(struct receiver *r, struct rules *rules);

/* Handles one message; the answer is appended to `reply`, even if the message is garbage. */
enum window_status receiver_message(struct receiver *r, const void *bytes, size_t len,
				    uint64_t now_ms, struct pack *reply);

/* Controls: collectors get them with their next answer. */
void receiver_live(struct receiver *r, uint64_t until_ms); /* windows of 1 s until then */
/* Tells each once to send what it has, except that of `run`: see receiver_control(). */
void receiver_flush(struct receiver *r);

/* The same controls as a message of their own, for a collector that always listens. */
void receiver_control(const struct receiver *r, bool flush, uint64_t now_ms, struct pack *out);

/* Marks the sender of the latest message as the collector of `run`, replacing any before it. */
void receiver_is_local(struct receiver *r);

/*
 * Collectors heard from since `since_ms`, and how many of those have not sent all their windows up
 * to `until_ms` yet.
 */
struct receiver_reach {
	uint32_t local, local_behind;   /* 0 or 1 */
	uint32_t remote, remote_behind; /* by HTTP */
};

struct receiver_reach receiver_reach(const struct receiver *r, uint64_t since_ms,
				     uint64_t until_ms);

/* Whether any collector has sent windows of that type since `since_ms`. */
bool receiver_has_type(const struct receiver *r, const char *type, uint64_t since_ms);

/* Calls fn for each metric of each collector, as last sent; not of replaced ones. */
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
	uint64_t forgotten; /* instances, because of the caps */
	uint32_t instances;
	uint64_t dictionary_bytes;
	uint64_t last_ms; /* when the last readable message came; 0: never */
	uint8_t last_instance[16];
	int last_error;       /* of the store: 0, -ENOSPC, … */
	char last_words[256]; /* its message */
};

void receiver_stats(const struct receiver *r, struct receiver_stats *ret);
