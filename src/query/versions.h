/*
 * versions: notices when a program began to run in another version, from the profiles alone.
 *
 * What tells versions apart is in every stored profile: the build id of the file that the program
 * was started from (frames name their module, and a module has a build id; the label `exe` says
 * which module is the program), and the label `version`, which is what the process says of itself
 * or its container's image (docs/labels.md): it tells releases of interpreted programs apart, whose
 * file stays the same. Where that label is only the beginning of the build id, it tells nothing
 * more. A program is a process name and the path of its file.
 *
 * It changed if another one is seen for the first time, and the one before not any more once that
 * one ran: of two builds that run side by side, neither is newer. The same image in a new container
 * is no new version.
 */
#pragma once

#include <stdint.h>

#include "base/mem.h"
#include "profile/profile.h"

#define VERSIONS_MAX   64 /* noticed at most: the latest */
#define VERSIONS_LEAST 20 /* samples of a version: fewer are nobody's deployment */

struct version {
	const char *process, *exe; /* all strings are owned by the list */
	const char *before, *now;  /* build ids, in hex; "" if they are the same, or unknown */
	const char *label_before, *label_now; /* of `version`; "" likewise */
	uint64_t samples_before, samples_now; /* in all blocks */
	uint32_t block;                       /* the first in which the new one ran */
};

struct versions {
	struct version *list; /* in order of time */
	uint32_t count;
	struct arena arena; /* private */
};

/* `p` has the labels comm, exe, version and STORE_BLOCK (store/store.h). */
void versions_find(const struct profile *p, struct versions *ret);
void versions_done(struct versions *v);
