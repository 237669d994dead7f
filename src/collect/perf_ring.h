/*
 * perf_ring: a perf event on one CPU, and the ring of records that the kernel writes for it.
 */
#pragma once

#include <linux/perf_event.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define PERF_RING_RECORD 8192 /* bytes of the longest record that is taken */

struct perf_ring { /* embedded */
	int fd;    /* -1: this CPU has none */
	size_t bytes;
	struct perf_event_mmap_page *page;
};

struct perf_ring_room { /* a record is copied to it: it may wrap around in the ring */
	uint64_t words[PERF_RING_RECORD / 8];
};

/* `pages`: a power of two. 0 or -errno: -ENODEV of a CPU that is offline. */
int perf_ring_open(struct perf_ring *r, const struct perf_event_attr *attr, unsigned cpu,
		   size_t pages);
void perf_ring_close(struct perf_ring *r);

/* Calls fn for each record that waits, which it may change. 0; -EBADMSG: what is in there makes no
 * sense, and was dropped. *ret_used: how many bytes waited; may be NULL. */
typedef void perf_ring_fn(void *ctx, struct perf_event_header *h);
int perf_ring_drain(struct perf_ring *r, struct perf_ring_room *room, perf_ring_fn *fn, void *ctx,
		    uint64_t *ret_used);
