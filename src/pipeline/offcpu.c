#include "pipeline/offcpu.h"

#include <errno.h>
#include <string.h>

#include "base/file.h"
#include "base/mem.h"
#include "collect/offcpu_source.h"
#include "pipeline/periods.h"
#include "pipeline/stack_edit.h"
#include "pipeline/thread_series.h"
#include "pipeline/wakers.h"
#include "syscall/names.h"

#define PERIODS_MAX (1u << 18) /* many times the threads that the BPF program follows */

struct offcpu {
	struct profile *profile;
	struct offcpu_options options;
	struct periods *periods;
	struct thread_series *series;
	struct stack_edit *stacks;
	struct wakers *wakers; /* NULL: not asked for */
	struct waiting *waiting;
	struct syscall_names *calls;
	/* Strings of the profile: names of states, and of reasons. */
	uint32_t states[OFFCPU_STATES], idle_state;
	uint32_t reasons[WAIT_REASONS];
	uint32_t schedule;         /* the kernel's function in which a thread stops */
	uint32_t runnable, idle;   /* stacks: the marks [runnable], [idle] */
	uint64_t begin_ns, end_ns; /* begin UINT64_MAX: not yet */
	struct offcpu_stats stats;
};

static uint32_t intern(struct profile *p, const char *s)
{
	return profile_string(p, s, strlen(s));
}

struct offcpu *offcpu_new(struct profile *p, const struct offcpu_options *options)
{
	static const char *const labels[] = {"state", "reason", NULL};
	struct offcpu *o = mem_alloc(sizeof(*o));

	o->profile = p;
	o->options = *options;
	o->begin_ns = UINT64_MAX;
	if (!o->options.states)
		o->options.states = ~0u;
	o->periods = periods_new(PERIODS_MAX);
	o->series = thread_series_new(p, labels);
	o->stacks = stack_edit_new(p);
	if (options->wakers)
		o->wakers = wakers_new(p, o->stacks);
	o->states[OFFCPU_SLEEPING] = intern(p, "sleeping");
	o->states[OFFCPU_UNINTERRUPTIBLE] = intern(p, "uninterruptible");
	o->states[OFFCPU_RUNNABLE] = intern(p, "runnable");
	o->idle_state = intern(p, "idle");
	for (enum wait_reason r = 0; r < WAIT_REASONS; r++)
		o->reasons[r] = intern(p, wait_reason_name(r));
	o->waiting = waiting_new(p, &o->options.waits);
	o->calls = syscall_names_new(syscall_abi(false));
	o->schedule = intern(p, "__schedule");
	o->runnable = stack_edit_mark(o->stacks, 0, "[runnable]");
	o->idle = stack_edit_mark(o->stacks, 0, FRAME_IDLE);
	return o;
}

void offcpu_free(struct offcpu *o)
{
	if (!o)
		return;
	periods_free(o->periods);
	thread_series_free(o->series);
	wakers_free(o->wakers);
	waiting_free(o->waiting);
	syscall_names_free(o->calls);
	stack_edit_free(o->stacks);
	free(o);
}

/* ---- a period of which all is known ---------------------------------------------------------- */

/* An idle thread that was woken, and waits for a CPU now, is not idle any more. */
static bool is_asked_for(const struct offcpu *o, const struct period *x, enum offcpu_state state)
{
	bool is_idle = x->is_idle && state != OFFCPU_RUNNABLE;

	return o->options.states & 1u << state && !(o->options.no_idle && is_idle);
}

static void add_span(struct offcpu *o, uint32_t series, uint32_t stack, uint64_t from, uint64_t ns)
{
	if (o->options.span)
		o->options.span(o->options.span_ctx, series, stack, from, from + ns);
	else
		profile_add(o->profile, series, stack, 1, ns);
}

static void add(struct offcpu *o, const struct period *x)
{
	uint64_t blocked = x->ns - x->runnable_ns, from = x->began;
	uint32_t stack = x->has_waker ? stack_edit_join(o->stacks, x->stack, x->waker) : x->stack;

	if (o->options.as_bcc) {
		if (is_asked_for(o, x, x->state))
			profile_add(o->profile, x->series, x->stack, 1, x->ns / 1000);
		return;
	}
	if (x->is_idle)
		stack = stack_edit_join(o->stacks, o->idle, stack);
	if (blocked && is_asked_for(o, x, x->state))
		add_span(o, x->series, stack, from, blocked);
	if (x->runnable_ns && is_asked_for(o, x, OFFCPU_RUNNABLE))
		add_span(o, x->runnable_series, stack_edit_join(o->stacks, o->runnable, x->stack),
			 from + blocked, x->runnable_ns);
}

static bool is_before(const struct offcpu *o, const struct period *x)
{
	return x->has_end && x->began + x->ns < o->begin_ns;
}

/* Of a period that began before the recording: what is in it. */
static void clip(const struct offcpu *o, struct period *x)
{
	uint64_t from = MAX(o->begin_ns, x->began);

	x->ns -= from - x->began;
	x->began = from;
	x->runnable_ns = x->state == OFFCPU_RUNNABLE ? x->ns : MIN(x->runnable_ns, x->ns);
}

static void deliver(void *ctx, struct period *x)
{
	struct offcpu *o = ctx;
	const struct offcpu_options *options = &o->options;

	if (is_before(o, x))
		return;
	if (!x->has_end || !x->has_stack) { /* if neither, only its waker is known */
		o->stats.unfinished += x->has_stack;
		o->stats.stackless += x->has_end;
		return;
	}
	if (x->ns < options->min_ns || (options->max_ns && x->ns > options->max_ns) || !x->series) {
		o->stats.left_out++;
		return;
	}
	struct period clipped = *x;
	clip(o, &clipped);
	add(o, &clipped);
	o->stats.periods++;
	o->stats.open += x->is_open;
}

/* Whether nothing more will come. Who woke it is told before it ends, but may be held back. */
static bool is_complete(const struct offcpu *o, const struct period *x)
{
	bool has_waker = x->has_waker || !o->wakers || x->state == OFFCPU_RUNNABLE || x->is_open;

	return x->has_stack && x->has_end && has_waker;
}

static void deliver_if_complete(struct offcpu *o, struct period *x)
{
	if (!is_complete(o, x))
		return;
	deliver(o, x);
	periods_remove(o->periods, x);
}

/* ---- pieces ---------------------------------------------------------------------------------- */

static struct period *find(struct offcpu *o, uint32_t tid, uint64_t began)
{
	struct period *x = periods_get(o->periods, tid, began);

	if (!x)
		o->stats.capped++;
	return x;
}

/* Whether threads of that kind are asked for: those that are not have no series. */
static bool is_of_kind(const struct offcpu *o, const struct wire_event *e)
{
	return e->flags & WIRE_KTHREAD ? !o->options.user_threads : !o->options.kernel_threads;
}

static uint32_t series_of(struct offcpu *o, const struct wire_event *e, uint32_t state,
			  enum wait_reason reason)
{
	struct thread_labels more = {{state, o->reasons[reason]}};
	struct wire_event as_bcc;

	if (!o->options.as_bcc)
		return thread_series_of(o->series, e, &more);
	as_bcc = *e;
	as_bcc.pid = e->tid;
	memcpy(as_bcc.comm, e->thread, WIRE_COMM);
	return thread_series_of(o->series, &as_bcc, &more);
}

static struct wait_verdict why(struct offcpu *o, const struct wire_event *e, uint32_t stack,
			       const struct offcpu_details *d)
{
	_Static_assert(OFFCPU_ARGS == WAIT_ARGS, "the arguments of a system call");
	struct wait_site site = {
		.stack = stack,
		.is_runnable = d->state == OFFCPU_RUNNABLE,
		.syscall =
			d->syscall < 0 ? NULL : syscall_names_name(o->calls, (uint32_t)d->syscall),
		.has_args = true,
		.thread = e->thread,
	};

	memcpy(site.args, d->args, sizeof(site.args));
	return waiting_decide(o->waiting, &site);
}

static void note_begin(struct offcpu *o, const struct assembled *a, const struct offcpu_details *d)
{
	const struct wire_event *e = a->event;
	struct period *x = find(o, e->tid, e->time);
	if (!x)
		return;

	x->has_stack = true;
	x->state = MIN(d->state, OFFCPU_RUNNABLE);
	x->stack = stack_edit_cut(o->stacks, a->stack, o->schedule);
	struct wait_verdict v = why(o, e, x->stack, d);
	x->is_idle = v.is_idle;
	if (is_of_kind(o, e)) {
		x->series =
			series_of(o, e, v.is_idle ? o->idle_state : o->states[x->state], v.reason);
		x->runnable_series = series_of(o, e, o->states[OFFCPU_RUNNABLE], WAIT_CPU);
	}
	if (o->wakers && d->holder)
		x->stack = wakers_holder(o->wakers, x->stack, e->pid, d->holder);
	deliver_if_complete(o, x);
}

static void set_end(struct offcpu *o, uint32_t tid, const struct offcpu_period *end, bool is_open)
{
	struct period *x = find(o, tid, end->began);
	if (!x)
		return;

	x->has_end = true;
	x->is_open = is_open;
	x->ns = end->ns;
	x->runnable_ns = MIN(end->runnable_ns, end->ns);
	deliver_if_complete(o, x);
}

/* From its creation until it ran: there is no stack, but who it was is known. */
static void add_first(struct offcpu *o, const struct wire_event *e, const struct offcpu_details *d)
{
	struct period x = {
		.began = d->previous.began,
		.state = OFFCPU_RUNNABLE,
		.has_end = true,
		.ns = d->previous.ns,
		.runnable_ns = d->previous.ns,
		.stack = stack_edit_mark(o->stacks, 0, "[not started yet]"),
	};

	if (!x.ns)
		return;
	if (is_of_kind(o, e))
		x.series = x.runnable_series =
			series_of(o, e, o->states[OFFCPU_RUNNABLE], WAIT_CPU);
	x.has_stack = true;
	deliver(o, &x);
}

static void note_waker(struct offcpu *o, const struct assembled *a, const struct offcpu_details *d)
{
	struct period *x = find(o, d->wakee, d->woken_period_began);
	if (!x)
		return;

	x->has_waker = true;
	x->waker = wakers_stack(o->wakers, a->event, a->stack);
	deliver_if_complete(o, x);
}

void offcpu_event(void *ctx, const struct assembled *a)
{
	struct offcpu *o = ctx;
	const struct offcpu_details *d = wire_details(a->event);

	if (a->event->details < OFFCPU_DETAILS)
		return; /* cannot be: it is of another source */
	if (d->woken_period_began) {
		if (o->wakers)
			note_waker(o, a, d);
		return;
	}
	if (d->is_first)
		add_first(o, a->event, d);
	else if (d->previous.began)
		set_end(o, a->event->tid, &d->previous, false);
	if (d->state != OFFCPU_NONE)
		note_begin(o, a, d);
}

/* ---- the beginning and the end --------------------------------------------------------------- */

#define DRAIN_MS 10 /* rings fill while threads are looked for */

static void on_found(void *ctx, const struct wire_event *e)
{
	struct pipeline *p = ctx;

	pipeline_event(p, e);
	if (pipeline_is_due(p, DRAIN_MS))
		pipeline_drain(p);
}

int offcpu_find(struct pipeline *p, unsigned source)
{
	return offcpu_source_found(sampler_source(pipeline_sampler(p), source), on_found, p);
}

void offcpu_begin(struct offcpu *o, uint64_t begin_ns)
{
	o->begin_ns = begin_ns;
}

/* Time that a thread has waited for a CPU, ever, as the kernel counts it; 0: not known. */
static uint64_t run_delay(uint32_t tid)
{
	CLEANUP(freep) char *text = NULL;
	char path[64];
	unsigned long long ran, waited;

	snprintf(path, sizeof(path), "/proc/%u/schedstat", tid);
	if (file_read(path, 4096, &text, NULL) != 0 ||
	    sscanf(text, "%llu %llu", &ran, &waited) != 2)
		return 0;
	return waited;
}

static void end_thread(void *ctx, const struct offcpu_thread *t)
{
	struct offcpu *o = ctx;
	bool is_open = !t->back;
	struct offcpu_period last = {.began = t->left};

	if (t->previous.began)
		set_end(o, t->tid, &t->previous, false);
	if (!t->left)
		return;
	last.ns = (is_open ? MAX(o->end_ns, t->left) : t->back) - t->left;
	if (t->lost) {
		o->stats.lost_ns += last.ns;
		return;
	}
	if (t->state == OFFCPU_RUNNABLE) {
		last.runnable_ns = last.ns;
	} else if (!is_open) {
		uint64_t waited = run_delay(t->tid);
		last.runnable_ns = waited > t->delay ? waited - t->delay : 0;
	}
	set_end(o, t->tid, &last, is_open);
}

void offcpu_finish(struct offcpu *o, struct pipeline *p, unsigned source, uint64_t end_ns)
{
	o->end_ns = end_ns;
	offcpu_source_threads(sampler_source(pipeline_sampler(p), source), end_thread, o);
	periods_flush(o->periods, deliver, o);
}

void offcpu_stats(const struct offcpu *o, struct offcpu_stats *ret)
{
	*ret = o->stats;
}
