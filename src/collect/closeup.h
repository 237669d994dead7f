/*
 * closeup: the system calls of one process, or of all by one name, for a moment:
 * bpf/closeup_calls.bpf.c.
 *
 * Loaded once, before privileges are dropped; attached only between begin and end.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "bpf/closeup_wire.h"
#include "collect/sampler.h"

struct closeup;

/* `plans`: by call, SYSCALL_COMPAT of them, copied. 0, or -errno with *ret_err filled in. */
int closeup_new(const struct closeup_plan *plans, struct closeup **ret,
		struct sampler_error *ret_err);
void closeup_free(struct closeup *c); /* NULL is fine */

/* `pid` 0: all processes by the name `comm`. 0 or -errno. */
int closeup_begin(struct closeup *c, uint32_t pid, const char *comm);

/* So far, since it began: what it costs its target depends on these. */
uint64_t closeup_calls(const struct closeup *c);

struct closeup_row {
	struct closeup_key key;
	struct closeup_sum sum;
};

struct closeup_view {
	struct closeup_row *rows; /* borrowed until the next begin */
	size_t count;
	uint64_t ns;       /* how long it was watched */
	uint64_t switches; /* of its threads, meanwhile; for whoever knows them to set */
	struct closeup_counts counts;
	const struct closeup_hold *holds; /* borrowed as the rows are */
	size_t hold_count;
};

/* Detaches it, and says what there was. */
void closeup_end(struct closeup *c, struct closeup_view *ret);
