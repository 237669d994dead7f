#include "pipeline/sites.h"

#include <errno.h>
#include <string.h>

#include "base/clock.h"
#include "base/index.h"
#include "base/mem.h"
#include "collect/sites_source.h"
#include "pipeline/measure.h"
#include "pipeline/ran.h"
#include "pipeline/stack_edit.h"
#include "pipeline/waiting.h"
#include "syscall/names.h"

#define SETTLE       3            /* drains: about a second */
#define AGAIN_WANTED 4            /* walks of sites already known, in so many drains */
#define NEW_MAX      160          /* … and of new ones; beyond it, none until the next drain */
#define WITHIN_NS    100000000ull /* in a window, however the wall clock drifts */
#define UNUSED_MAX   30           /* reports in which nothing came: then a site is forgotten */
#define UNKNOWN_MAX  3            /* the same, of a walk that no map refers to */
#define LONG_NS      50000000ull  /* a wait without a stack that is asked for one */

struct totals {
	uint64_t blocked, runnable, periods;
};

/* One walk of a thread's stack, and the waits that are taken to have been there. */
struct site_walk {
	uint64_t id;
	uint32_t tid;
	uint32_t stack, runnable_stack;
	struct owner blocked, runnable;
	struct totals told; /* by events that took its place */
	struct totals now;  /* as the maps have it, of this reading */
	struct totals reported;
	bool has_stack;
	bool is_runnable; /* it was made to leave */
	bool is_met;      /* in this reading */
	bool is_current;  /* its thread is there */
	uint16_t unused;  /* reports in a row */
};

/* What was reported of a thread's waits without a site; by its place in the map. */
struct bare {
	uint32_t tid;
	bool has_owner;
	struct owner owner;
	struct totals reported;
};

struct site_ref { /* one of the kernel's sites, in this reading */
	struct site_key key;
	struct site_sums sums;
	uint32_t walk;
};

struct sites {
	struct profile *dict;
	struct windows *windows;
	struct ran *ran; /* NULL: nobody asks */
	unsigned source;
	struct stack_edit *stacks;
	struct waiting *waiting;
	struct syscall_names *calls;
	uint32_t states[OFFCPU_STATES], idle, reasons[WAIT_REASONS];
	uint32_t schedule, runnable, idle_mark, no_stack;
	struct site_walk *walks; /* [0] is not used */
	uint32_t walk_count, walk_cap;
	struct index by_id;
	struct bare *bares; /* SITES_THREADS of them; most are never touched */
	struct site_ref *refs;
	uint32_t ref_count, ref_cap;
	uint32_t *ended; /* places of threads that are to be removed */
	uint32_t ended_count, ended_cap;
	uint64_t end_ns;
	bool is_last;
	unsigned shift, again, drains; /* walks of known sites, in so many drains */
	unsigned fresh;                /* walks of new ones since the last drain */
	bool is_held, is_full;
	uint64_t slices; /* rows without an end, of this report */
	uint64_t taken;  /* periods that were counted so far */
	struct sites_stats stats;
};

static uint32_t intern(struct sites *s, const char *text)
{
	return profile_string(s->dict, text, strlen(text));
}

static void *sites_new(const struct source_stage_options *o)
{
	struct sites *s = mem_alloc(sizeof(*s));

	s->dict = o->dict;
	s->windows = o->windows;
	s->ran = o->second ? ran_new(o->second) : NULL;
	s->source = o->source;
	s->stacks = stack_edit_new(o->dict);
	s->waiting = waiting_new(o->dict, o->waits);
	s->calls = syscall_names_new(syscall_abi(false));
	s->states[OFFCPU_SLEEPING] = intern(s, "sleeping");
	s->states[OFFCPU_UNINTERRUPTIBLE] = intern(s, "uninterruptible");
	s->states[OFFCPU_RUNNABLE] = intern(s, "runnable");
	s->idle = intern(s, "idle");
	for (unsigned i = 0; i < WAIT_REASONS; i++)
		s->reasons[i] = intern(s, wait_reason_name((enum wait_reason)i));
	s->schedule = intern(s, "__schedule");
	s->runnable = stack_edit_mark(s->stacks, 0, "[runnable]");
	s->idle_mark = stack_edit_mark(s->stacks, 0, FRAME_IDLE);
	s->no_stack = stack_edit_mark(s->stacks, 0, "[no stack]");
	s->walk_count = 1;
	s->bares = mem_alloc_array(SITES_THREADS, sizeof(*s->bares));
	s->shift = 8;
	return s;
}

static void sites_free(void *self)
{
	struct sites *s = self;

	ran_free(s->ran);
	stack_edit_free(s->stacks);
	waiting_free(s->waiting);
	syscall_names_free(s->calls);
	index_done(&s->by_id);
	free(s->walks);
	free(s->bares);
	free(s->refs);
	free(s->ended);
	free(s);
}

/* ---- walks ----------------------------------------------------------------------------------- */

/* It is made if there is none: what is told of it may come before its own event. */
static uint32_t get_walk(struct sites *s, uint32_t tid, uint64_t id)
{
	uint32_t hash = index_hash2(id, tid), at;

	INDEX_EACH(&s->by_id, hash, at)
		if (s->walks[at].id == id && s->walks[at].tid == tid)
			return at;
	while (s->walk_count >= s->walk_cap)
		MEM_GROW(s->walks, s->walk_cap, s->walk_cap);
	s->walks[s->walk_count] = (struct site_walk){.id = id, .tid = tid};
	index_put(&s->by_id, hash, s->walk_count);
	return s->walk_count++;
}

static struct site_walk *walk_of(struct sites *s, uint32_t tid, uint64_t id)
{
	uint32_t at = get_walk(s, tid, id); /* may move them */

	return &s->walks[at];
}

/* Which labels the waits of a walk have, and under which stacks they are. */
static void describe(struct sites *s, const struct assembled *a, const struct offcpu_details *d,
		     struct site_walk *w)
{
	enum offcpu_state state = MIN(d->state, OFFCPU_RUNNABLE);
	struct wait_site site = {
		.stack = a->stack,
		.is_runnable = state == OFFCPU_RUNNABLE,
		.syscall =
			d->syscall < 0 ? NULL : syscall_names_name(s->calls, (uint32_t)d->syscall),
		.has_args = d->syscall >= 0,
		.thread = a->event->thread,
	};

	memcpy(site.args, d->args, sizeof(site.args));
	struct wait_verdict v = waiting_decide(s->waiting, &site);
	w->stack = stack_edit_cut(s->stacks, a->stack, s->schedule);
	w->runnable_stack = stack_edit_join(s->stacks, s->runnable, w->stack);
	if (v.is_idle)
		w->stack = stack_edit_join(s->stacks, s->idle_mark, w->stack);
	w->runnable = w->blocked;
	w->runnable.state = s->states[OFFCPU_RUNNABLE];
	w->runnable.reason = s->reasons[WAIT_CPU];
	w->blocked.state = v.is_idle ? s->idle : s->states[state];
	w->blocked.reason = s->reasons[v.reason];
	w->is_runnable = state == OFFCPU_RUNNABLE;
}

static void add_row(struct sites *s, const struct owner *who, uint64_t at_ns, uint32_t stack,
		    uint64_t periods, uint64_t ns)
{
	if (!periods && !ns)
		return;
	s->slices += !periods;
	windows_add_sum(s->windows, who, at_ns, stack, MAX(periods, (uint64_t)1), ns);
}

static void add_bare(struct sites *s, const struct owner *who, uint64_t at_ns,
		     const struct totals *more)
{
	struct owner o = {};

	s->stats.stackless += more->periods;
	if (!who) {
		add_row(s, NULL, at_ns, s->no_stack, more->periods, more->blocked + more->runnable);
		return;
	}
	o = *who;
	o.state = s->states[OFFCPU_SLEEPING];
	o.reason = s->reasons[WAIT_OTHER];
	if (more->blocked)
		add_row(s, &o, at_ns, s->no_stack, more->periods, more->blocked);
	o.state = s->states[OFFCPU_RUNNABLE];
	o.reason = s->reasons[WAIT_CPU];
	add_row(s, &o, at_ns, stack_edit_join(s->stacks, s->runnable, s->no_stack),
		more->blocked ? 0 : more->periods, more->runnable);
}

static void sites_event(void *self, struct processes *ps, const struct assembled *a)
{
	struct sites *s = self;
	const struct site_details *d = wire_details(a->event);
	const struct offcpu_period *before = &d->of.previous;
	struct totals told = {before->ns - before->runnable_ns, before->runnable_ns,
			      d->previous_periods};

	if (a->event->details < SITES_DETAILS)
		return; /* cannot be: it is of another source */
	if (d->is_end) {
		struct owner who;
		windows_owner(s->windows, ps, a, &who);
		add_bare(s, &who, a->event->time, &told);
		if (s->ran)
			ran_ended(s->ran, &who, a->event->time, a->event->value);
		return;
	}
	if (before->began) {
		struct site_walk *old = walk_of(s, d->tid, before->began);
		old->told.blocked += told.blocked;
		old->told.runnable += told.runnable;
		old->told.periods += told.periods;
		s->again++;
	} else {
		s->fresh++;
	}
	struct site_walk *w = walk_of(s, d->tid, d->walk);
	s->stats.walked++;
	windows_owner(s->windows, ps, a, &w->blocked);
	describe(s, a, &d->of, w);
	w->has_stack = true;
}

/* ---- reading --------------------------------------------------------------------------------- */

static void on_site(void *ctx, const struct site_key *key, const struct site_value *site)
{
	struct sites *s = ctx;
	uint32_t at = get_walk(s, key->tid, site->walk);
	struct site_walk *w = &s->walks[at];

	w->is_met = true;
	w->now.blocked += site->sums.blocked;
	w->now.runnable += site->sums.runnable;
	w->now.periods += site->sums.periods;
	MEM_GROW(s->refs, s->ref_count, s->ref_cap);
	s->refs[s->ref_count++] = (struct site_ref){*key, site->sums, at};
}

/* A period that is open, or that has ended and is not in the sums yet: so much of it as is over. */
static uint64_t open_ns(const struct sites *s, const struct site_thread *t, uint64_t back)
{
	uint64_t to = back ? MIN(back, s->end_ns) : s->end_ns;

	return t->left && to > t->left ? to - t->left : 0;
}

static void add_open(const struct sites *s, const struct site_thread *t, uint64_t back,
		     struct site_walk *w)
{
	if ((t->slots[t->slot_index].key & SITES_STATE) == OFFCPU_RUNNABLE)
		w->now.runnable += open_ns(s, t, back);
	else
		w->now.blocked += open_ns(s, t, back);
}

/* The walk of a slot with what it has; NULL: it has none. */
static struct site_walk *add_slot(struct sites *s, const struct site_thread *t, uint32_t i,
				  uint64_t back)
{
	const struct site_slot *slot = &t->slots[i];
	bool has_walk = i ? slot->key != 0
			  : t->slot_index == 0 && t->left && t->found_period_began == t->left;

	if (!has_walk)
		return NULL;
	struct site_walk *w =
		walk_of(s, t->tid & ~SITES_ENDED, i ? t->walks[i - 1] : t->found_period_began);
	w->is_met = w->is_current = true;
	if (i) {
		w->now.blocked += slot->blocked;
		w->now.runnable += slot->runnable;
		w->now.periods += slot->periods;
	}
	if (t->slot_index == i)
		add_open(s, t, back, w);
	return w;
}

static void report_bare(struct sites *s, uint32_t place, const struct site_thread *t,
			const struct owner *who)
{
	struct bare *b = &s->bares[place];
	uint32_t tid = t->tid & ~SITES_ENDED;

	const struct site_slot *bare = &t->slots[0];
	if (b->tid != tid || b->reported.periods > bare->periods)
		*b = (struct bare){.tid = tid};
	if (who && !b->has_owner) {
		b->has_owner = true;
		b->owner = *who;
	}
	struct totals more = {bare->blocked - b->reported.blocked,
			      bare->runnable - b->reported.runnable,
			      bare->periods - b->reported.periods};
	bool is_end = s->is_last || t->tid & SITES_ENDED; /* nobody will tell whose it was */
	if (!more.periods || (!b->has_owner && !is_end))
		return;
	add_bare(s, b->has_owner ? &b->owner : NULL, s->end_ns - WITHIN_NS, &more);
	b->reported = (struct totals){bare->blocked, bare->runnable, bare->periods};
}

static void on_thread(void *ctx, uint32_t place, const struct site_thread *t, uint64_t back)
{
	struct sites *s = ctx;
	struct owner owner;
	bool has_owner = false;

	if (t->slot_index > SITES_SLOTS)
		return; /* cannot be */
	for (uint32_t i = 0; i <= SITES_SLOTS; i++) {
		const struct site_walk *w = add_slot(s, t, i, back);
		/* It may have become another program: its last stack tells. */
		if (w && w->has_stack && (!has_owner || i == t->slot_index)) {
			has_owner = true;
			owner = w->blocked;
		}
	}
	report_bare(s, place, t, has_owner ? &owner : NULL);
	if (s->ran)
		ran_thread(s->ran, place, t, back, has_owner ? &owner : NULL, s->end_ns,
			   s->is_last);
	if (t->tid & SITES_ENDED) {
		MEM_GROW(s->ended, s->ended_count, s->ended_cap);
		s->ended[s->ended_count++] = place;
	}
}

/* ---- reporting ------------------------------------------------------------------------------- */

static uint64_t grown(uint64_t now, uint64_t reported)
{
	return now > reported ? now - reported : 0;
}

static void report_walk(struct sites *s, struct site_walk *w)
{
	struct totals all = {w->told.blocked + w->now.blocked, w->told.runnable + w->now.runnable,
			     w->told.periods + w->now.periods};
	uint64_t blocked = grown(all.blocked, w->reported.blocked);
	uint64_t runnable = grown(all.runnable, w->reported.runnable);
	uint64_t periods = grown(all.periods, w->reported.periods);

	w->unused = w->has_stack && (blocked || runnable || periods) ? 0 : w->unused + 1;
	if (!w->has_stack) { /* its event is to come: but not for ever */
		struct totals more = {blocked, runnable, periods};
		if (periods && (s->is_last || w->unused >= UNKNOWN_MAX)) {
			add_bare(s, NULL, s->end_ns - WITHIN_NS, &more);
			w->reported = all;
		}
		return;
	}
	bool with_blocked = !w->is_runnable && (blocked || !runnable);
	if (!w->is_runnable)
		add_row(s, &w->blocked, s->end_ns - WITHIN_NS, w->stack, with_blocked ? periods : 0,
			blocked);
	add_row(s, &w->runnable, s->end_ns - WITHIN_NS, w->runnable_stack,
		with_blocked ? 0 : periods, runnable);
	w->reported = (struct totals){MAX(all.blocked, w->reported.blocked),
				      MAX(all.runnable, w->reported.runnable),
				      MAX(all.periods, w->reported.periods)};
}

static bool is_needed(const struct site_walk *w)
{
	return w->is_current || w->unused < (w->is_met ? UNUSED_MAX : UNKNOWN_MAX);
}

static int compare(const void *a, const void *b)
{
	uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;

	return x < y ? -1 : x > y;
}

/*
 * Sites of threads that have ended, and those not in use for long. That one is used this very
 * moment, or was since it was read, does no harm: the thread finds that it is gone, and its sums,
 * if it had some, are without a stack.
 */
static void remove_sites(struct sites *s, struct source *src)
{
	for (uint32_t i = 0; i < s->ended_count; i++) {
		uint32_t place = s->ended[i];
		s->ended[i] = s->bares[place].tid;
		sites_source_remove_thread(src, place);
	}
	qsort(s->ended, s->ended_count, sizeof(*s->ended), compare);
	for (uint32_t i = 0; i < s->ref_count; i++) {
		const struct site_ref *r = &s->refs[i];
		bool is_gone = bsearch(&r->key.tid, s->ended, s->ended_count, sizeof(*s->ended),
				       compare) != NULL;
		if (!is_gone && is_needed(&s->walks[r->walk]))
			continue;
		sites_source_remove_site(src, &r->key);
		struct site_walk *w = &s->walks[r->walk];
		w->is_met = false;
		w->told.blocked += r->sums.blocked;
		w->told.runnable += r->sums.runnable;
		w->told.periods += r->sums.periods;
	}
}

/* Walks that nothing refers to any more make room. */
static void remove_walks(struct sites *s)
{
	uint32_t kept = 1;

	for (uint32_t i = 1; i < s->walk_count; i++) {
		struct site_walk *w = &s->walks[i];
		bool is_kept = is_needed(w);
		w->now = (struct totals){};
		w->is_met = w->is_current = false;
		if (is_kept)
			s->walks[kept++] = *w;
	}
	if (kept == s->walk_count)
		return;
	s->walk_count = kept;
	index_clear(&s->by_id);
	for (uint32_t i = 1; i < kept; i++)
		index_put(&s->by_id, index_hash2(s->walks[i].id, s->walks[i].tid), i);
}

static void on_found(void *ctx, const struct wire_event *e)
{
	pipeline_event(ctx, e);
}

static void sites_begin(void *self, struct pipeline *p)
{
	struct sites *s = self;

	s->stats.begin_error =
		sites_source_found(sampler_source(pipeline_sampler(p), s->source), on_found, p);
}

static void sites_report(void *self, struct pipeline *p, uint64_t end_ns, bool is_last)
{
	struct sites *s = self;
	struct source *src = sampler_source(pipeline_sampler(p), s->source);
	struct sites_reader r = {on_site, on_thread, s};

	if (sites_source_waits_unknown(src, clock_ns(CLOCK_MONOTONIC) - LONG_NS))
		sites_source_found(src, on_found, p);
	s->end_ns = end_ns;
	s->is_last = is_last;
	s->ref_count = s->ended_count = 0;
	s->slices = 0;
	if (sites_source_read(src, &r) != 0)
		s->stats.read_errors++;
	for (uint32_t i = 1; i < s->walk_count; i++)
		report_walk(s, &s->walks[i]);
	remove_sites(s, src);
	remove_walks(s);
	uint64_t taken = sites_source_taken(src);
	sampler_add_taken(pipeline_sampler(p), s->source, s->slices + taken - s->taken);
	s->taken = taken;
}

/* How likely a site that is known is walked again: so that about as many are as are wanted. */
static void adapt(struct sites *s, struct source *src)
{
	unsigned shift = s->shift;

	if (++s->drains < SETTLE && s->again <= 2 * AGAIN_WANTED)
		return;
	if (s->again > 2 * AGAIN_WANTED && shift < SITES_WALK_SHIFTS)
		shift += s->again > 8 * AGAIN_WANTED ? 2 : 1;
	else if (s->again < AGAIN_WANTED / 2 && shift > 0)
		shift--;
	if (shift != s->shift)
		sites_source_set_shift(src, shift);
	s->shift = shift;
	s->again = s->drains = 0;
}

/* How often stacks are walked is adapted to how many were. */
static void sites_settle(void *self, struct pipeline *p)
{
	struct sites *s = self;
	struct source *src = sampler_source(pipeline_sampler(p), s->source);
	bool is_full = !s->is_held && sites_source_is_full(src), is_held = s->fresh > NEW_MAX;

	adapt(s, src);
	s->stats.full += is_full && !s->is_full;
	if (is_held != s->is_held)
		sites_source_hold(src, is_held);
	s->stats.held += is_held;
	s->is_full = is_full;
	s->is_held = is_held;
	s->fresh = 0;
}

static void sites_measure(void *self, struct measured *ret)
{
	struct sites *s = self;

	s->stats.walks = s->walk_count - 1;
	ret->sites = &s->stats;
}

const struct source_stage sites_stage = {
	.of = &sites_source,
	.what = "off-CPU time",
	.second_type = RAN_TYPE,
	.new = sites_new,
	.free = sites_free,
	.begin = sites_begin,
	.event = sites_event,
	.settle = sites_settle,
	.report = sites_report,
	.measure = sites_measure,
};
