/*
 * explanation_calls: the system calls of a program as of now, counted for a second.
 *
 * That is all it may cost: at most EXPLAINED_PROCESSES processes are looked at, and calls are timed
 * only if there are so few of them that it takes less than a hundredth of a CPU.
 */
#pragma once

#include <jansson.h>

#include "profile/profile.h"

#define EXPLAINED_PROCESSES 64

/*
 * Of those processes of a profile (labels pid, comm and host) that still run on this machine:
 * {"seconds", "processes", "per_second", "failed_share", "timed", "calls":
 * [{"call", "per_second", "mean_us" if they were timed, and if any failed: "failed_share",
 * "error"}]}. NULL: ret_why says, in words, why they are not known.
 */
json_t *explanation_calls(const struct profile *p, char ret_why[static 256]);
