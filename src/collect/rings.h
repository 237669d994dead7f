/*
 * rings: one source's events on their way from BPF, a ring for each CPU (see bpf/wire.h). They are
 * borrowed from the ring until they are released.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "bpf/wire.h"

struct bpf_object;

struct ring_reader {
	uint64_t read;   /* position behind the last event that was handed over */
	bool has_stacks; /* some events since the last release have copies of stacks: to be wiped */
};

struct rings {            /* embedded */
	uint8_t *memory;  /* of all CPUs: struct wire_ring first, the ring itself at ring_at */
	size_t cpu_bytes; /* of one */
	size_t ring_at;
	uint64_t ring_bytes;
	struct ring_reader *readers; /* by CPU */
	unsigned count;
	uint64_t fill;      /* of the fullest, at the last drain */
	uint64_t malformed; /* records that do not make sense: expected to be 0 */
};

/* Before the object is loaded: a ring of `ring_bytes`, a power of two, for each of so many CPUs. 0
 * or -errno. */
int rings_size(struct rings *r, struct bpf_object *o, unsigned count, uint64_t ring_bytes);
int rings_map(struct rings *r, const struct bpf_object *o); /* after that: 0 or -errno */
void rings_done(struct rings *r);

/*
 * Hands over the events that are waiting, but for those after `until` (CLOCK_MONOTONIC): each CPU's
 * in order of time.
 */
typedef void event_fn(void *ctx, const struct wire_event *e);
void rings_drain(struct rings *r, uint64_t until, event_fn *fn, void *ctx);

/* Makes room for new events: those that were handed over are gone. */
void rings_release(struct rings *r);
