#include "serve/receiver.h"

#include <errno.h>

#include "base/index.h"
#include "base/mem.h"

#define SETTLE_MS 50
#define TYPES_MAX 32 /* that are remembered */

struct instance {
	uint8_t id[16];
	uint32_t epoch;
	struct profile *dict;
	struct rules_view rules;
	size_t bytes; /* of dict, rules and later */
	bool broken;  /* dict is of no more use */
	uint64_t heard_ms;
	uint64_t covered_ms; /* all that was taken before is here */
	enum { REMOTE, LOCAL, REPLACED } origin;
	bool flush;
	/* The latest message, known by its length and hash. */
	size_t last_len;
	uint64_t last_hash;
	bool last_stored;
	struct window later; /* it, while it could not be stored */
	struct window_metric *metrics;
	uint32_t metric_count;
};

struct heard_type {
	char name[WINDOW_TYPE_MAX];
	uint64_t heard_ms;
};

struct receiver {
	receiver_append_fn *append;
	void *append_ctx;
	struct heard_type types[TYPES_MAX];
	struct instance *instances[RECEIVER_INSTANCES];
	uint32_t count;
	size_t bytes; /* of all dictionaries */
	uint64_t live_until_ms;
	receiver_frames_fn *on_frames; /* NULL: nobody wants to know */
	void *frames_ctx;
	struct rules *rules; /* NULL: none */
	struct receiver_stats stats;
};

struct receiver *receiver_new_into(receiver_append_fn *fn, void *ctx)
{
	struct receiver *r = mem_alloc(sizeof(*r));

	r->append = fn;
	r->append_ctx = ctx;
	return r;
}

static int append_to_store(void *ctx, const struct profile *dict, const struct window *w,
			   uint64_t now_ms, struct store_error *ret_err)
{
	return store_append(ctx, dict, w, now_ms, ret_err);
}

struct receiver *receiver_new(struct store *s)
{
	return receiver_new_into(append_to_store, s);
}

void receiver_on_frames(struct receiver *r, receiver_frames_fn *fn, void *ctx)
{
	r->on_frames = fn;
	r->frames_ctx = ctx;
}

void receiver_set_rules(struct receiver *r, struct rules *rules)
{
	r->rules = rules;
}

static void drop_metrics(struct instance *i)
{
	for (uint32_t m = 0; m < i->metric_count; m++)
		free((char *)i->metrics[m].name);
	free(i->metrics);
	i->metrics = NULL;
	i->metric_count = 0;
}

static void instance_free(struct instance *i)
{
	drop_metrics(i);
	window_done(&i->later);
	rules_view_done(&i->rules);
	profile_free(i->dict);
	free(i);
}

void receiver_free(struct receiver *r)
{
	if (!r)
		return;
	for (uint32_t i = 0; i < r->count; i++)
		instance_free(r->instances[i]);
	free(r);
}

static void forget(struct receiver *r, uint32_t at)
{
	r->bytes -= r->instances[at]->bytes;
	instance_free(r->instances[at]);
	r->instances[at] = r->instances[--r->count];
}

static void forget_oldest(struct receiver *r, const struct instance *but)
{
	uint32_t oldest = UINT32_MAX;

	for (uint32_t i = 0; i < r->count; i++)
		if (r->instances[i] != but &&
		    (oldest == UINT32_MAX ||
		     r->instances[i]->heard_ms < r->instances[oldest]->heard_ms))
			oldest = i;
	if (oldest == UINT32_MAX)
		return;
	forget(r, oldest);
	r->stats.forgotten++;
}

static uint32_t find(const struct receiver *r, const uint8_t id[16])
{
	for (uint32_t i = 0; i < r->count; i++)
		if (memcmp(r->instances[i]->id, id, 16) == 0)
			return i;
	return UINT32_MAX;
}

static struct instance *add(struct receiver *r, const struct window *head)
{
	struct instance *i = mem_alloc(sizeof(*i));

	if (r->count == RECEIVER_INSTANCES)
		forget_oldest(r, NULL);
	memcpy(i->id, head->instance, 16);
	i->epoch = head->epoch;
	i->dict = profile_new();
	r->instances[r->count++] = i;
	return i;
}

/* Two independent halves: a collision would take a new message for an old one. */
static uint64_t hash_of(const void *bytes, size_t len)
{
	uint64_t a = index_hash_bytes(bytes, len), b = 14695981039346656037ull;

	for (size_t i = 0; i < len; i++)
		b = (b ^ ((const uint8_t *)bytes)[i]) * 1099511628211ull;
	return a << 32 ^ b;
}

/* Keeps under the cap; one that fills it alone is told to begin a new dictionary. */
static void account(struct receiver *r, struct instance *i)
{
	size_t now = profile_bytes(i->dict) + rules_view_bytes(&i->rules) +
		     i->later.row_count * sizeof(*i->later.rows) +
		     i->later.time_count * sizeof(*i->later.times);

	r->bytes += now - i->bytes;
	i->bytes = now;
	i->broken |= now > RECEIVER_BYTES;
	while (r->bytes > RECEIVER_BYTES && r->count > 1)
		forget_oldest(r, i);
}

/* They stay in the window as well: an agent sends it on. */
static void keep_metrics(struct instance *i, const struct window *w)
{
	if (!w->metric_count)
		return;
	drop_metrics(i);
	i->metrics = window_copy_metrics(w);
	i->metric_count = w->metric_count;
}

/* More types than are remembered: the one that was heard of longest ago is forgotten. */
static void hear_type(struct receiver *r, const char *name, uint64_t now_ms)
{
	struct heard_type *to = &r->types[0];

	for (size_t i = 0; i < TYPES_MAX; i++) {
		if (strcmp(r->types[i].name, name) == 0) {
			r->types[i].heard_ms = now_ms;
			return;
		}
		if (r->types[i].heard_ms < to->heard_ms)
			to = &r->types[i];
	}
	snprintf(to->name, sizeof(to->name), "%s", name);
	to->heard_ms = now_ms;
}

bool receiver_has_type(const struct receiver *r, const char *type, uint64_t since_ms)
{
	for (size_t i = 0; i < TYPES_MAX; i++)
		if (strcmp(r->types[i].name, type) == 0)
			return r->types[i].heard_ms && r->types[i].heard_ms >= since_ms;
	return false;
}

static enum window_status store_it(struct receiver *r, struct instance *i, struct window *w,
				   uint64_t now_ms, char reason[static 256])
{
	struct store_error err = {};

	if (w->part == WINDOW_NO_PART)
		return WINDOW_STORED; /* entries only, and they are in the dictionary */
	int e = r->append(r->append_ctx, i->dict, w, now_ms, &err);
	if (!e && r->rules)
		rules_window(r->rules, &i->rules, i->dict, w);
	if (!e || e == -EEXIST) {
		r->stats.last_error = 0;
		return e ? WINDOW_DUPLICATE : WINDOW_STORED;
	}
	snprintf(reason, 256, "%.255s", *err.text ? err.text : strerror(-e));
	if (e == -ERANGE || e == -EINVAL || e == -EBADMSG)
		return WINDOW_REFUSED;
	r->stats.last_error = e;
	snprintf(r->stats.last_words, sizeof(r->stats.last_words), "%s", reason);
	return WINDOW_LATER;
}

/* A message that came before: it is stored, or now it may be. */
static enum window_status again(struct receiver *r, struct instance *i, uint64_t now_ms,
				char reason[static 256])
{
	if (i->last_stored)
		return WINDOW_DUPLICATE;
	enum window_status status = store_it(r, i, &i->later, now_ms, reason);
	if (status != WINDOW_LATER) {
		window_done(&i->later);
		i->last_stored = true;
	}
	return status;
}

/*
 * A window may come before its end, when its length changes or it is flushed: then it holds what
 * was taken until shortly before it came.
 */
static uint64_t covered_by(const struct window *w, uint64_t now_ms)
{
	return MIN(w->start_ms + w->length_ms, now_ms - SETTLE_MS);
}

static enum window_status read_new(struct receiver *r, struct instance *i, const void *bytes,
				   size_t len, uint64_t now_ms, char reason[static 256])
{
	uint32_t frames = i->dict->frame_count;
	struct window w;

	int e = window_read(bytes, len, i->dict, &w);
	i->broken = e;
	if (e == -ESTALE)
		return WINDOW_RESET;
	if (e) {
		r->stats.malformed++;
		snprintf(reason, 256, "%s",
			 e == -EFBIG ? "the message, its dictionary or a stack in it is larger "
				       "than the server accepts"
				     : "the message cannot be read");
		return WINDOW_REFUSED;
	}
	if (r->on_frames && i->dict->frame_count > frames)
		r->on_frames(r->frames_ctx, i->dict, frames);
	bool is_last_part = w.metric_count;
	keep_metrics(i, &w);
	enum window_status status = store_it(r, i, &w, now_ms, reason);
	if (status != WINDOW_REFUSED && w.part != WINDOW_NO_PART)
		hear_type(r, w.type, now_ms);
	if (is_last_part && (status == WINDOW_STORED || status == WINDOW_DUPLICATE))
		i->covered_ms = MAX(i->covered_ms, covered_by(&w, now_ms));
	window_done(&i->later);
	if (status == WINDOW_LATER)
		i->later = w;
	else
		window_done(&w);
	i->last_len = len;
	i->last_hash = hash_of(bytes, len);
	i->last_stored = status != WINDOW_LATER;
	account(r, i);
	return status;
}

static enum window_status handle(struct receiver *r, const void *bytes, size_t len, uint64_t now_ms,
				 struct window_reply *reply)
{
	struct window head;
	int e = len > WINDOW_MESSAGE_MAX ? -EFBIG : window_peek(bytes, len, &head);

	if (e) {
		r->stats.malformed++;
		snprintf(reply->reason, sizeof(reply->reason), "%s",
			 e == -EPROTONOSUPPORT ? "this server speaks another version of the message"
			 : e == -EFBIG         ? "the message is too large"
					       : "this is not a window message");
		return WINDOW_REFUSED;
	}
	memcpy(reply->instance, head.instance, 16);
	reply->sequence = head.sequence;
	reply->part = head.part;

	uint32_t at = find(r, head.instance);
	if (at != UINT32_MAX && r->instances[at]->epoch != head.epoch) {
		forget(r, at);
		at = UINT32_MAX;
	}
	struct instance *i = at == UINT32_MAX ? add(r, &head) : r->instances[at];
	i->heard_ms = r->stats.last_ms = now_ms;
	memcpy(r->stats.last_instance, i->id, 16);
	reply->flush = i->flush;
	i->flush = false;
	enum window_status status;
	if (i->last_len == len && i->last_hash == hash_of(bytes, len))
		status = again(r, i, now_ms, reply->reason);
	else
		status = read_new(r, i, bytes, len, now_ms, reply->reason);
	if (i->broken)
		forget(r, find(r, head.instance));
	return status;
}

enum window_status receiver_message(struct receiver *r, const void *bytes, size_t len,
				    uint64_t now_ms, struct pack *reply)
{
	struct window_reply answer = {};

	answer.status = handle(r, bytes, len, now_ms, &answer);
	answer.live_until_ms = r->live_until_ms > now_ms ? r->live_until_ms : 0;
	r->stats.messages++;
	r->stats.bytes += len;
	r->stats.by_status[answer.status]++;
	window_reply_write(&answer, reply);
	return answer.status;
}

void receiver_live(struct receiver *r, uint64_t until_ms)
{
	r->live_until_ms = MAX(r->live_until_ms, until_ms);
}

void receiver_flush(struct receiver *r)
{
	for (uint32_t i = 0; i < r->count; i++)
		r->instances[i]->flush = r->instances[i]->origin == REMOTE;
}

void receiver_control(const struct receiver *r, bool flush, uint64_t now_ms, struct pack *out)
{
	struct window_reply control = {
		.part = WINDOW_NO_PART,
		.live_until_ms = r->live_until_ms > now_ms ? r->live_until_ms : 0,
		.flush = flush,
	};

	window_reply_write(&control, out);
}

void receiver_is_local(struct receiver *r)
{
	for (uint32_t i = 0; i < r->count; i++) {
		struct instance *one = r->instances[i];
		if (memcmp(one->id, r->stats.last_instance, sizeof(one->id)) == 0)
			one->origin = LOCAL;
		else if (one->origin == LOCAL)
			one->origin = REPLACED;
	}
}

struct receiver_reach receiver_reach(const struct receiver *r, uint64_t since_ms, uint64_t until_ms)
{
	struct receiver_reach ret = {};

	for (uint32_t i = 0; i < r->count; i++) {
		const struct instance *one = r->instances[i];
		if (one->heard_ms < since_ms || one->origin == REPLACED)
			continue;
		bool is_behind = one->covered_ms < until_ms;
		*(one->origin == LOCAL ? &ret.local : &ret.remote) += 1;
		*(one->origin == LOCAL ? &ret.local_behind : &ret.remote_behind) += is_behind;
	}
	return ret;
}

/* Whether another collector has taken over its counters: both go by the same 8 bytes. */
static bool has_heir(const struct receiver *r, uint32_t at)
{
	const struct instance *one = r->instances[at];

	for (uint32_t i = 0; i < r->count; i++) {
		const struct instance *other = r->instances[i];
		if (i != at && memcmp(one->id, other->id, 8) == 0 &&
		    (other->heard_ms > one->heard_ms ||
		     (other->heard_ms == one->heard_ms && i > at)))
			return true;
	}
	return false;
}

void receiver_metrics(const struct receiver *r, receiver_metric_fn *fn, void *ctx)
{
	for (uint32_t i = 0; i < r->count; i++)
		for (uint32_t m = 0; m < r->instances[i]->metric_count && !has_heir(r, i); m++)
			fn(ctx, r->instances[i]->id, r->instances[i]->metrics[m].name,
			   r->instances[i]->metrics[m].value);
}

enum { NOT_AT_ALL, HEARD, HEARD_LAST, REPORTED_BEFORE, OF_RUN };

static int rank(const struct receiver *r, const struct instance *one, const uint8_t previous[16],
		uint64_t since_ms)
{
	if (one->origin == REPLACED)
		return NOT_AT_ALL;
	if (one->origin == LOCAL)
		return OF_RUN;
	if (previous && one->heard_ms >= since_ms && memcmp(one->id, previous, 16) == 0)
		return REPORTED_BEFORE;
	return memcmp(one->id, r->stats.last_instance, 16) == 0 ? HEARD_LAST : HEARD;
}

bool receiver_main_collector(const struct receiver *r, const uint8_t previous[16],
			     uint64_t since_ms, uint8_t ret[16])
{
	int best = NOT_AT_ALL;

	for (uint32_t i = 0; i < r->count; i++) {
		int mine = rank(r, r->instances[i], previous, since_ms);
		if (mine <= best)
			continue;
		best = mine;
		memcpy(ret, r->instances[i]->id, 16);
	}
	return best != NOT_AT_ALL;
}

void receiver_stats(const struct receiver *r, struct receiver_stats *ret)
{
	*ret = r->stats;
	ret->instances = r->count;
	ret->dictionary_bytes = r->bytes;
}
