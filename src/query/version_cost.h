/*
 * version_cost: programs that take more CPU time since they run in a new version, as findings.
 *
 * A new version is noticed by itself (versions.h). Half an hour before it, as far as the program
 * ran then, is compared with what came after its first minute, which is starting up. It costs more
 * if it takes more CPU per second by more than its own ordinary variation explains (changes.h), and
 * by a tenth at least. It may just have more to do: so where the same time of yesterday is stored,
 * it must take more than then, too; and it is the surer, the more of the difference functions
 * explain that take more for the same work.
 */
#pragma once

#include "profile/finding.h"
#include "store/store.h"

#define VERSION_COST_KIND     "costlier-version"
#define VERSION_COST_LEAST    0.1
#define VERSION_COST_AFTER_MS 480000  /* that it must have run */
#define VERSION_COST_BACK_MS  2700000 /* versions that are older are not looked at any more */
#define VERSION_COST_SAMPLES  1000    /* of both versions: of less it cannot be told */
#define VERSION_COSTS_MAX     4       /* versions that are looked at, the latest */

/*
 * Looks at the versions that are new at clock_ms; what it finds has no instance yet, and lasts
 * until then. The same version has the same id for ever. 0 or -errno with *ret_err, as of store.h.
 */
int version_cost_find(struct store *s, uint64_t clock_ms, struct finding ret[VERSION_COSTS_MAX],
		      uint32_t *ret_count, struct store_error *ret_err);
