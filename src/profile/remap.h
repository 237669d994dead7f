/*
 * remap: ids of one dictionary as those of another, each looked up once.
 *
 * Ids keep their meaning for as long as a dictionary lives, so a map is good for as long as both.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "profile/profile.h"

#define REMAP_FULL UINT32_MAX

struct remap {                                        /* embedded; zero-initialised is empty */
	uint32_t *stacks, *frames, *modules, *series; /* 0: not looked up yet */
	uint32_t stack_cap, frame_cap, module_cap, series_cap;
};

struct remap_caps {
	uint32_t series, stacks;
};

void remap_done(struct remap *m);

struct remap_from { /* what the ids of the one mean; borrowed */
	const struct module *modules;
	const struct frame *frames;
	const char *(*string)(const void *ctx, uint32_t id, size_t *ret_len);
	const void *ctx;
};

struct remap_from remap_from_profile(const struct profile *p); /* until it is added to */

/* The id in `to`, where it is made if it is new; 0 is 0. */
uint32_t remap_string(const struct remap_from *from, uint32_t id, struct profile *to);
uint32_t remap_module(struct remap *m, const struct remap_from *from, uint32_t id,
		      struct profile *to);

/* The same, but REMAP_FULL if it is new and there is no room. caps NULL: there is. */
uint32_t remap_frame(struct remap *m, const struct remap_from *from, uint32_t id,
		     struct profile *to, const struct remap_caps *caps);
uint32_t remap_series(struct remap *m, const struct profile *from, uint32_t id, struct profile *to,
		      const struct remap_caps *caps);
uint32_t remap_stack(struct remap *m, const struct profile *from, uint32_t id, struct profile *to,
		     const struct remap_caps *caps); /* not NULL */

/* {comm="(other)"}, for what there was no room for. */
uint32_t remap_other(struct profile *to);
