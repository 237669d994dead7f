#include "pipeline/wall.h"

#include <errno.h>
#include <string.h>

#include "base/mem.h"
#include "collect/offcpu_source.h"
#include "pipeline/running.h"
#include "pipeline/thread_series.h"

struct listed { /* a thread that was there at the end */
	struct wire_event event;
	struct offcpu_details details;
};

_Static_assert(sizeof(struct listed) == OFFCPU_ROSTER_BYTES, "as the iterator tells it");

struct wall {
	struct profile *profile;
	unsigned source; /* of the time off the CPU */
	struct offcpu *offcpu;
	struct latency *latency; /* NULL: all time weighs the same */
	struct running *running; /* NULL: no thread was looked for yet */
	struct thread_series *series;
	uint32_t state_running, state_lost; /* strings of the profile */
	uint64_t begin_ns, end_ns;          /* begin UINT64_MAX: not yet */
	uint64_t sampled;
	struct listed *listed;
	uint32_t listed_count, listed_cap;
	bool listed_full;
};

struct wall *wall_new(struct profile *p, struct offcpu *o, struct latency *l)
{
	static const char *const labels[] = {"state", NULL};
	struct wall *w = mem_alloc(sizeof(*w));

	w->profile = p;
	w->offcpu = o;
	w->latency = l;
	w->begin_ns = UINT64_MAX;
	w->series = thread_series_new(p, labels);
	w->state_running = profile_string(p, WALL_RUNNING, strlen(WALL_RUNNING));
	w->state_lost = profile_string(p, WALL_LOST, strlen(WALL_LOST));
	return w;
}

void wall_free(struct wall *w)
{
	if (!w)
		return;
	running_free(w->running);
	thread_series_free(w->series);
	free(w->listed);
	free(w);
}

/* ---- events ---------------------------------------------------------------------------------- */

void wall_event(void *ctx, const struct assembled *a)
{
	struct wall *w = ctx;
	const struct wire_event *e = a->event;
	const struct thread_labels none = {};

	if (e->details) { /* those of a clock have none */
		offcpu_event(w->offcpu, a);
		return;
	}
	if (e->time < w->begin_ns)
		return;
	w->sampled++;
	uint32_t series = thread_series_of(w->series, e, &none);
	if (w->latency)
		latency_sample(w->latency, series, a->stack, e->time, e->value);
	else
		profile_add(w->profile, series, a->stack, 1, e->value);
}

/* A new thread that had no turn before the end: the event that it would have left with. */
static void add_not_yet(struct wall *w, const struct wire_event *who, uint64_t from, uint64_t to)
{
	struct {
		struct wire_event event;
		struct offcpu_details details;
	} first = {.event = *who};

	first.event.kernel_frames = first.event.user_frames = 0;
	first.event.flags &= (uint16_t)~WIRE_SPAN;
	first.details = (struct offcpu_details){
		.previous = {.began = from, .ns = to - from, .runnable_ns = to - from},
		.syscall = -1,
		.is_first = 1,
	};
	offcpu_event(w->offcpu, &(struct assembled){.event = &first.event});
}

static void on_time(void *ctx, const struct wire_event *who, enum running_kind kind, uint64_t from,
		    uint64_t to)
{
	struct wall *w = ctx;
	struct thread_labels labels = {{kind == RUNNING_RAN ? w->state_running : w->state_lost}};

	if (kind == RUNNING_NOT_YET) {
		add_not_yet(w, who, from, to);
		return;
	}
	uint32_t series = thread_series_of(w->series, who, &labels);
	if (!w->latency)
		profile_add(w->profile, series, 0, 1, to - from);
	else if (kind == RUNNING_RAN)
		latency_ran(w->latency, series, from, to);
	else
		latency_waited(w->latency, series, 0, from, to);
}

static void on_tap(void *ctx, const struct wire_event *e)
{
	struct wall *w = ctx;

	if (e->details)
		running_event(w->running, e);
}

/* ---- the beginning and the end --------------------------------------------------------------- */

static void on_roster(void *ctx, const struct wire_event *e)
{
	struct wall *w = ctx;

	running_roster(w->running, e);
}

int wall_find(struct wall *w, struct pipeline *p, unsigned source)
{
	w->source = source;
	w->running = running_new(on_time, w);
	pipeline_tap(p, on_tap, w);
	int r = offcpu_find(p, source);
	return r ? r
		 : offcpu_source_roster(sampler_source(pipeline_sampler(p), source), on_roster, w);
}

void wall_begin(struct wall *w, uint64_t begin_ns)
{
	w->begin_ns = begin_ns;
	offcpu_begin(w->offcpu, begin_ns);
	running_begin(w->running, begin_ns);
}

static void on_thread(void *ctx, const struct offcpu_thread *t)
{
	struct wall *w = ctx;

	running_back(w->running, t);
}

static void on_end(void *ctx, const struct wire_event *e)
{
	struct wall *w = ctx;

	w->listed_full = w->listed_count == OFFCPU_THREADS_MAX;
	if (w->listed_full)
		return;
	while (w->listed_count >= w->listed_cap)
		MEM_GROW(w->listed, w->listed_cap, w->listed_cap);
	memcpy(&w->listed[w->listed_count++], e, sizeof(*w->listed));
}

int wall_end(struct wall *w, struct pipeline *p, uint64_t end_ns)
{
	w->end_ns = end_ns;
	int r = offcpu_source_roster(sampler_source(pipeline_sampler(p), w->source), on_end, w);
	return r == 0 && w->listed_full ? -ENOBUFS : r;
}

void wall_finish(struct wall *w, struct pipeline *p)
{
	offcpu_source_threads(sampler_source(pipeline_sampler(p), w->source), on_thread, w);
	for (uint32_t i = 0; i < w->listed_count; i++)
		running_end(w->running, &w->listed[i].event, w->end_ns);
}

uint64_t wall_sampled(const struct wall *w)
{
	return w->sampled;
}
