#include "pipeline/stream.h"

#include "base/clock.h"
#include "base/mem.h"
#include "base/sort.h"

/*
 * From a program's time stamp to its record being in the ring. Longer where a host takes a CPU away
 * in between: as long as was seen, and for a while after it.
 */
#define REORDER_NS     1000000
#define REORDER_DRAINS 64 /* to forget most of what was seen */

struct item {
	uint64_t key; /* its time, doubled: at the same time, records come first */
	const void *data;
};

struct stream {
	uint64_t lost;      /* records, as of the last drain */
	uint64_t passed_ns; /* all before this was handed out, but for what is late */
	uint64_t reorder_ns;
	struct stream_stats stats;
	struct sampler *sampler;
	struct sideband *sideband;
	struct arena records; /* those that items point to; events stay in their rings */
	struct arena room;    /* for the next ones */
	struct item *items;
	size_t count, cap;
};

struct stream *stream_new(struct sampler *sampler, struct sideband *sideband)
{
	struct stream *s = mem_alloc(sizeof(*s));

	s->sampler = sampler;
	s->sideband = sideband;
	s->reorder_ns = REORDER_NS;
	return s;
}

void stream_free(struct stream *s)
{
	if (!s)
		return;
	arena_done(&s->records);
	arena_done(&s->room);
	free(s->items);
	free(s);
}

static void put(struct stream *s, uint64_t time, bool is_record, const void *data)
{
	MEM_GROW(s->items, s->count, s->cap);
	s->items[s->count++] = (struct item){time << 1 | !is_record, data};
}

static void put_event(void *ctx, const struct wire_event *e)
{
	put(ctx, e->time, false, e);
}

static void put_record(void *ctx, const struct sideband_record *e)
{
	struct stream *s = ctx;
	struct sideband_record *copy = arena_dup(&s->records, e, sizeof(*e));

	if (e->name)
		copy->name = arena_strndup(&s->records, e->name, strlen(e->name));
	put(s, e->time, true, copy);
}

static bool is_record(const struct item *it)
{
	return !(it->key & 1);
}

/* Moves the records from `from` on to the beginning of an empty stream. */
static void hold_back(struct stream *s, size_t from)
{
	struct arena old = s->records;
	size_t count = s->count;

	s->records = s->room;
	s->count = 0;
	for (size_t i = from; i < count; i++)
		put_record(s, s->items[i].data);
	arena_reset(&old);
	s->room = old;
}

/* Counts what should have been in an earlier drain, in which later things were handed out. */
static void note_late(struct stream *s)
{
	uint64_t latest = 0;

	for (size_t i = 0; i < s->count && s->items[i].key >> 1 <= s->passed_ns; i++) {
		latest = MAX(latest, s->passed_ns - (s->items[i].key >> 1));
		if (is_record(&s->items[i]))
			s->stats.late_records++;
		else
			s->stats.late_events++;
	}
	s->reorder_ns -= (s->reorder_ns - REORDER_NS) / REORDER_DRAINS;
	if (latest)
		s->reorder_ns =
			MIN(MAX(s->reorder_ns, 2 * latest + REORDER_NS), STREAM_REORDER_MAX_NS);
}

void stream_stats(const struct stream *s, struct stream_stats *ret)
{
	*ret = s->stats;
}

void stream_drain(struct stream *s, const struct stream_handler *h, bool last)
{
	uint64_t until = last ? UINT64_MAX >> 1 : clock_ns(CLOCK_MONOTONIC) - s->reorder_ns;

	sampler_drain(s->sampler, until, put_event, s);
	if (s->sideband)
		sideband_drain(s->sideband, put_record, s);
	sort_by_u64(s->items, s->count, sizeof(*s->items));
	uint64_t lost = s->sideband ? sideband_lost(s->sideband) : 0;
	if (lost != s->lost && h->lost)
		h->lost(h->ctx);
	s->lost = lost;

	note_late(s);
	size_t i = 0;
	for (; i < s->count && s->items[i].key >> 1 <= until; i++) {
		if (is_record(&s->items[i]))
			h->record(h->ctx, s->items[i].data);
		else
			h->event(h->ctx, s->items[i].data);
	}
	s->passed_ns = last ? s->passed_ns : MAX(s->passed_ns, until);
	sampler_release(s->sampler);
	hold_back(s, i); /* events were not even taken */
}
