/*
 * resolve: makes stacks of an answer, which go by their hashes, those of a profile. They are read
 * in pieces, so that what waits in memory has a cap.
 */
#pragma once

#include "clickhouse/clickhouse_internal.h"
#include "clickhouse/content.h"

struct resolve { /* embedded; zero-initialised is empty */
	uint32_t count;
	uint32_t *to;     /* by number: the stack in the profile */
	uint8_t *cut;     /* of those of which a part was left out */
	uint32_t missing; /* stacks that no day says what they are: none of these */
	/* Private. */
	struct content_hash *stacks;
	uint32_t cap;
	struct index by_stack, by_frame;
	struct resolve_frame {
		struct content_hash hash;
		uint32_t to; /* 0: not read yet */
		bool is_cut;
	} * frames;
	uint32_t frame_count, frame_cap;
};

void resolve_done(struct resolve *r);

/* The number of a stack, from 1 on; 0: the one without frames. */
uint32_t resolve_put(struct resolve *r, const struct content_hash *stack);

/* Reads what they are from the days of a range, and adds them to the profile: 0 or -errno. */
int resolve_all(struct resolve *r, struct clickhouse_store *s, uint64_t from_ms, uint64_t to_ms,
		struct profile *into, struct store_error *e);
