/*
 * recorded_wall: what `record --wall` recorded (pipeline/wall.h), as one profile of the type `wall`
 * (wall_parts.h).
 */
#pragma once

#include "profile/profile.h"

/* The caller frees it; `recorded` is not needed any more. */
struct profile *recorded_wall(const struct profile *recorded);
