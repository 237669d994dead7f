#include "syscall/trace_records.h"

#include "base/mem.h"

/*
 * Records are copied one behind the other into two areas by turns: what is still wanted when an
 * area is left is what the other one begins with.
 */
struct area {
	uint8_t *bytes;
	size_t used, cap;
};

struct record_ref {
	uint64_t end;
	size_t at; /* in the area */
};

struct trace_records {
	struct area area;
	struct record_ref *refs; /* in order of `end`, from `first` on */
	size_t first, count, cap;
	uint64_t dropped, dropped_until;
};

struct trace_records *trace_records_new(void)
{
	return mem_alloc(sizeof(struct trace_records));
}

void trace_records_free(struct trace_records *h)
{
	if (!h)
		return;
	free(h->area.bytes);
	free(h->refs);
	free(h);
}

static const struct trace_record *record_at(const struct trace_records *h, size_t i)
{
	return (const void *)(h->area.bytes + h->refs[i].at);
}

/* Makes one area of what is left. */
static void compact(struct trace_records *h)
{
	struct area to = {.cap = h->area.cap};
	size_t kept = 0;

	to.bytes = mem_resize_array(NULL, MAX(to.cap, 1u), 1);
	for (size_t i = h->first; i < h->count; i++) {
		const struct trace_record *r = record_at(h, i);
		memcpy(to.bytes + to.used, r, r->bytes);
		h->refs[kept++] = (struct record_ref){h->refs[i].end, to.used};
		to.used += r->bytes;
	}
	free(h->area.bytes);
	h->area = to;
	h->first = 0;
	h->count = kept;
}

static size_t live_bytes(const struct trace_records *h)
{
	size_t sum = 0;

	for (size_t i = h->first; i < h->count; i++)
		sum += record_at(h, i)->bytes;
	return sum;
}

static void make_room(struct trace_records *h, size_t bytes)
{
	if (h->first == h->count) {
		h->first = h->count = 0;
		h->area.used = 0;
	}
	if (h->area.used + bytes <= h->area.cap)
		return;
	if (h->area.cap < TRACE_RECORDS_BYTES && live_bytes(h) > h->area.cap / 2) {
		h->area.cap = MIN(MAX(h->area.cap * 2, 1u << 20), TRACE_RECORDS_BYTES);
		h->area.bytes = mem_resize_array(h->area.bytes, h->area.cap, 1);
		return;
	}
	if (!h->area.cap) {
		h->area.cap = 1u << 20;
		h->area.bytes = mem_resize_array(NULL, h->area.cap, 1);
		return;
	}
	/* A quarter at a time, so that it is not done for each record. */
	size_t live = live_bytes(h);
	while (h->first < h->count && live + bytes > h->area.cap - h->area.cap / 4) {
		h->dropped_until = h->refs[h->first].end;
		live -= record_at(h, h->first++)->bytes;
		h->dropped++;
	}
	compact(h);
}

void trace_records_add(struct trace_records *h, const struct trace_record *r)
{
	make_room(h, r->bytes);
	MEM_GROW(h->refs, h->count, h->cap);
	/* Nearly always it is the last one. */
	size_t i = h->count++;
	for (; i > h->first && h->refs[i - 1].end > r->end; i--)
		h->refs[i] = h->refs[i - 1];
	h->refs[i] = (struct record_ref){r->end, h->area.used};
	memcpy(h->area.bytes + h->area.used, r, r->bytes);
	h->area.used += r->bytes;
}

const struct trace_record *trace_records_first(const struct trace_records *h)
{
	return h->first < h->count ? record_at(h, h->first) : NULL;
}

void trace_records_take(struct trace_records *h, uint64_t until, trace_records_fn *fn, void *ctx)
{
	for (; h->first < h->count && h->refs[h->first].end < until; h->first++)
		fn(ctx, record_at(h, h->first));
}

void trace_records_forget(struct trace_records *h, uint64_t from)
{
	while (h->first < h->count && h->refs[h->first].end < from)
		h->first++;
}

uint64_t trace_records_dropped(const struct trace_records *h)
{
	return h->dropped;
}

uint64_t trace_records_dropped_until(const struct trace_records *h)
{
	return h->dropped_until;
}
