#include "collect/kernel_samples.h"

#include <errno.h>
#include <string.h>

#include "base/mem.h"
#include "collect/cpus.h"
#include "collect/perf_ring.h"

#define RING_PAGES 128 /* of a CPU: more than a tenth of a second of deep stacks at any rate */
#define FRAMES     96

struct kernel_samples {
	struct perf_ring *rings;
	unsigned count;
	struct perf_event_attr attr;
	uint64_t lost;
	int error; /* of the last CPU that failed */
	struct perf_ring_room record;
};

struct sample_record {
	struct perf_event_header header;
	uint64_t count;
	uint64_t frames[];
};

struct lost_record {
	struct perf_event_header header;
	uint64_t id, lost;
};

static void open_cpu(void *ctx, unsigned cpu, bool online)
{
	struct kernel_samples *s = ctx;
	struct perf_ring ring;

	(void)online;
	int err = perf_ring_open(&ring, &s->attr, cpu, RING_PAGES);
	if (err) {
		s->error = err;
		return;
	}
	s->rings = mem_resize_array(s->rings, s->count + 1, sizeof(*s->rings));
	s->rings[s->count++] = ring;
}

int kernel_samples_new(uint64_t frequency, struct kernel_samples **ret)
{
	struct kernel_samples *s = mem_alloc(sizeof(*s));

	s->attr = (struct perf_event_attr){
		.size = sizeof(s->attr),
		.type = PERF_TYPE_SOFTWARE,
		.config = PERF_COUNT_SW_CPU_CLOCK,
		.sample_period = 1000000000 / frequency,
		.sample_type = PERF_SAMPLE_CALLCHAIN,
		.exclude_user = 1,
		.exclude_callchain_user = 1,
		.sample_max_stack = FRAMES,
	};
	int err = cpus_each_online(open_cpu, s);
	if (err || !s->count) {
		err = err ? err : s->error;
		kernel_samples_free(s);
		return err ? err : -ENODEV;
	}
	*ret = s;
	return 0;
}

void kernel_samples_free(struct kernel_samples *s)
{
	if (!s)
		return;
	for (unsigned i = 0; i < s->count; i++)
		perf_ring_close(&s->rings[i]);
	free(s->rings);
	free(s);
}

struct draining {
	struct kernel_samples *samples;
	kernel_samples_fn *fn;
	void *ctx;
};

static void on_record(void *ctx, struct perf_event_header *h)
{
	const struct draining *d = ctx;
	struct sample_record *r = (void *)h;

	if (h->type == PERF_RECORD_LOST && h->size >= sizeof(struct lost_record))
		d->samples->lost += ((struct lost_record *)h)->lost;
	if (h->type != PERF_RECORD_SAMPLE || h->size < sizeof(*r) ||
	    r->count > (h->size - sizeof(*r)) / sizeof(*r->frames))
		return;
	/* Marks of where the kernel's frames begin are not frames. */
	size_t count = 0;
	for (size_t i = 0; i < r->count; i++)
		if (r->frames[i] < (uint64_t)PERF_CONTEXT_MAX)
			r->frames[count++] = r->frames[i];
	if (count)
		d->fn(d->ctx, r->frames, count);
}

void kernel_samples_drain(struct kernel_samples *s, kernel_samples_fn *fn, void *ctx)
{
	struct draining d = {s, fn, ctx};

	for (unsigned i = 0; i < s->count; i++)
		if (perf_ring_drain(&s->rings[i], &s->record, on_record, &d, NULL) != 0)
			s->lost++;
}

uint64_t kernel_samples_lost(const struct kernel_samples *s)
{
	return s->lost;
}
