#include "query/wall_parts.h"

#include <string.h>

#include "base/index.h"
#include "base/mem.h"
#include "profile/remap.h"

#define STACKS_MAX (4u << 20)
#define LABELS_MAX 24

const char *const wall_parts_names[WALL_PARTS] = {
	[WALL_PART_USER] = "running: user",
	[WALL_PART_KERNEL] = "running: kernel",
	[WALL_PART_UNSAMPLED] = "running: not sampled",
	[WALL_PART_RUNNABLE] = "waiting for a CPU",
	[WALL_PART_BLOCKED] = "blocked", /* … by reason */
	[WALL_PART_IDLE] = "idle",
	[WALL_PART_LOST] = "lost",
};

/* ---- owners: what their samples are scaled by ------------------------------------------------ */

struct part_owner {
	const char *name[2];   /* its labels; borrowed from a profile; "" if it has none */
	uint64_t ran, sampled; /* ns */
	uint64_t met, divided; /* of sampled, so far, and what that is of ran */
};

struct owners {
	struct part_owner *list; /* [0] is not used */
	uint32_t count, cap;
	struct index by_name;
};

static const char *label(const struct profile *p, uint32_t series, const char *key)
{
	const char *value = profile_label(p, series, key);

	return value ? value : "";
}

/* ---- the sum --------------------------------------------------------------------------------- */

struct summing {
	const struct wall_parts *parts;
	struct profile *into;
	struct owners owners;
};

static struct part_owner *owner_of(struct summing *sum, const struct profile *p, uint32_t series)
{
	struct owners *o = &sum->owners;
	const char *a = label(p, series, sum->parts->owner[0]);
	const char *b = label(p, series, sum->parts->owner[1]);
	uint32_t hash = index_hash2(index_hash_bytes(a, strlen(a)), index_hash_bytes(b, strlen(b)));
	uint32_t id;

	INDEX_EACH(&o->by_name, hash, id)
		if (strcmp(o->list[id].name[0], a) == 0 && strcmp(o->list[id].name[1], b) == 0)
			return &o->list[id];
	if (!o->count)
		o->count = 1;
	while (o->count >= o->cap)
		MEM_GROW(o->list, o->cap, o->cap);
	id = o->count++;
	o->list[id] = (struct part_owner){.name = {a, b}};
	index_put(&o->by_name, hash, id);
	return &o->list[id];
}

/* Stacks and labels of one profile, as samples under one root. */
struct rooted {
	struct summing *sum;
	const struct profile *from;
	struct remap map;
	uint32_t root;
};

static void rooted_init(struct rooted *r, struct summing *w, const struct profile *from,
			const char *name)
{
	CLEANUP(freep) char *mark = mem_printf("[%s]", name);
	struct frame f = {.name = profile_string(w->into, mark, strlen(mark)), .kind = FRAME_MARK};

	*r = (struct rooted){.sum = w, .from = from};
	r->root = profile_stack(w->into, 0, profile_frame(w->into, &f));
	remap_set_stack(&r->map, 0, r->root);
}

/* Of a sample's labels, those that were asked for. */
static uint32_t asked_labels(const struct summing *w, const struct profile *from, uint32_t series)
{
	struct label labels[LABELS_MAX];
	size_t n = 0;

	for (size_t i = 0; i < w->parts->by_count && n < LABELS_MAX; i++) {
		const char *key = w->parts->by[i], *value = profile_label(from, series, key);
		if (value)
			labels[n++] = (struct label){profile_string(w->into, key, strlen(key)),
						     profile_string(w->into, value, strlen(value))};
	}
	return n ? profile_series(w->into, labels, n) : 0;
}

static void rooted_add(struct rooted *r, const struct sample *s, uint64_t value)
{
	static const struct remap_caps caps = {UINT32_MAX, STACKS_MAX};
	struct profile *into = r->sum->into;
	uint32_t stack = remap_stack(&r->map, r->from, s->stack, into, &caps);

	if (stack == REMAP_FULL) {
		stack = r->root;
		into->info.capped += s->count;
	}
	profile_add(into, asked_labels(r->sum, r->from, s->series), stack, s->count, value);
}

static uint64_t scale(uint64_t value, uint64_t by, uint64_t of)
{
	return of ? (uint64_t)((unsigned __int128)value * by / of) : 0;
}

static bool is_in_kernel(const struct profile *p, uint32_t stack)
{
	return stack && frame_is_kernel(p->frames[p->stacks[stack].frame].kind);
}

static void measure_owners(struct summing *w)
{
	const struct wall_parts_list *ran = &w->parts->ran, *sampled = &w->parts->sampled;

	for (uint32_t i = 0; i < ran->count; i++)
		owner_of(w, ran->of, ran->samples[i].series)->ran += ran->samples[i].value;
	for (uint32_t i = 0; i < sampled->count; i++)
		owner_of(w, sampled->of, sampled->samples[i].series)->sampled +=
			sampled->samples[i].value;
}

/* A sample's part of what its owner ran: all of them together are that exactly. */
static uint64_t part_of(struct part_owner *o, uint64_t sampled)
{
	uint64_t before = o->divided;

	if (!o->ran)
		return sampled;
	o->met += sampled;
	o->divided = scale(o->met, o->ran, o->sampled);
	return o->divided - before;
}

/*
 * What ran, and in the proportions of the samples where. Of an owner of whom it is not known
 * exactly how long it ran, the samples have to tell that as well.
 */
static void add_running(struct summing *w)
{
	const struct wall_parts_list *ran = &w->parts->ran, *sampled = &w->parts->sampled;
	struct rooted user, kernel, unsampled;

	rooted_init(&user, w, sampled->of, wall_parts_names[WALL_PART_USER]);
	rooted_init(&kernel, w, sampled->of, wall_parts_names[WALL_PART_KERNEL]);
	rooted_init(&unsampled, w, ran->of, wall_parts_names[WALL_PART_UNSAMPLED]);
	measure_owners(w);
	for (uint32_t i = 0; i < sampled->count; i++) {
		const struct sample *s = &sampled->samples[i];
		rooted_add(is_in_kernel(sampled->of, s->stack) ? &kernel : &user, s,
			   part_of(owner_of(w, sampled->of, s->series), s->value));
	}
	for (uint32_t i = 0; i < ran->count; i++) {
		const struct sample *s = &ran->samples[i];
		if (!owner_of(w, ran->of, s->series)->sampled)
			rooted_add(&unsampled, s, s->value);
	}
	remap_done(&user.map);
	remap_done(&kernel.map);
	remap_done(&unsampled.map);
}

/* One root for each reason, made when it is met. */
struct reasons {
	const char *names[16]; /* borrowed */
	struct rooted roots[16];
	size_t count;
};

static struct rooted *root_of(struct reasons *r, struct summing *w, const struct profile *off,
			      const char *reason)
{
	size_t i = 0;

	while (i < r->count && strcmp(r->names[i], reason) != 0)
		i++;
	if (i < r->count)
		return &r->roots[i];
	if (i == ARRAY_SIZE(r->names)) /* there are not that many reasons */
		return &r->roots[0];
	CLEANUP(freep)
	char *name = mem_printf("%s: %s", wall_parts_names[WALL_PART_BLOCKED],
				*reason ? reason : "other");
	r->names[r->count++] = reason;
	rooted_init(&r->roots[i], w, off, name);
	return &r->roots[i];
}

/* The stack that is this mark and nothing else; 0 if there is none. */
static uint32_t find_mark(const struct profile *p, const char *name)
{
	for (uint32_t i = 1; i < p->stack_count; i++) {
		const struct frame *f = &p->frames[p->stacks[i].frame];
		if (!p->stacks[i].parent && f->kind == FRAME_MARK &&
		    strcmp(profile_str(p, f->name), name) == 0)
			return i;
	}
	return 0;
}

static void add_waiting(struct summing *w)
{
	const struct wall_parts_list *list = &w->parts->off;
	const struct profile *off = list->of;
	struct rooted runnable, idle;
	struct reasons blocked = {};

	rooted_init(&runnable, w, off, wall_parts_names[WALL_PART_RUNNABLE]);
	rooted_init(&idle, w, off, wall_parts_names[WALL_PART_IDLE]);
	/* Such stacks have a mark at their root already. */
	remap_set_stack(&idle.map, find_mark(off, FRAME_IDLE), idle.root);
	remap_set_stack(&runnable.map, find_mark(off, "[runnable]"), runnable.root);
	for (uint32_t i = 0; i < list->count; i++) {
		const struct sample *s = &list->samples[i];
		const char *state = label(off, s->series, "state");
		struct rooted *r =
			strcmp(state, "runnable") == 0 ? &runnable
			: strcmp(state, "idle") == 0
				? &idle
				: root_of(&blocked, w, off, label(off, s->series, "reason"));
		rooted_add(r, s, s->value);
	}
	remap_done(&runnable.map);
	remap_done(&idle.map);
	for (size_t i = 0; i < blocked.count; i++)
		remap_done(&blocked.roots[i].map);
}

static void add_lost(struct summing *w)
{
	const struct wall_parts_list *lost = &w->parts->lost;
	struct rooted r;

	if (!lost->count)
		return;
	rooted_init(&r, w, lost->of, wall_parts_names[WALL_PART_LOST]);
	for (uint32_t i = 0; i < lost->count; i++)
		rooted_add(&r, &lost->samples[i], lost->samples[i].value);
	remap_done(&r.map);
}

void wall_parts_sum(const struct wall_parts *p, struct profile *into)
{
	struct summing w = {.parts = p, .into = into};

	add_running(&w);
	add_waiting(&w);
	add_lost(&w);
	free(w.owners.list);
	index_done(&w.owners.by_name);
}
