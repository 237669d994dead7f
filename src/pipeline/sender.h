/*
 * sender: windows on their way to a server, one message at a time.
 *
 * A window is cut into parts that fit a message, the same way each time, so that a part which is
 * sent again is the same part; before it go the dictionary's entries that it needs. A message is
 * sent until it is answered. While the server is away windows wait, up to a cap of bytes: then the
 * oldest are dropped, and counted.
 *
 *	sender_push(s, source, &window);
 *	while ((m = sender_message(s, counts))) { send m->bytes, m->len; receive; }
 *	sender_reply(s, bytes, len, &reply);    or sender_again(s) when no reply came
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/pack.h"
#include "collect/source.h"
#include "profile/window.h"

struct sender;

/* The dictionary is borrowed. `instance` names this collector process, at random. max_bytes 0: 16
 * MB. */
struct sender *sender_new(const struct profile *dict, const uint8_t instance[16], size_t max_bytes);
void sender_free(struct sender *s);

/* Takes the window's rows and times, and leaves it empty. `source`: the index in the `counts` of
 * sender_message() of the source whose events it has. */
void sender_push(struct sender *s, unsigned source, struct window *w);

/*
 * No counter that outlives this process has the samples of this source: `taken` is then what was
 * stored or lost by the time that a message is stored, whatever `counts` says. What has not been
 * sent when a process is killed was never counted.
 */
void sender_uncounted(struct sender *s, unsigned source);

/* What goes with the last part of each window, from now on; names are borrowed. */
void sender_metrics(struct sender *s, struct window_metric *metrics, uint32_t count);

/*
 * The message to send now; NULL: nothing waits, or one is on its way. Borrowed until the reply.
 * `counts` as of now, by source; the losses that the sender itself knows are added to them.
 */
const struct pack *sender_message(struct sender *s, const struct window_counts *counts);

/*
 * The answer to the message. 0 with what it said in *ret; -EBADMSG; -EALREADY when it is not about
 * this message (an answer to one sent twice): wait on.
 */
int sender_reply(struct sender *s, const void *bytes, size_t len, struct window_reply *ret);

/* No answer came: the next message is the same again, byte for byte. */
void sender_again(struct sender *s);

struct sender_stats {
	uint64_t waiting;         /* windows not wholly sent */
	uint64_t waiting_samples; /* … in them */
	uint64_t sent_samples;    /* answered with STORED or DUPLICATE */
	uint64_t dropped_windows, dropped_samples;
	uint64_t refused_windows, refused_samples;
	uint64_t messages, bytes, resets, repeats;
};

void sender_stats(const struct sender *s, struct sender_stats *ret);
