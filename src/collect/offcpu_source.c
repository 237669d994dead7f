#include "collect/offcpu_source.h"

#include <errno.h>

#include <bpf/bpf.h>
#include <bpf/libbpf.h>

#include "base/mem.h"
#include "collect/found_event.h"
#include "offcpu.skel.h"

#define WAKING "offcpu_waking"
#define FOUND  "offcpu_found"
#define ROSTER "offcpu_roster"

struct links {
	struct bpf_link *switches;
	struct bpf_link *wakings; /* NULL: not asked for */
};

static bool wants_wakers(const struct source *s)
{
	return s->kind == &offcpu_wakers_source;
}

static int start(struct source *s, const char **ret_doing)
{
	struct links *l = mem_alloc(sizeof(*l));

	s->driver_data = l;
	*ret_doing = "attach to the scheduler's tracepoint";
	if (wants_wakers(s)) {
		l->wakings =
			bpf_program__attach(bpf_object__find_program_by_name(s->object, WAKING));
		if (!l->wakings)
			return -errno;
	}
	l->switches = bpf_program__attach(s->program);
	s->cpus = s->rings.count;
	return l->switches ? 0 : -errno;
}

static void stop(struct source *s)
{
	struct links *l = s->driver_data;

	if (!l)
		return;
	bpf_link__destroy(TAKE_PTR(l->switches));
	bpf_link__destroy(TAKE_PTR(l->wakings));
}

static void offcpu_free(struct source *s)
{
	free(s->driver_data);
}

static const struct source_driver driver = {.start = start, .stop = stop, .free = offcpu_free};

#define OFFCPU(named, programs)                                                                    \
	{                                                                                          \
		.name = (named), .type = "offcpu", .unit = "nanoseconds",                          \
		.object = offcpu__elf_bytes, .program = "offcpu", .driver = &driver,               \
		.also = (programs)                                                                 \
	}

static const char *const plain_programs[] = {FOUND, NULL};
static const char *const roster_programs[] = {FOUND, ROSTER, NULL};
static const char *const wakers_programs[] = {FOUND, WAKING, NULL};

const struct source_kind offcpu_source = OFFCPU("offcpu", plain_programs);
const struct source_kind offcpu_roster_source = OFFCPU("offcpu-roster", roster_programs);
const struct source_kind offcpu_wakers_source = OFFCPU("offcpu-wakers", wakers_programs);

/* ---- what is off its CPU already --------------------------------------------------------------
 */

struct finding {
	event_fn *fn;
	void *ctx;
};

static void hand_over(void *ctx, const void *record, struct found_event *room)
{
	const struct finding *to = ctx;
	const struct offcpu_found *f = record;
	struct offcpu_details d = f->details;

	d.holder = found_event_holder(f);
	to->fn(to->ctx, found_event_make(room, f, &d, OFFCPU_DETAILS));
}

int offcpu_source_found(struct source *s, event_fn *fn, void *ctx)
{
	struct finding to = {fn, ctx};

	return found_event_each(bpf_object__find_program_by_name(s->object, FOUND),
				sizeof(struct offcpu_found), hand_over, &to);
}

static void hand_over_bare(void *ctx, const void *record, struct found_event *room)
{
	const struct finding *to = ctx;

	(void)room;
	to->fn(to->ctx, record);
}

int offcpu_source_roster(struct source *s, event_fn *fn, void *ctx)
{
	struct finding to = {fn, ctx};

	return found_event_each(bpf_object__find_program_by_name(s->object, ROSTER),
				OFFCPU_ROSTER_BYTES, hand_over_bare, &to);
}

void offcpu_source_threads(struct source *s, offcpu_thread_fn *fn, void *ctx)
{
	int fd = bpf_object__find_map_fd_by_name(s->object, "threads");
	struct offcpu_thread t;
	uint32_t key, *last = NULL;

	for (uint32_t next; bpf_map_get_next_key(fd, last, &next) == 0;) {
		key = next;
		last = &key;
		if (bpf_map_lookup_elem(fd, &key, &t) == 0)
			fn(ctx, &t);
	}
}
