/*
 * found_event: threads that are off their CPU already, as a BPF iterator tells them, made into
 * events: with a copy of the top of the user's stack, which is read here, as is who has a lock.
 */
#pragma once

#include <stddef.h>

#include "bpf/offcpu_wire.h"

struct bpf_program;

struct found_event { /* room for one: head, details, frames, then the copy */
	uint8_t bytes[WIRE_EVENT_MAX];
};

/* `details`: so many words. The event is in `room`. */
const struct wire_event *found_event_make(struct found_event *room, const struct offcpu_found *f,
					  const void *details, unsigned words);

/* Who has the lock that the thread waits for (offcpu_details.holder), as far as its memory tells
 * now. */
uint32_t found_event_holder(const struct offcpu_found *f);

/* Runs an iterator whose records have `bytes` each; the room is cleared in the end. 0 or -errno. */
typedef void found_event_fn(void *ctx, const void *record, struct found_event *room);
int found_event_each(struct bpf_program *p, size_t bytes, found_event_fn *fn, void *ctx);
