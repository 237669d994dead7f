/*
 * context: what a process says of itself: OpenTelemetry's process context (OTEP 4719). A process
 * that has one maps it under the name OTEL_CTX, as a memfd or, where the kernel lets anonymous
 * memory have a name, as that:
 *
 *	0   signature "OTEL_CTX", written last
 *	8   u32 version, 2
 *	12  u32 size of the payload
 *	16  u64 when it was published; 0 while it is being changed
 *	24  address of the payload (context_payload.h), anywhere in the process
 *
 * Such a mapping is not executable, so no event tells of it: /proc/PID/maps is searched for it, of
 * processes that were sampled and are a second old, then after pauses that double up to five
 * minutes. That is limited to 1/CONTEXT_SEARCH_SHARE of all CPUs; what does not fit is put off. A
 * context that was found is looked at again once a second, if the process is sampled, and read
 * again if it was published anew. One whose mapping is gone says nothing any more.
 *
 * What is read is checked: a payload was published by the same process before it was read and
 * after, or else it is read again.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "process/context_payload.h"
#include "process/process.h"

#define CONTEXT_SEARCH_SHARE 40000
#define CONTEXT_PAYLOAD_MAX  (64u << 10) /* larger ones are not read, and counted */
#define CONTEXT_FOUND_MAX    4           /* mappings of that name that are tried */

struct process_context {
	struct context_payload says;
	uint64_t revision; /* another number whenever what it says has changed; never 0 */
};

struct contexts;

struct contexts_stats {
	uint64_t searches, put_off;
	uint64_t read;    /* contexts, each time anew */
	uint64_t torn;    /* … that changed while they were read, and were read again */
	uint64_t refused; /* … that are not what they should be, or larger than the cap */
};

struct contexts *contexts_new(void);
void contexts_free(struct contexts *c); /* NULL is fine */

/* For a sample of a process whose context_due_ns has come; `now`: CLOCK_MONOTONIC. */
void contexts_look(struct contexts *c, struct process *p, uint64_t now);

/* NULL: it has none that is known. Borrowed until the process is next sampled. */
static inline const struct process_context *context_of(const struct process *p)
{
	return (const struct process_context *)p->hooks[PROCESS_CONTEXT].data;
}

/* Whether it was searched for a context yet. */
static inline bool context_is_settled(const struct process *p)
{
	return p->context_pause_ns != 0;
}

void contexts_stats(const struct contexts *c, struct contexts_stats *ret);

/* Reads memory of a process that may be anything: 0 or -errno. */
int context_read_memory(uint32_t pid, uint64_t at, void *ret, size_t len);

/* Where mappings of that name begin, by the text of /proc/PID/maps; how many. For tests, too. */
size_t context_find(const char *maps, size_t len, uint64_t ret[static CONTEXT_FOUND_MAX]);
