#include "collect/rings.h"

#include <errno.h>
#include <sys/mman.h>

#include "base/mem.h"
#include "collect/bpf_object.h"

int rings_size(struct rings *r, struct bpf_object *o, unsigned count, uint64_t ring_bytes)
{
	struct bpf_map *map = bpf_object__find_map_by_name(o, "scratch");
	size_t page = (size_t)sysconf(_SC_PAGESIZE);

	r->count = count;
	r->readers = mem_alloc_array(count, sizeof(*r->readers));
	r->ring_bytes = ring_bytes;
	r->ring_at = bpf_map__value_size(map);
	r->cpu_bytes = (r->ring_at + r->ring_bytes + WIRE_EVENT_MAX + page - 1) & ~(page - 1);
	int err = bpf_object_set(o, "ring_bytes", &r->ring_bytes, sizeof(r->ring_bytes));
	err = err ? err : bpf_map__set_max_entries(map, count);
	return err ? err : bpf_map__set_value_size(map, (uint32_t)r->cpu_bytes);
}

int rings_map(struct rings *r, const struct bpf_object *o)
{
	void *p = mmap(NULL, r->count * r->cpu_bytes, PROT_READ | PROT_WRITE, MAP_SHARED,
		       bpf_object__find_map_fd_by_name(o, "scratch"), 0);

	if (p == MAP_FAILED)
		return -errno;
	r->memory = p;
	return 0;
}

void rings_done(struct rings *r)
{
	if (r->memory)
		munmap(r->memory, r->count * r->cpu_bytes);
	free(r->readers);
	*r = (struct rings){};
}

static struct wire_ring *ring_of(const struct rings *r, unsigned cpu)
{
	return (struct wire_ring *)(r->memory + cpu * r->cpu_bytes);
}

static struct wire_event *event_at(const struct rings *r, unsigned cpu, uint64_t at)
{
	return (void *)((uint8_t *)ring_of(r, cpu) + r->ring_at + (at & (r->ring_bytes - 1)));
}

static bool is_sound(const struct wire_event *e, uint64_t left)
{
	return left >= sizeof(*e) && left >= e->bytes && e->kernel_frames <= WIRE_FRAMES &&
	       e->user_frames <= WIRE_USER_FRAMES && e->details <= WIRE_DETAILS &&
	       e->bytes >= wire_plain_bytes(e);
}

static void drain_cpu(struct rings *r, unsigned cpu, uint64_t until, event_fn *fn, void *ctx)
{
	const struct wire_ring *ring = ring_of(r, cpu);
	struct ring_reader *c = &r->readers[cpu];
	uint64_t head = __atomic_load_n(&ring->head, __ATOMIC_ACQUIRE);
	uint64_t base = __atomic_load_n(&ring->base, __ATOMIC_RELAXED);

	c->read = MAX(c->read, base);
	/* A ring that was begun anew just now has its base behind the head that was read. */
	r->fill = MAX(r->fill, head > c->read ? head - c->read : 0);
	while (c->read < head) {
		const struct wire_event *e = event_at(r, cpu, c->read);
		if (!is_sound(e, head - c->read)) {
			r->malformed++;
			c->read = head;
			break;
		}
		if (e->time > until)
			break;
		fn(ctx, e);
		c->has_stacks |= wire_stack_bytes(e) != 0;
		c->read += e->bytes;
	}
}

void rings_drain(struct rings *r, uint64_t until, event_fn *fn, void *ctx)
{
	r->fill = 0;
	for (unsigned cpu = 0; cpu < r->count; cpu++)
		drain_cpu(r, cpu, until, fn, ctx);
}

/* A ring is begun anew time and again: what is far behind may stay for hours. */
static void wipe_stacks(struct rings *r, unsigned cpu)
{
	const struct wire_ring *ring = ring_of(r, cpu);
	uint64_t base = __atomic_load_n(&ring->base, __ATOMIC_RELAXED);
	uint64_t at = MAX(ring->tail, base), left;

	while ((left = r->readers[cpu].read - at) > 0) {
		struct wire_event *e = event_at(r, cpu, at);
		if (!is_sound(e, left))
			break;
		memset((uint8_t *)e + wire_plain_bytes(e), 0, wire_stack_bytes(e));
		at += e->bytes;
	}
	r->readers[cpu].has_stacks = false;
}

void rings_release(struct rings *r)
{
	for (unsigned cpu = 0; cpu < r->count; cpu++) {
		struct wire_ring *ring = ring_of(r, cpu);
		if (r->readers[cpu].has_stacks)
			wipe_stacks(r, cpu);
		if (ring->tail != r->readers[cpu].read)
			__atomic_store_n(&ring->tail, r->readers[cpu].read, __ATOMIC_RELEASE);
	}
}
