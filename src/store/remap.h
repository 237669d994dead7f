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

/* The id in `to`, where it is made if it is new; REMAP_FULL if it is new and there is no room. */
uint32_t remap_stack(struct remap *m, const struct profile *from, uint32_t id, struct profile *to,
		     const struct remap_caps *caps);
uint32_t remap_series(struct remap *m, const struct profile *from, uint32_t id, struct profile *to,
		      const struct remap_caps *caps);

/* {comm="(other)"}, for what there was no room for. */
uint32_t remap_other(struct profile *to);
