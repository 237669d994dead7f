/*
 * idle: the time in which threads wait for work, in profiles of all their time.
 *
 * Most threads of a machine wait for work most of the time. In a profile of the type `wall`, or
 * `latency`, that is not what anybody looks for, so it stands apart: in one frame FRAME_IDLE beside
 * those of the processes, not in each of them, and without stacks unless they are asked for
 * (tree_options). Profiles of waiting show it where it is.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "profile/profile.h"

/* Whether idle time stands apart in it. */
bool idle_is_apart(const struct profile *p);

/* By stack of the profile: whether it is idle. Caller frees; NULL: none is. */
bool *idle_stacks(const struct profile *p);

/* How much of the profile's time is idle. */
uint64_t idle_time(const struct profile *p);
