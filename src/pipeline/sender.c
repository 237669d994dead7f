#include "pipeline/sender.h"

#include <errno.h>

#include "base/mem.h"

#define MAX_BYTES     (16u << 20)
#define PART_ROWS     4000
#define PART_SAMPLES  32000
#define ENTRIES_BYTES (WINDOW_MESSAGE_MAX / 2) /* in a message without rows */
#define ENTRIES_WITH  (16u << 10)              /* in one with rows: room for both */

struct unsent {
	struct window window;
	unsigned source;
	uint64_t samples; /* in the parts that are left */
	uint32_t row;     /* the first row of the part to send */
	size_t time;      /* … and its first sample time */
	struct unsent *next;
};

struct sender {
	const struct profile *dict;
	uint8_t instance[16];
	size_t max_bytes, bytes;
	struct unsent *first, **last;
	uint64_t sequence;
	uint32_t epoch;
	struct entries_mark sent, acked; /* the dictionary: with the message, and before it */
	struct window_metric *metrics;
	uint32_t metric_count;

	struct pack message; /* sent again byte for byte, so that the receiver knows it */
	bool encoded, on_its_way;
	uint32_t part, part_rows; /* of the message */
	size_t part_times;
	uint64_t part_samples;
	uint64_t message_sequence;
	struct {
		bool is_uncounted;
		uint64_t stored, dropped, refused; /* samples */
	} of[SOURCES_MAX];                         /* by source */
	struct sender_stats stats;
};

struct sender *sender_new(const struct profile *dict, const uint8_t instance[16], size_t max_bytes)
{
	struct sender *s = mem_alloc(sizeof(*s));

	s->dict = dict;
	memcpy(s->instance, instance, sizeof(s->instance));
	s->max_bytes = max_bytes ? max_bytes : MAX_BYTES;
	s->last = &s->first;
	s->epoch = 1;
	return s;
}

static size_t bytes_of(const struct unsent *w)
{
	return sizeof(*w) + w->window.row_count * sizeof(*w->window.rows) +
	       w->window.time_count * sizeof(*w->window.times) +
	       w->window.finding_count * sizeof(*w->window.findings) +
	       w->window.span_count * sizeof(*w->window.spans) +
	       w->window.span_row_count * sizeof(*w->window.span_rows);
}

static void remove_first(struct sender *s)
{
	struct unsent *w = s->first;

	s->first = w->next;
	if (!s->first)
		s->last = &s->first;
	s->bytes -= bytes_of(w);
	s->stats.waiting--;
	s->stats.waiting_samples -= w->samples;
	window_done(&w->window);
	free(w);
}

void sender_free(struct sender *s)
{
	if (!s)
		return;
	while (s->first)
		remove_first(s);
	pack_done(&s->message);
	free(s);
}

/* The oldest goes; but not one whose message was sent, as that may be stored already. */
static void make_room(struct sender *s)
{
	while (s->bytes > s->max_bytes && s->stats.waiting > 1) {
		struct unsent *w = s->first;
		if (s->encoded && s->part != WINDOW_NO_PART) {
			if (s->stats.waiting < 3)
				return;
			w = w->next;
			s->first->next = w->next;
			w->next = s->first;
			s->first = w;
		}
		s->stats.dropped_windows++;
		s->stats.dropped_samples += s->first->samples;
		s->of[s->first->source].dropped += s->first->samples;
		remove_first(s);
	}
}

static void push(struct sender *s, unsigned source, struct window *w)
{
	struct unsent *new = mem_alloc(sizeof(*new));

	new->window = *w;
	new->source = MIN(source, SOURCES_MAX - 1);
	*w = (struct window){};
	memcpy(new->window.instance, s->instance, sizeof(s->instance));
	new->window.sequence = ++s->sequence;
	for (uint32_t i = 0; i < new->window.row_count; i++)
		new->samples += new->window.rows[i].count;
	*s->last = new;
	s->last = &new->next;
	s->bytes += bytes_of(new);
	s->stats.waiting++;
	s->stats.waiting_samples += new->samples;
	make_room(s);
}

void sender_push(struct sender *s, unsigned source, struct window *w)
{
	struct window spans = {
		.start_ms = w->start_ms,
		.length_ms = w->length_ms,
		.period = w->period,
		.spans = TAKE_PTR(w->spans),
		.span_count = w->span_count,
		.span_rows = TAKE_PTR(w->span_rows),
		.span_row_count = w->span_row_count,
	};
	struct window part;

	memcpy(spans.type, w->type, sizeof(spans.type));
	memcpy(spans.unit, w->unit, sizeof(spans.unit));
	w->span_count = w->span_row_count = 0;
	push(s, source, w); /* first: what spans refer to is known by then */
	for (uint32_t at = 0; at < spans.span_row_count;) {
		at = window_cut_spans(&spans, at, &part);
		push(s, source, &part);
	}
	window_done(&spans);
}

void sender_uncounted(struct sender *s, unsigned source)
{
	s->of[MIN(source, SOURCES_MAX - 1)].is_uncounted = true;
}

void sender_metrics(struct sender *s, struct window_metric *metrics, uint32_t count)
{
	s->metrics = metrics;
	s->metric_count = count;
}

/* How many rows the part that begins at w->row has: always the same for the same window. */
static void measure_part(struct sender *s, const struct unsent *w)
{
	uint32_t rows = 0;
	uint64_t samples = 0;

	for (uint32_t i = w->row; i < w->window.row_count && rows < PART_ROWS; i++, rows++) {
		if (rows && samples + w->window.rows[i].count > PART_SAMPLES)
			break;
		samples += w->window.rows[i].count;
	}
	s->part_rows = rows;
	s->part_samples = samples;
	s->part_times = w->window.times ? samples : 0;
}

static void encode(struct sender *s, const struct window_counts *counts, bool entries_only)
{
	const struct unsent *w = s->first;
	struct window part = w->window;

	part.epoch = s->epoch;
	part.counts = counts[w->source];
	part.counts.lost[WINDOW_LOST_BUFFER] += s->of[w->source].dropped;
	part.counts.lost[WINDOW_LOST_REFUSED] += s->of[w->source].refused;
	part.row_count = part.finding_count = part.span_count = part.span_row_count = 0;
	part.times = NULL;
	part.part = s->part = WINDOW_NO_PART;
	if (!entries_only) {
		measure_part(s, w);
		part.part = s->part = w->row; /* as good a number as any */
		part.rows = w->window.rows + w->row;
		part.row_count = s->part_rows;
		/* A row of so many samples that their times alone would fill a message goes
		 * without. */
		if (w->window.times && s->part_samples <= PART_SAMPLES)
			part.times = w->window.times + w->time;
		part.finding_count = w->window.finding_count;
		part.span_count = w->window.span_count;
		part.span_row_count = w->window.span_row_count;
		if (w->row + s->part_rows == w->window.row_count && !part.finding_count &&
		    !part.span_row_count) {
			part.metrics = s->metrics;
			part.metric_count = s->metric_count;
		}
	}
	if (s->of[w->source].is_uncounted)
		part.counts.taken = s->of[w->source].stored + s->of[w->source].dropped +
				    s->of[w->source].refused + (entries_only ? 0 : s->part_samples);
	s->message.len = 0;
	s->sent = s->acked;
	s->message_sequence = part.sequence;
	window_write(&part, s->dict, &s->sent, entries_only ? ENTRIES_BYTES : SIZE_MAX,
		     &s->message);
}

const struct pack *sender_message(struct sender *s, const struct window_counts *counts)
{
	if (s->on_its_way || !s->first)
		return NULL;

	if (!s->encoded) {
		/* Entries that would not fit beside the rows go ahead. */
		struct entries_mark mark = s->acked;
		struct pack trial = {};
		bool fits = entries_write(s->dict, &mark, ENTRIES_WITH, &trial);
		pack_done(&trial);
		encode(s, counts, !fits);
		s->encoded = true;
	}
	s->on_its_way = true;
	s->stats.messages++;
	s->stats.bytes += s->message.len;
	return &s->message;
}

static void part_is_done(struct sender *s, bool refused)
{
	struct unsent *w = s->first;

	if (s->part == WINDOW_NO_PART)
		return;
	w->row += s->part_rows;
	w->time += s->part_times;
	w->samples -= s->part_samples;
	s->stats.waiting_samples -= s->part_samples;
	*(refused ? &s->stats.refused_samples : &s->stats.sent_samples) += s->part_samples;
	*(refused ? &s->of[w->source].refused : &s->of[w->source].stored) += s->part_samples;
	if (w->row < w->window.row_count)
		return;
	s->stats.refused_windows += refused;
	remove_first(s);
}

int sender_reply(struct sender *s, const void *bytes, size_t len, struct window_reply *ret)
{
	struct window_reply r;
	int err = window_reply_read(bytes, len, &r);

	if (err)
		return err;
	if (!s->encoded || memcmp(r.instance, s->instance, sizeof(r.instance)) != 0 ||
	    r.sequence != s->message_sequence || r.part != s->part)
		return -EALREADY;
	s->on_its_way = false;
	s->encoded = r.status == WINDOW_LATER;
	switch (r.status) {
	case WINDOW_STORED:
	case WINDOW_DUPLICATE:
		s->acked = s->sent;
		part_is_done(s, false);
		break;
	case WINDOW_REFUSED:
		s->acked = s->sent;
		part_is_done(s, true);
		break;
	case WINDOW_RESET:
		s->stats.resets++;
		s->epoch++;
		s->acked = (struct entries_mark){};
		break;
	case WINDOW_LATER:
		s->stats.repeats++;
		break;
	}
	*ret = r;
	return 0;
}

void sender_again(struct sender *s)
{
	s->stats.repeats += s->on_its_way;
	s->on_its_way = false;
}

void sender_stats(const struct sender *s, struct sender_stats *ret)
{
	*ret = s->stats;
}
