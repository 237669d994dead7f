#include "pipeline/running.h"

#include "base/index.h"
#include "base/mem.h"

#define GONE_MIN 4096 /* threads that have ended: fewer are not worth making room */

struct thread {
	uint32_t tid;
	bool is_gone;
	bool is_off;
	uint64_t since; /* when it left its CPU; or since when it runs, 0: before it was known */
	uint64_t ran;   /* se.sum_exec_runtime when it left */
	/* At the end: when it came back, if it did; and since when it is not known what it did, as
	   its last events were lost. */
	uint64_t back, lost;
};

struct running {
	uint64_t begin_ns; /* UINT64_MAX: not yet */
	running_fn *fn;
	void *ctx;
	struct thread *threads; /* [0] is not used */
	uint32_t count, cap, gone;
	struct index by_tid;
};

struct running *running_new(running_fn *fn, void *ctx)
{
	struct running *r = mem_alloc(sizeof(*r));

	*r = (struct running){.begin_ns = UINT64_MAX, .fn = fn, .ctx = ctx, .count = 1};
	return r;
}

void running_free(struct running *r)
{
	if (!r)
		return;
	free(r->threads);
	index_done(&r->by_tid);
	free(r);
}

void running_begin(struct running *r, uint64_t begin_ns)
{
	r->begin_ns = begin_ns;
}

/* ---- threads --------------------------------------------------------------------------------- */

static struct thread *find(const struct running *r, uint32_t tid)
{
	uint32_t hash = index_hash2(tid, 0), id;

	INDEX_EACH(&r->by_tid, hash, id)
		if (r->threads[id].tid == tid)
			return &r->threads[id];
	return NULL;
}

static struct thread *find_living(const struct running *r, uint32_t tid)
{
	struct thread *t = find(r, tid);

	return t && !t->is_gone ? t : NULL;
}

static void remove_gone(struct running *r)
{
	uint32_t kept = 1;

	if (r->gone < GONE_MIN || r->gone < r->count / 2)
		return;
	index_clear(&r->by_tid);
	for (uint32_t i = 1; i < r->count; i++)
		if (!r->threads[i].is_gone) {
			r->threads[kept] = r->threads[i];
			index_put(&r->by_tid, index_hash2(r->threads[kept].tid, 0), kept);
			kept++;
		}
	r->count = kept;
	r->gone = 0;
}

/* One that runs since then. */
static struct thread *add(struct running *r, uint32_t tid, uint64_t since)
{
	struct thread *t = find(r, tid); /* its number may have been another's */

	if (t) {
		r->gone -= t->is_gone;
	} else {
		remove_gone(r);
		while (r->count >= r->cap)
			MEM_GROW(r->threads, r->cap, r->cap);
		t = &r->threads[r->count];
		index_put(&r->by_tid, index_hash2(tid, 0), r->count++);
	}
	*t = (struct thread){.tid = tid, .since = since};
	return t;
}

/* ---- time ------------------------------------------------------------------------------------ */

static void emit(struct running *r, const struct wire_event *who, enum running_kind kind,
		 uint64_t from, uint64_t to)
{
	from = MAX(from, r->begin_ns);
	if (to > from)
		r->fn(r->ctx, who, kind, from, to);
}

static uint64_t end_of(const struct offcpu_period *p)
{
	return p->began + p->ns;
}

void running_roster(struct running *r, const struct wire_event *e)
{
	const struct offcpu_details *d = wire_details(e);

	/* One that is off its CPU, and not known to be, left it a moment ago: its event is to come.
	 */
	if (!find_living(r, e->tid))
		add(r, e->tid, d->is_first ? end_of(&d->previous) : 0);
}

/* It leaves a CPU, having been off one before. */
static void add_slice(struct running *r, const struct thread *t, const struct wire_event *e,
		      const struct offcpu_details *d)
{
	bool is_next = d->previous.began == t->since;
	uint64_t back = is_next ? end_of(&d->previous) : t->since, ran = e->value - t->ran;

	if (is_next && !(d->flags & OFFCPU_AFTER_LOSS)) {
		emit(r, e, RUNNING_RAN, back, e->time);
		return;
	}
	ran = MIN(ran, e->time > back ? e->time - back : 0);
	emit(r, e, RUNNING_LOST, back, e->time - ran);
	emit(r, e, RUNNING_RAN, e->time - ran, e->time);
}

void running_event(struct running *r, const struct wire_event *e)
{
	const struct offcpu_details *d = wire_details(e);
	struct thread *t = find_living(r, e->tid);

	if (e->details < OFFCPU_DETAILS || d->woken_period_began)
		return;
	/* Found off its CPU, it may have come and left once more before it was told of here. */
	if (t && d->flags & OFFCPU_FOUND)
		return;
	if (!t && d->is_first)
		t = add(r, e->tid, end_of(&d->previous));
	if (!t) /* it was not listed yet, or is one of those asked for only now */
		t = add(r, e->tid, e->time);
	if (t->is_off)
		add_slice(r, t, e, d);
	else
		emit(r, e, RUNNING_RAN, d->is_first ? end_of(&d->previous) : t->since, e->time);
	t->is_off = true;
	t->since = e->time;
	t->ran = e->value;
	if (d->state == OFFCPU_NONE) {
		t->is_gone = true;
		r->gone++;
	}
}

void running_back(struct running *r, const struct offcpu_thread *in_kernel)
{
	struct thread *t = find_living(r, in_kernel->tid);

	if (!t)
		return;
	t->back = in_kernel->back;
	if (in_kernel->lost)
		t->lost = MAX(t->since, end_of(&in_kernel->previous));
}

void running_end(struct running *r, const struct wire_event *e, uint64_t end_ns)
{
	const struct offcpu_details *d = wire_details(e);
	const struct thread *t = find_living(r, e->tid);
	uint64_t ran_from = end_ns;

	if (t && t->is_off && t->lost) {
		ran_from -= MIN(e->value - t->ran, end_ns - t->lost);
		emit(r, e, RUNNING_LOST, t->lost, ran_from);
	} else if (t && t->is_off) {
		if (t->back > t->since)
			ran_from = t->back;
	} else if (d->is_first) {
		if (d->state == OFFCPU_NONE)
			ran_from = MIN(end_of(&d->previous), end_ns);
		emit(r, e, RUNNING_NOT_YET, d->previous.began, ran_from);
	} else if (t) {
		ran_from = t->since;
	}
	emit(r, e, RUNNING_RAN, ran_from, end_ns);
}
