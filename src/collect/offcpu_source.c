#include "collect/offcpu_source.h"

#include <errno.h>
#include <sys/uio.h>

#include <bpf/bpf.h>
#include <bpf/libbpf.h>

#include "base/mem.h"
#include "offcpu.skel.h"

#define WAKING "offcpu_waking"
#define FOUND  "offcpu_found"

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
static const char *const wakers_programs[] = {FOUND, WAKING, NULL};

const struct source_kind offcpu_source = OFFCPU("offcpu", plain_programs);
const struct source_kind offcpu_wakers_source = OFFCPU("offcpu-wakers", wakers_programs);

/* ---- what is off its CPU already --------------------------------------------------------------
 */

#define COPY_CHUNKS 32 /* of the user stack: most blocked threads are a few KB deep */

struct found_event { /* the head, details and frames of one that was found, then its stack */
	uint8_t bytes[WIRE_EVENT_MAX];
};

/* The top of a thread's stack, in chunks as the BPF program copies them: how many bytes. */
static size_t copy_stack(const struct wire_event *e, uint8_t *to)
{
	uint64_t from = wire_stack_start(e);
	struct iovec remote[COPY_CHUNKS], local = {to, COPY_CHUNKS * WIRE_STACK_CHUNK};

	/* In pieces: what lies beyond the end of the stack ends the copy, and does not refuse it.
	 */
	for (size_t i = 0; i < COPY_CHUNKS; i++)
		remote[i] = (struct iovec){(void *)(uintptr_t)(from + i * WIRE_STACK_CHUNK),
					   WIRE_STACK_CHUNK};
	ssize_t n = process_vm_readv((pid_t)e->pid, &local, 1, remote, COPY_CHUNKS, 0);
	return n > 0 ? (size_t)n / WIRE_STACK_CHUNK * WIRE_STACK_CHUNK : 0;
}

static void hand_over(const struct offcpu_found *f, struct found_event *room, event_fn *fn,
		      void *ctx)
{
	struct wire_event *e = (void *)room->bytes;
	size_t frames = MIN(f->event.kernel_frames, WIRE_FRAMES);

	*e = f->event;
	e->kernel_frames = (uint16_t)frames;
	memcpy(e + 1, &f->details, sizeof(f->details));
	memcpy((uint8_t *)(e + 1) + sizeof(f->details), f->frames, frames * sizeof(*f->frames));
	e->bytes = (uint32_t)wire_plain_bytes(e);
	if (!(e->flags & WIRE_NO_USER)) {
		e->walk = WIRE_WALK_NO_MAPPING;
		e->bytes += (uint32_t)copy_stack(e, room->bytes + e->bytes);
	}
	fn(ctx, e);
}

static int read_whole(int fd, void *to, size_t bytes)
{
	for (size_t got = 0; got < bytes;) {
		ssize_t n = read(fd, (uint8_t *)to + got, bytes - got);
		if (n < 0 && (errno == EINTR || errno == EAGAIN))
			continue;
		if (n <= 0)
			return n < 0 ? -errno : -ENODATA;
		got += (size_t)n;
	}
	return 0;
}

int offcpu_source_found(struct source *s, event_fn *fn, void *ctx)
{
	struct bpf_program *p = bpf_object__find_program_by_name(s->object, FOUND);
	struct bpf_link *link = bpf_program__attach_iter(p, NULL);
	if (!link)
		return -errno;
	CLEANUP(fd_closep) int fd = bpf_iter_create(bpf_link__fd(link));
	CLEANUP(freep) struct offcpu_found *f = mem_alloc(sizeof(*f));
	CLEANUP(freep) struct found_event *room = mem_alloc(sizeof(*room));
	int r = fd < 0 ? -errno : 0;

	while (r == 0) {
		r = read_whole(fd, f, sizeof(*f));
		if (r == 0)
			hand_over(f, room, fn, ctx);
	}
	explicit_bzero(room, sizeof(*room)); /* stacks hold secrets */
	bpf_link__destroy(link);
	return r == -ENODATA ? 0 : r;
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
