#include "profile/assemble.h"

#include <errno.h>
#include <time.h>

#include "base/index.h"
#include "base/mem.h"
#include "process/process.h"
#include "profile/known.h"
#include "profile/resolve.h"

#define HELD_BYTES_MAX (8u << 20)
#define EVENTS_LATE_NS 2000000 /* a drain leaves the latest for the next */
#define HELD_NS_MAX    5000000000ull

/* Who a sample belongs to; interned, since building its labels costs more than the rest. */
struct owner {
	uint32_t pid, tid;
	char comm[WIRE_COMM], thread[WIRE_COMM];
	uint32_t series;
};

/* A sample whose walk waits for a table, or for events, with what its process had mapped. */
struct held {
	struct wire_sample *sample; /* and its frames and stack */
	struct process *process;
	struct maps *maps;
	uint64_t after_ns; /* events must have come this far; 0: need not */
};

struct assembler {
	struct profile *profile;
	struct assembler_options options;
	struct processes *processes;
	struct resolver *resolver;
	struct unwinder *unwinder;

	struct owner *owners; /* [0] is not used: index ids start at 1 */
	uint32_t owner_count, owner_cap;
	struct index by_owner;
	uint64_t settled_ns; /* when the last drain ended */
	uint64_t passed_ns;  /* all events up to here have come */
	struct known *known;
	uint32_t *ids; /* frames of the sample at hand */
	size_t id_cap;
	struct held *held;
	size_t held_count, held_cap, held_bytes;

	bool timed;
	uint64_t lap_ns; /* when the stage at hand began; 0: this drain is not timed */
	uint64_t laps[STAGES];

	uint32_t key_comm, key_pid, key_thread, key_tid;
	uint32_t truncated_frame, incomplete_frame;
	struct assembler_stats stats;
};

static uint64_t now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000000 + (uint64_t)t.tv_nsec;
}

static void begin_lap(struct assembler *a)
{
	a->lap_ns = a->timed ? now_ns() : 0;
}

static void lap(struct assembler *a, enum assembler_stage stage)
{
	if (!a->lap_ns)
		return;
	uint64_t now = now_ns();
	a->laps[stage] += now - a->lap_ns;
	a->lap_ns = now;
}

void assembler_time(struct assembler *a)
{
	a->timed = true;
}

void assembler_time_done(struct assembler *a, bool keep)
{
	for (int i = 0; i < STAGES; i++) {
		a->stats.stage_ns[i] += keep ? a->laps[i] * ASSEMBLER_TIMED : 0;
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
	a->processes = processes_new();
	a->resolver = resolver_new(p, a->processes, &o->names);
	a->known = known_new();
	a->key_comm = intern(a, "comm");
	a->key_pid = intern(a, "pid");
	a->key_thread = intern(a, "thread");
	a->key_tid = intern(a, "tid");
	a->truncated_frame = mark(a, "[truncated]");
	a->incomplete_frame = mark(a, "[incomplete]");
	a->owner_count = 1;
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
	a->held_bytes -= wire_sample_size(h->sample);
	process_release(h->process);
	maps_unref(h->maps);
	free(h->sample);
}

void assembler_free(struct assembler *a)
{
	if (!a)
		return;
	for (size_t i = 0; i < a->held_count; i++)
		held_done(a, &a->held[i]);
	unwinder_free(a->unwinder);
	resolver_free(a->resolver);
	processes_free(a->processes);
	known_free(a->known);
	free(a->owners);
	free(a->ids);
	free(a->held);
	index_done(&a->by_owner);
	free(a);
}

static uint32_t put_number(struct assembler *a, uint32_t n)
{
	char text[16];

	snprintf(text, sizeof(text), "%u", n);
	return intern(a, text);
}

static uint32_t series_of(struct assembler *a, const struct wire_sample *s)
{
	struct owner who = {.pid = s->pid, .tid = s->tid};
	uint32_t id;

	memcpy(who.comm, s->comm, WIRE_COMM);
	memcpy(who.thread, s->thread, WIRE_COMM);
	uint32_t hash = index_hash_bytes(&who, offsetof(struct owner, series));
	INDEX_EACH(&a->by_owner, hash, id)
		if (memcmp(&a->owners[id], &who, offsetof(struct owner, series)) == 0)
			return a->owners[id].series;

	struct label labels[] = {
		{a->key_comm, profile_string(a->profile, who.comm, strnlen(who.comm, WIRE_COMM))},
		{a->key_pid, put_number(a, s->pid)},
		{a->key_thread,
		 profile_string(a->profile, who.thread, strnlen(who.thread, WIRE_COMM))},
		{a->key_tid, put_number(a, s->tid)},
	};
	who.series = profile_series(a->profile, labels, ARRAY_SIZE(labels));
	MEM_GROW(a->owners, a->owner_count, a->owner_cap);
	id = a->owner_count++;
	a->owners[id] = who;
	index_put(&a->by_owner, hash, id);
	return who.series;
}

/* Room for the frames of one more address. */
static uint32_t *next_ids(struct assembler *a, size_t count)
{
	while (count + RESOLVE_MAX > a->id_cap) {
		a->id_cap = a->id_cap ? 2 * a->id_cap : 4 * (size_t)WIRE_FRAMES;
		a->ids = mem_resize_array(a->ids, a->id_cap, sizeof(*a->ids));
	}
	return a->ids + count;
}

/* Frames come leaf first; a stack is built root first. */
static uint32_t put_stack(struct assembler *a, uint32_t stack, size_t count)
{
	while (count)
		stack = profile_stack(a->profile, stack, a->ids[--count]);
	return stack;
}

/* The stack of user frames, leaf first, on top of `root`. */
static uint32_t resolve_stack(struct assembler *a, struct process *p, const struct maps *maps,
			      const uint64_t *frames, unsigned n, bool detail, uint32_t root,
			      bool *ret_lasting)
{
	size_t count = 0;

	for (unsigned i = 0; i < n; i++)
		count += resolve_user(a->resolver, p, maps, frames[i], detail, ret_lasting,
				      next_ids(a, count));
	return put_stack(a, root, count);
}

/* A stack seen before: its frames count as if they were looked up. 0: not seen. */
static uint32_t seen_stack(struct assembler *a, uint64_t hash)
{
	const struct known_stack *seen = known_find(a->known, hash);

	if (!seen)
		return 0;
	resolver_repeat(a->resolver, seen->frames, seen->unnamed);
	return seen->stack;
}

/* `before`: the count when it was not resolved yet. */
static uint32_t remember_stack(struct assembler *a, uint64_t hash, uint32_t stack,
			       struct resolver_count before)
{
	struct resolver_count now = resolver_count(a->resolver);

	if (stack)
		known_put(a->known,
			  &(struct known_stack){hash, stack, (uint16_t)(now.frames - before.frames),
						(uint16_t)(now.unnamed - before.unnamed)});
	return stack;
}

/* The same of all callers, the leaf left out. */
static uint32_t callers_stack(struct assembler *a, struct process *p, struct maps *maps,
			      const struct unwound *user, bool detail, uint64_t seed, uint32_t root,
			      bool *ret_lasting)
{
	if (user->count < 2)
		return root;
	uint64_t hash = known_hash(user->frames + 1, user->count - 1, ~seed);
	uint32_t stack = seen_stack(a, hash);
	if (stack)
		return stack;

	struct resolver_count before = resolver_count(a->resolver);
	bool lasting = true;
	stack = resolve_stack(a, p, maps, user->frames + 1, user->count - 1, detail, root,
			      &lasting);
	*ret_lasting &= lasting;
	return lasting ? remember_stack(a, hash, stack, before) : stack;
}

/* The kernel's frames on top of `root`: many processes come by the same ways. */
static uint32_t kernel_stack(struct assembler *a, const struct wire_sample *s, uint32_t root)
{
	const uint64_t *frames = (const uint64_t *)(s + 1);
	unsigned n = MIN(s->kernel_frames, (unsigned)WIRE_FRAMES);
	if (n == 0)
		return root;
	uint64_t hash = known_hash(frames, n, root);
	uint32_t stack = seen_stack(a, hash);
	if (stack)
		return stack;

	/* A return address stands after its call: look one byte before it, but not at a leaf. */
	struct resolver_count before = resolver_count(a->resolver);
	for (unsigned i = 0; i < n; i++)
		*next_ids(a, i) = resolve_kernel(a->resolver, frames[i] - (i > 0), s->time);
	return remember_stack(a, hash, put_stack(a, root, n), before);
}

/* Where a walk that did not reach the end has its place in the tree. */
static uint32_t root_of(struct assembler *a, bool cut, bool incomplete)
{
	if (cut)
		return profile_stack(a->profile, 0, a->truncated_frame);
	return incomplete ? profile_stack(a->profile, 0, a->incomplete_frame) : 0;
}

static uint32_t stack_of(struct assembler *a, const struct wire_sample *s, struct process *p,
			 struct maps *maps, const struct unwound *user)
{
	bool detail = !a->options.detail || a->options.detail(a->options.detail_ctx, s->comm);
	bool cut = user->walk == WIRE_WALK_CUT || s->flags & WIRE_KERNEL_CUT;
	bool incomplete = user->walk > WIRE_WALK_CUT;
	a->profile->info.truncated += cut;

	/* All that the frames of these addresses depend on. */
	uint64_t from[] = {maps ? maps->version : 0, p ? resolver_version(p) : 0,
			   (uint64_t)detail << 2 | (uint64_t)cut << 1 | incomplete};
	uint64_t seed = known_hash(from, ARRAY_SIZE(from), 0);
	uint64_t hash = known_hash((const uint64_t *)(s + 1), s->kernel_frames,
				   known_hash(user->frames, user->count, seed));
	uint32_t stack = seen_stack(a, hash);
	if (stack)
		return stack;

	struct resolver_count before = resolver_count(a->resolver);
	bool lasting = true;
	stack = root_of(a, cut, incomplete);
	if (user->count) {
		stack = callers_stack(a, p, maps, user, detail, seed, stack, &lasting);
		stack = resolve_stack(a, p, maps, user->frames, 1, detail, stack, &lasting);
	}
	stack = kernel_stack(a, s, stack);
	return lasting ? remember_stack(a, hash, stack, before) : stack;
}

static void add_sample(struct assembler *a, const struct wire_sample *s, struct process *p,
		       struct maps *maps, const struct unwound *user)
{
	uint32_t stack = stack_of(a, s, p, maps, user);

	a->stats.samples++;
	lap(a, STAGE_SYMBOL);
	if (a->options.sink)
		a->options.sink(a->options.sink_ctx, &(struct assembled){s, p, maps, stack});
	else
		profile_add(a->profile, series_of(a, s), stack, 1, s->weight);
	lap(a, STAGE_AGGREGATE);
}

static void hold(struct assembler *a, const struct wire_sample *s, struct process *p,
		 struct maps *maps)
{
	MEM_GROW(a->held, a->held_count, a->held_cap);
	a->held[a->held_count++] = (struct held){
		.sample = mem_dup(s, wire_sample_size(s)),
		.process = process_hold(p),
		.maps = maps_ref(maps),
		.after_ns = maps == p->early ? p->read_ns : 0,
	};
	a->held_bytes += wire_sample_size(s);
	a->stats.held++;
}

void assembler_sample(struct assembler *a, const struct wire_sample *s, const uint64_t *frames)
{
	struct unwound user = {};

	begin_lap(a);
	if (s->walk == WIRE_WALK_NONE) {
		add_sample(a, s, NULL, NULL, &user);
		return;
	}
	const uint64_t *user_frames = frames + s->kernel_frames;
	struct process *p = processes_get(a->processes, s->pid, s->start, s->time);
	uint64_t leaf = s->user_frames ? user_frames[0] : s->ip;
	process_find(a->processes, p, leaf, true, s->time); /* reads mappings anew if need be */
	bool last = a->held_bytes >= HELD_BYTES_MAX;
	lap(a, STAGE_PROCESS);
	if (p->early && !last) {
		hold(a, s, p, p->early);
		return;
	}
	struct maps *maps = p->early ? p->early : p->maps;
	if (p->early) /* too many wait already, so nothing is sure */
		maps_remove(maps, 0, UINT64_MAX);
	int r = unwinder_walk(a->unwinder, p, maps, s, user_frames, last, &user);
	lap(a, STAGE_UNWIND);
	if (r == -EAGAIN)
		hold(a, s, p, maps);
	else
		add_sample(a, s, p, maps, &user);
}

/* Tries again those that wait; with `last` they wait no longer. */
static void retry_held(struct assembler *a, uint64_t now, bool last)
{
	size_t kept = 0;

	for (size_t i = 0; i < a->held_count; i++) {
		struct held *h = &a->held[i];
		const uint64_t *frames = (const uint64_t *)(h->sample + 1);
		struct unwound user = {};
		bool enough = last || now > h->sample->time + HELD_NS_MAX;
		if (h->after_ns > a->passed_ns ||
		    unwinder_walk(a->unwinder, h->process, h->maps, h->sample,
				  frames + h->sample->kernel_frames, enough, &user) == -EAGAIN) {
			a->held[kept++] = *h;
			continue;
		}
		lap(a, STAGE_UNWIND);
		add_sample(a, h->sample, h->process, h->maps, &user);
		held_done(a, h);
	}
	a->held_count = kept;
}

void assembler_event(struct assembler *a, const struct sideband_event *e)
{
	begin_lap(a);
	processes_event(a->processes, e);
	lap(a, STAGE_PROCESS);
}

void assembler_lost(struct assembler *a)
{
	processes_distrust(a->processes);
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

void assembler_finish(struct assembler *a)
{
	a->passed_ns = UINT64_MAX;
	while (a->held_count) {
		size_t before = a->held_count;
		uint64_t made = unwinder_finish(a->unwinder);
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
	ret->maps_read = ps.maps_read;
	ret->processes = ps.known;
	ret->files = files_count(processes_files(a->processes));
	resolver_stats(a->resolver, &ret->names);
	unwinder_stats(a->unwinder, &ret->unwind);
}
