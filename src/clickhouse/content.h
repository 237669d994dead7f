/*
 * content: names frames, stacks and sets of labels by what they are, in 128 bits: the same ones
 * have the same name whichever collector, server or day they come from.
 *
 * A stack's name is made of its parent's and its frame's, so stacks that are extensions of others
 * share the work.
 */
#pragma once

#include "base/index.h"
#include "profile/profile.h"

struct content_hash {
	uint8_t bytes[16]; /* zeros: of the stack without frames */
};

/* Of one dictionary, for as long as nothing else is added to it. Embedded; zero-initialised. */
struct content {
	const struct profile *dict;
	/* Private: by id, what was asked for. */
	struct index stacks, frames;
	struct content_known {
		uint32_t id;
		struct content_hash hash;
	} * known;
	uint32_t count, cap;
};

void content_init(struct content *c, const struct profile *dict);
void content_done(struct content *c);

struct content_hash content_frame(struct content *c, uint32_t frame);
struct content_hash content_stack(struct content *c, uint32_t stack);
struct content_hash content_series(const struct content *c, uint32_t series);

/* 32 bits of it, for an index: it is well mixed. */
static inline uint32_t content_index(const struct content_hash *h)
{
	uint32_t v;

	memcpy(&v, h->bytes, sizeof(v));
	return v;
}
