/*
 * remap: translates the ids of one dictionary into those of another, looking up each only once.
 *
 * Ids never change their meaning, so a map stays valid as long as both dictionaries exist.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "profile/profile.h"

#define REMAP_FULL UINT32_MAX

struct remap { /* embedded; zero-initialised is empty */
	uint32_t *stacks, *frames, *modules,
		*series; /* by old id: the new one; 0: not looked up yet */
	uint32_t stack_cap, frame_cap, module_cap, series_cap;
};

struct remap_caps {
	uint32_t series, stacks;
};

void remap_done(struct remap *m);

/* Maps stack `id` to `to`, and every stack that extends `id` to the same extension of `to`. id 0:
 * all stacks. Call it first. */
void remap_set_stack(struct remap *m, uint32_t id, uint32_t to);

/* May change the name and the kind of a frame that is about to be added to `to`; its ids are of
 * that. */
typedef void remap_name_fn(void *ctx, struct profile *to, struct frame *f);

struct remap_from { /* the dictionary to translate from; borrowed */
	const struct module *modules;
	const struct frame *frames;
	const char *(*string)(const void *ctx, uint32_t id, size_t *ret_len);
	const void *ctx;
	remap_name_fn *name; /* NULL: frames keep their names */
	void *name_ctx;
};

struct remap_from
remap_from_profile(const struct profile *p); /* valid until something is added to p */

/* The id in `to`, where the entry is added if it is new. 0 stays 0. */
uint32_t remap_string(const struct remap_from *from, uint32_t id, struct profile *to);
uint32_t remap_module(struct remap *m, const struct remap_from *from, uint32_t id,
		      struct profile *to);

/* The same, but REMAP_FULL if the entry is new and `to` is full. caps NULL: no caps. */
uint32_t remap_frame(struct remap *m, const struct remap_from *from, uint32_t id,
		     struct profile *to, const struct remap_caps *caps);
uint32_t remap_series(struct remap *m, const struct profile *from, uint32_t id, struct profile *to,
		      const struct remap_caps *caps);
uint32_t remap_stack(struct remap *m, const struct profile *from, uint32_t id, struct profile *to,
		     const struct remap_caps *caps); /* not NULL */

/* The series {comm="(other)"}, for what did not fit. */
uint32_t remap_other(struct profile *to);

/*
 * Of a row: its series and its stack, each by itself. A series without room becomes (other), a
 * stack without room none (0): so what is left still says whose it was, or what was done. Whether
 * both had room.
 */
bool remap_row(struct remap *m, const struct profile *from, uint32_t *series, uint32_t *stack,
	       struct profile *to, const struct remap_caps *caps);
