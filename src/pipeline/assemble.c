#include "pipeline/assemble.h"

#include <errno.h>

#include "base/clock.h"
#include "base/mem.h"
#include "base/text.h"
#include "pipeline/stream.h"
#include "pipeline/thread_series.h"
#include "process/process.h"
#include "process/thread_context.h"
#include "pipeline/stack_cache.h"
#include "pipeline/resolve.h"

#define HELD_BYTES (8u << 20)
#define EVENTS_LATE_NS                                                                             \
	(STREAM_REORDER_MAX_NS + 1000000) /* a drain leaves the latest for the next                \
					   */
#define HELD_NS_MAX     5000000000ull
#define SPAN_SERIES_MAX 100000 /* series of a recording: from then on spans are not told apart */
#define NEAR            4      /* most new stacks leave a known one in the last so many steps */

/* A sample whose walk waits for a table, or for events, with what its process had mapped. */
struct held {
	struct wire_event *event; /* and its frames and stack */
	struct process *process;
	struct maps *maps;
	uint64_t after_ns; /* events must have come this far; 0: need not */
};

struct assembler {
	struct profile *profile;
	struct assembler_options options;
	struct processes *processes;
	struct contexts *contexts;
	struct thread_contexts *thread_contexts;
	struct resolver *resolver;
	struct unwinder *unwinder;

	struct thread_series *series;
	uint64_t settled_ns; /* when the last drain ended */
	uint64_t passed_ns;  /* all events up to here have come */
	struct stack_cache *cache;
	struct maps *nothing; /* of a process of which nothing is sure */
	struct held *held;    /* the oldest first, from held_first on */
	size_t held_first, held_count, held_cap, held_bytes;

	bool timed;
	uint64_t lap_ns; /* when the stage at hand began; 0: this drain is not timed */
	uint64_t laps[STAGES];

	uint32_t truncated_frame, incomplete_frame;
	struct assembler_stats stats;
};

static void begin_lap(struct assembler *a)
{
	a->lap_ns = a->timed ? clock_ns(CLOCK_MONOTONIC) : 0;
}

static void lap(struct assembler *a, enum assembler_stage stage)
{
	if (!a->lap_ns)
		return;
	uint64_t now = clock_ns(CLOCK_MONOTONIC);
	a->laps[stage] += now - a->lap_ns;
	a->lap_ns = now;
}

void assembler_time(struct assembler *a)
{
	a->timed = true;
}

void assembler_time_done(struct assembler *a, uint64_t drains)
{
	for (int i = 0; i < STAGES; i++) {
		a->stats.stage_ns[i] += a->laps[i] * drains;
		a->laps[i] = 0;
	}
	a->timed = false;
	a->lap_ns = 0;
}

static uint32_t intern(struct assembler *a, const char *s)
{
	return profile_string(a->profile, s, strlen(s));
}

static uint32_t mark(struct assembler *a, const char *name)
{
	struct frame f = {.name = intern(a, name), .kind = FRAME_MARK};

	return profile_frame(a->profile, &f);
}

int assembler_new(struct profile *p, const struct assembler_options *o, struct assembler **ret)
{
	struct assembler *a = mem_alloc(sizeof(*a));
	struct unwinder_options unwind = {.max_bytes = o->table_bytes, .cache_dir = o->cache_dir};

	a->profile = p;
	a->options = *o;
	a->options.held_bytes = o->held_bytes ? o->held_bytes : HELD_BYTES;
	a->processes = processes_new();
	a->contexts = contexts_new();
	a->thread_contexts = thread_contexts_new();
	a->resolver = resolver_new(p, a->processes, &o->names);
	a->cache = stack_cache_new();
	a->nothing = maps_new();
	a->series = thread_series_new(p, (const char *const[]){"trace_id", "span_id", NULL});
	a->truncated_frame = mark(a, "[truncated]");
	a->incomplete_frame = mark(a, "[incomplete]");
	int r = unwinder_new(o->maps, a->processes, &unwind, &a->unwinder);
	if (r) {
		assembler_free(a);
		return r;
	}
	*ret = a;
	return 0;
}

static void held_done(struct assembler *a, struct held *h)
{
	a->held_bytes -= h->event->bytes;
	process_release(h->process);
	maps_unref(h->maps);
	free(h->event);
}

void assembler_free(struct assembler *a)
{
	if (!a)
		return;
	for (size_t i = a->held_first; i < a->held_count; i++)
		held_done(a, &a->held[i]);
	unwinder_free(a->unwinder);
	resolver_free(a->resolver);
	processes_free(a->processes);
	contexts_free(a->contexts);
	thread_contexts_free(a->thread_contexts);
	stack_cache_free(a->cache);
	maps_unref(a->nothing);
	thread_series_free(a->series);
	free(a->held);
	free(a);
}

/* The frames of an event as they are looked up, callers first. */
struct path {
	unsigned count;
	unsigned gap; /* between so many of the first and the others some are left out */
	struct wire_frame frames[WIRE_USER_FRAMES + WIRE_FRAMES];
};

/* No two frames with the same cookie differ in value and kind and yet look alike: the upper byte of
 * an address is 0 in a process and 0xff in the kernel. */
static uint64_t hash_frame(uint64_t hash, const struct wire_frame *f)
{
	hash = stack_cache_hash(hash, f->value ^ (uint64_t)f->kind << 56);
	return f->cookie ? stack_cache_hash(hash, f->cookie) : hash;
}

/* Returns the hash of all of them. */
static uint64_t path_init(struct path *path, const struct wire_event *s, const struct unwound *user,
			  uint64_t hash)
{
	const uint64_t *kernel = wire_frames(s);
	unsigned n = 0;

	for (unsigned i = user->count; i-- > 0;)
		path->frames[n++] = (struct wire_frame){user->frames[i], 0, WIRE_FRAME_USER};
	path->gap = user->left_out ? n - WIRE_LEAF_FRAMES : 0;
	hash = stack_cache_hash(hash, path->gap);
	/* A return address stands after its call: look one byte before it, but not at a leaf. */
	for (unsigned i = MIN(s->kernel_frames, (unsigned)WIRE_FRAMES); i-- > 0;)
		path->frames[n++] = (struct wire_frame){kernel[i] - (i > 0), 0, WIRE_FRAME_KERNEL};
	path->count = n;
	for (unsigned i = 0; i < n; i++)
		hash = hash_frame(hash, &path->frames[i]);
	return hash;
}

/* Where a walk that did not reach the end has its place in the tree. */
static uint32_t root_of(struct assembler *a, bool cut, bool incomplete)
{
	if (cut)
		return profile_stack(a->profile, 0, a->truncated_frame);
	return incomplete ? profile_stack(a->profile, 0, a->incomplete_frame) : 0;
}

/* Who the frames of a path belong to, and what else their names depend on. */
struct context {
	struct process *process;
	struct maps *maps;
	uint64_t time;
	uint64_t version; /* of the mappings and of code that the process made itself */
	bool detail;
};

/*
 * A location and all its callers have a hash of their own, the same in every process: programs that
 * are started again and again take the same paths.
 */
struct step {
	struct frame_location at;
	uint64_t hash;
};

static void find_steps(struct assembler *a, const struct context *c, const struct path *path,
		       struct step *steps, uint64_t hash)
{
	for (unsigned i = 0; i < path->count; i++) {
		struct frame_location at =
			resolve_location(a->resolver, c->process, c->maps, &path->frames[i]);
		if (at.file == LOCATION_KERNEL)
			hash = stack_cache_hash(hash,
						resolver_kernel_version(a->resolver, c->time));
		if (path->gap && i == path->gap)
			hash = ~hash;
		if (at.file == LOCATION_MEMORY)
			hash = stack_cache_hash(hash, c->version);
		hash = stack_cache_hash(stack_cache_hash(hash, at.file), at.offset);
		if (at.cookie)
			hash = stack_cache_hash(hash, at.cookie);
		steps[i] = (struct step){at, hash};
		if (i + NEAR >= path->count)
			stack_cache_expect(a->cache, hash);
	}
}

/* Puts the rest of a path on top of what is known of it already. Returns if the answer lasts. */
static bool follow(struct assembler *a, const struct context *c, const struct path *path,
		   uint64_t seed, struct cached_stack *at)
{
	struct step steps[WIRE_USER_FRAMES + WIRE_FRAMES];
	const struct cached_stack *seen = NULL;
	unsigned n = path->count;
	bool lasting = true;

	find_steps(a, c, path, steps, seed);
	while (n > 0 && !(seen = stack_cache_find(a->cache, steps[n - 1].hash)))
		n--;
	if (seen)
		*at = *seen;
	resolver_repeat(a->resolver, at->frames, at->unnamed);

	for (; n < path->count; n++) {
		uint32_t frames[RESOLVE_MAX];
		struct resolver_count before = resolver_count(a->resolver);
		size_t count = resolve_frames(a->resolver, c->process, &steps[n].at, c->time,
					      c->detail, &lasting, frames);
		struct resolver_count now = resolver_count(a->resolver);
		if (path->gap && n == path->gap)
			at->stack = profile_stack(a->profile, at->stack, a->truncated_frame);
		while (count > 0)
			at->stack = profile_stack(a->profile, at->stack, frames[--count]);
		at->hash = steps[n].hash;
		at->frames += (uint16_t)(now.frames - before.frames);
		at->unnamed += (uint16_t)(now.unnamed - before.unnamed);
		if (lasting)
			stack_cache_put(a->cache, at);
	}
	return lasting;
}

static uint32_t stack_of(struct assembler *a, const struct wire_event *s, struct process *p,
			 struct maps *maps, const struct unwound *user)
{
	bool cut = user->walk == WIRE_WALK_CUT || s->flags & WIRE_KERNEL_CUT;
	bool incomplete = user->walk > WIRE_WALK_CUT;
	struct context c = {
		.process = p,
		.maps = maps,
		.time = s->time,
		.version = stack_cache_hash(maps ? maps->version : 0, p ? resolver_version(p) : 0),
		.detail = !a->options.detail || a->options.detail(a->options.detail_ctx, s->comm),
	};
	uint64_t seed = (uint64_t)c.detail << 2 | (uint64_t)cut << 1 | incomplete;
	struct path path;
	uint64_t hash = stack_cache_hash(c.version, seed);
	if (s->kernel_frames)
		hash = stack_cache_hash(hash, resolver_kernel_version(a->resolver, s->time));
	hash = path_init(&path, s, user, hash);
	a->profile->info.truncated += cut || user->left_out;

	const struct cached_stack *seen = stack_cache_find(a->cache, hash);
	if (seen) {
		resolver_repeat(a->resolver, seen->frames, seen->unnamed);
		return seen->stack;
	}
	lap(a, STAGE_AGGREGATE);
	struct cached_stack at = {.stack = root_of(a, cut, incomplete)};
	if (follow(a, &c, &path, seed, &at)) {
		at.hash = hash;
		stack_cache_put(a->cache, &at);
	}
	lap(a, STAGE_SYMBOL);
	return at.stack;
}

/* The thread, and the span that it worked on: of a recording that has not too many. */
static uint32_t series_of(struct assembler *a, const struct wire_event *e)
{
	const struct wire_span *span = wire_span_of(e);
	struct thread_labels labels = {};
	char trace[2 * sizeof(span->trace) + 1], id[2 * sizeof(span->span) + 1];

	if (span && a->profile->series_count < SPAN_SERIES_MAX) {
		labels.values[0] =
			intern(a, text_hex_bytes(span->trace, sizeof(span->trace), trace));
		labels.values[1] = intern(a, text_hex_bytes(span->span, sizeof(span->span), id));
	} else if (span) {
		a->stats.spans_left_out++;
	}
	return thread_series_of(a->series, e, &labels);
}

static void add_event(struct assembler *a, const struct wire_event *s, struct process *p,
		      struct maps *maps, const struct unwound *user)
{
	uint32_t stack = stack_of(a, s, p, maps, user);

	a->stats.events++;
	if (a->options.sink)
		a->options.sink(a->options.sink_ctx, &(struct assembled){s, p, maps, stack});
	else
		profile_add(a->profile, series_of(a, s), stack, 1, s->value);
	lap(a, STAGE_AGGREGATE);
}

/* The oldest waits no longer: what is not there by now is slow to come, and others wait less long.
 */
static void give_up_oldest(struct assembler *a)
{
	struct held *h = &a->held[a->held_first++];
	const uint64_t *frames = wire_frames(h->event) + h->event->kernel_frames;
	/* Without the events up to then nothing is sure. */
	struct maps *maps = h->after_ns > a->passed_ns ? a->nothing : h->maps;
	struct unwound user;

	unwinder_walk(a->unwinder, h->process, maps, h->event, frames, true, &user);
	add_event(a, h->event, h->process, maps, &user);
	held_done(a, h);
	a->stats.given_up++;
}

static void hold(struct assembler *a, const struct wire_event *s, struct process *p,
		 struct maps *maps)
{
	while (a->held_first < a->held_count && a->held_bytes >= a->options.held_bytes)
		give_up_oldest(a);
	MEM_GROW(a->held, a->held_count, a->held_cap);
	a->held[a->held_count++] = (struct held){
		.event = mem_dup(s, s->bytes),
		.process = process_hold(p),
		.maps = maps_ref(maps),
		.after_ns = maps == p->early ? p->read_ns : 0,
	};
	a->held_bytes += s->bytes;
	a->stats.held++;
}

/* What a process says of itself, and where its threads do: that may come with a library. */
static void look_at_context(struct assembler *a, struct process *p, uint64_t time)
{
	struct unwind_context where;

	contexts_look(a->contexts, p, time);
	const struct process_context *c = context_of(p);
	if (!ARCH_HAS_WALK || !c || !c->says.has_threads || p->context_maps == p->maps->version)
		return;
	int r = thread_contexts_find(a->thread_contexts, a->processes, p, &where);
	if (r != -EAGAIN)
		p->context_maps = p->maps->version;
	if (!r)
		unwinder_context(a->unwinder, p, &where);
}

void assembler_event(struct assembler *a, const struct wire_event *s)
{
	struct unwound user; /* too long to be cleared for nothing */

	begin_lap(a);
	if (s->walk == WIRE_WALK_NONE) {
		user.count = user.left_out = 0;
		user.walk = WIRE_WALK_NONE;
		add_event(a, s, NULL, NULL, &user);
		return;
	}
	const uint64_t *user_frames = wire_frames(s) + s->kernel_frames;
	struct process *p = processes_get(a->processes, s->pid, s->process_start, s->time);
	if (p->cgroup != s->cgroup && a->options.places) {
		/* Now: the sample may have to wait, and its group be gone by then. */
		places_get(a->options.places, s->cgroup);
		p->cgroup = s->cgroup;
	}
	if (s->time >= p->context_due_ns)
		look_at_context(a, p, s->time);
	if (a->options.wanted && !a->options.wanted(a->options.sink_ctx, s)) {
		a->stats.events++;
		a->options.sink(a->options.sink_ctx, &(struct assembled){s, p, p->maps, 0});
		return;
	}
	uint64_t leaf = s->user_frames ? user_frames[0] : s->pc;
	process_find(a->processes, p, leaf, s->time); /* reads mappings anew if need be */
	lap(a, STAGE_PROCESS);
	if (p->early) {
		hold(a, s, p, p->early);
		return;
	}
	struct maps *maps = p->maps;
	if (s->time < p->changed_ns) { /* late: what it had mapped then is not known any more */
		maps = a->nothing;
		a->stats.late++;
	}
	int r = unwinder_walk(a->unwinder, p, maps, s, user_frames, false, &user);
	lap(a, STAGE_UNWIND);
	if (r == -EAGAIN)
		hold(a, s, p, maps);
	else
		add_event(a, s, p, maps, &user);
}

/* Tries again those that wait; with `last` they wait no longer. */
static void retry_held(struct assembler *a, uint64_t now, bool last)
{
	size_t kept = 0;

	for (size_t i = a->held_first; i < a->held_count; i++) {
		struct held *h = &a->held[i];
		struct unwound user;
		bool enough = last || now > h->event->time + HELD_NS_MAX;
		if (h->after_ns > a->passed_ns ||
		    unwinder_walk(a->unwinder, h->process, h->maps, h->event,
				  wire_frames(h->event) + h->event->kernel_frames, enough,
				  &user) == -EAGAIN) {
			a->held[kept++] = *h;
			continue;
		}
		lap(a, STAGE_UNWIND);
		add_event(a, h->event, h->process, h->maps, &user);
		held_done(a, h);
	}
	a->held_first = 0;
	a->held_count = kept;
}

void assembler_record(struct assembler *a, const struct sideband_record *e)
{
	if (e->type == SIDEBAND_FORK && a->options.started)
		a->options.started(a->options.sink_ctx, e->pid, e->parent);
	begin_lap(a);
	if (e->type == SIDEBAND_CODE)
		resolver_kernel_changed(a->resolver, e->start, e->end);
	else
		processes_record(a->processes, e);
	lap(a, STAGE_PROCESS);
}

void assembler_lost(struct assembler *a)
{
	processes_distrust(a->processes);
	resolver_kernel_changed(a->resolver, 0, UINT64_MAX);
}

void assembler_settle(struct assembler *a, uint64_t now)
{
	a->passed_ns = a->settled_ns - MIN(a->settled_ns, EVENTS_LATE_NS);
	a->settled_ns = now;
	begin_lap(a);
	unwinder_settle(a->unwinder, now);
	retry_held(a, now, false);
	lap(a, STAGE_UNWIND);
	processes_sweep(a->processes);
	lap(a, STAGE_PROCESS);
}

void assembler_finish(struct assembler *a, unsigned wait_ms)
{
	uint64_t end = clock_ns(CLOCK_MONOTONIC) + wait_ms * 1000000ull;

	a->passed_ns = UINT64_MAX;
	while (a->held_count > a->held_first) {
		size_t before = a->held_count - a->held_first;
		uint64_t now = clock_ns(CLOCK_MONOTONIC), left = end - MIN(end, now);
		uint64_t made = unwinder_finish(a->unwinder, (unsigned)(left / 1000000));
		retry_held(a, 0, !made);
		if (!made && a->held_count == before)
			break;
	}
}

struct processes *assembler_processes(const struct assembler *a)
{
	return a->processes;
}

void assembler_stats(const struct assembler *a, struct assembler_stats *ret)
{
	struct processes_stats ps;

	processes_stats(a->processes, &ps);
	*ret = a->stats;
	contexts_stats(a->contexts, &ret->contexts);
	ret->maps_read = ps.maps_read;
	ret->processes = ps.known;
	ret->processes_capped = ps.capped;
	ret->mappings_dropped = ps.mappings_dropped;
	ret->files = mapped_files_count(processes_mapped_files(a->processes));
	resolver_stats(a->resolver, &ret->names);
	unwinder_stats(a->unwinder, &ret->unwind);
}
