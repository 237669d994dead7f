#include "collect/found_event.h"

#include <errno.h>
#include <string.h>
#include <sys/uio.h>

#include <bpf/bpf.h>
#include <bpf/libbpf.h>

#include "base/mem.h"
#include "bpf/lock_wait.h"

#define COPY_CHUNKS 32 /* of the user stack: most blocked threads are a few KB deep */

/* The top of a thread's stack, in chunks as the BPF program copies them: how many bytes. */
static size_t copy_stack(const struct wire_event *e, void *to)
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

uint32_t found_event_holder(const struct offcpu_found *f)
{
	const struct offcpu_details *d = &f->details;
	uint32_t words[LOCK_WAIT_WORDS];
	struct iovec local = {words, sizeof(words)},
		     remote = {(void *)(uintptr_t)d->args[0], sizeof(words)};

	if (!lock_wait_is_one(d) ||
	    process_vm_readv((pid_t)f->event.pid, &local, 1, &remote, 1, 0) != sizeof(words))
		return 0;
	return lock_wait_holder(words);
}

const struct wire_event *found_event_make(struct found_event *room, const struct offcpu_found *f,
					  const void *details, unsigned words)
{
	struct wire_event *e = (void *)room->bytes;
	size_t frames = MIN(f->event.kernel_frames, WIRE_FRAMES), bytes = words * sizeof(__u64);

	*e = f->event;
	e->details = (uint8_t)words;
	e->kernel_frames = (uint16_t)frames;
	memcpy(e + 1, details, bytes);
	memcpy((uint8_t *)(e + 1) + bytes, f->frames, frames * sizeof(*f->frames));
	e->bytes = (uint32_t)wire_plain_bytes(e);
	if (!(e->flags & WIRE_NO_USER)) {
		e->walk = WIRE_WALK_NO_MAPPING;
		e->bytes += (uint32_t)copy_stack(e, room->bytes + e->bytes);
	}
	return e;
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

int found_event_each(struct bpf_program *p, size_t bytes, found_event_fn *fn, void *ctx)
{
	struct bpf_link *link = bpf_program__attach_iter(p, NULL);
	if (!link)
		return -errno;
	CLEANUP(fd_closep) int fd = bpf_iter_create(bpf_link__fd(link));
	CLEANUP(freep) void *record = mem_alloc(bytes);
	CLEANUP(freep) struct found_event *room = mem_alloc(sizeof(*room));
	int r = fd < 0 ? -errno : 0;

	while (r == 0) {
		r = read_whole(fd, record, bytes);
		if (r == 0)
			fn(ctx, record, room);
	}
	explicit_bzero(room, sizeof(*room)); /* stacks hold secrets */
	bpf_link__destroy(link);
	return r == -ENODATA ? 0 : r;
}
