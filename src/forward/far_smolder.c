/*
 * smolder's own: window messages that build on one dictionary for all records of a collector, so
 * that a name travels once (profile/window.h). (instance, sequence, part) is that of the collector,
 * so that a message is stored once, however often it is sent, and by whichever process.
 */
#include "forward/far.h"

#include <errno.h>
#include <sys/random.h>

#include "base/mem.h"
#include "forward/translate.h"

#define DICTIONARY_BYTES (12u << 20)
#define ENTRIES_BYTES    (WINDOW_MESSAGE_MAX / 2) /* in a message without rows */
#define ENTRIES_WITH     (16u << 10)              /* in one with rows: room for both */
#define RESETS_MAX       3                        /* in a row */

struct own {
	struct profile *dict; /* NULL: there is none yet */
	uint8_t instance[16];
	uint32_t epoch;
	struct entries_mark sent, acked; /* the dictionary: with the message, and before it */
	uint64_t number;                 /* of the record at hand; 0: none */
	struct window window;            /* its, in ids of dict */
	struct pack message;             /* sent again byte for byte, so that it is recognised */
	bool encoded, entries_only;
	unsigned resets;
};

static void *own_new(void)
{
	struct own *o = mem_alloc(sizeof(*o));

	/* No server that heard of the collector before may take this dictionary for the other. */
	if (getrandom(&o->epoch, sizeof(o->epoch), 0) != sizeof(o->epoch))
		o->epoch = (uint32_t)getpid() << 8;
	return o;
}

static void own_free(void *self)
{
	struct own *o = self;

	window_done(&o->window);
	profile_free(o->dict);
	pack_done(&o->message);
	free(o);
}

static void begin_dictionary(struct own *o, const struct window *w)
{
	profile_free(o->dict);
	o->dict = profile_new();
	memcpy(o->instance, w->instance, sizeof(o->instance));
	o->epoch++;
	o->acked = (struct entries_mark){};
	o->number = 0;
}

static int take_record(struct own *o, const struct spooled *r)
{
	CLEANUP(remap_done) struct remap m = {};
	struct window w;

	if (!o->dict || memcmp(o->instance, r->window.instance, sizeof(o->instance)) != 0 ||
	    (o->number != r->number && profile_bytes(o->dict) > DICTIONARY_BYTES))
		begin_dictionary(o, &r->window);
	if (o->number == r->number)
		return 0;
	int err = translate_window(&r->window, r->dict, &m, o->dict, &w);
	if (err)
		return err;
	window_done(&o->window);
	o->window = w;
	o->number = r->number;
	return 0;
}

static void write_message(struct own *o, const struct window_counts *counts)
{
	struct entries_mark mark = o->acked;
	struct pack trial = {};
	struct window w = o->window;

	/* Entries that would not fit beside the rows go ahead. */
	o->entries_only = !entries_write(o->dict, &mark, ENTRIES_WITH, &trial);
	pack_done(&trial);
	w.counts = *counts;
	w.epoch = o->epoch;
	if (o->entries_only) {
		w.part = WINDOW_NO_PART;
		w.row_count = w.metric_count = w.finding_count = 0;
		w.span_count = w.span_row_count = 0;
		w.times = NULL;
	}
	do {
		o->message.len = 0;
		o->sent = o->acked;
		window_write(&w, o->dict, &o->sent, o->entries_only ? ENTRIES_BYTES : SIZE_MAX,
			     &o->message);
	} while (o->message.len > WINDOW_MESSAGE_MAX && w.times && (w.times = NULL, true));
	o->encoded = true;
}

static int own_make(void *self, const struct spooled *r, uint32_t most, struct far_request *ret)
{
	struct own *o = self;

	(void)most;
	if (o->number != r->number)
		o->encoded = false;
	if (!o->encoded) {
		int err = take_record(o, r);
		if (err)
			return err;
		write_message(o, &r->window.counts);
	}
	pack_raw(&ret->body, o->message.bytes, o->message.len);
	ret->content_type = "application/octet-stream";
	ret->through = UINT64_MAX;
	ret->samples = r->samples;
	return 0;
}

static enum far_verdict reset(struct own *o, struct far_answer *ret)
{
	o->epoch++;
	o->acked = (struct entries_mark){};
	o->encoded = false;
	if (++o->resets <= RESETS_MAX)
		return FAR_GO_ON;
	o->resets = 0;
	snprintf(ret->why, sizeof(ret->why), "it asks for the names again and again");
	return FAR_LATER;
}

static enum far_verdict own_judge(void *self, const struct fetch_answer *a, struct far_answer *ret)
{
	uint32_t part;
	struct window_reply reply;
	struct own *o = self;

	if (a->len < 3 || memcmp(a->body, "SMR", 3) != 0 ||
	    window_reply_read(a->body, a->len, &reply) != 0) {
		if (far_judge_status(a, ret) == FAR_SENT)
			snprintf(ret->why, sizeof(ret->why), "this is no server of smolder's");
		return FAR_LATER; /* whatever stands between says it, the server does not */
	}
	part = o->entries_only ? WINDOW_NO_PART : o->window.part;
	if (reply.sequence != o->window.sequence || reply.part != part ||
	    memcmp(reply.instance, o->instance, sizeof(reply.instance)) != 0) {
		snprintf(ret->why, sizeof(ret->why), "%s",
			 *reply.reason ? reply.reason : "the answer is to another message");
		return FAR_LATER;
	}
	ret->live_until_ms = reply.live_until_ms;
	ret->flush = reply.flush;
	snprintf(ret->why, sizeof(ret->why), "%.*s", FAR_WHY - 1, reply.reason);
	if (reply.status == WINDOW_RESET)
		return reset(o, ret);
	if (reply.status == WINDOW_LATER)
		return FAR_LATER;
	o->encoded = false;
	o->resets = 0;
	if (reply.status == WINDOW_REFUSED)
		return o->entries_only ? FAR_LATER : FAR_REFUSED;
	o->acked = o->sent;
	return o->entries_only ? FAR_GO_ON : FAR_SENT;
}

const struct far_protocol far_smolder = {
	.prefix = "",
	.name = "smolder",
	.path = "/api/v1/windows",
	.new = own_new,
	.free = own_free,
	.make = own_make,
	.judge = own_judge,
};
