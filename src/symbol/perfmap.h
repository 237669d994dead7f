/*
 * perfmap: names of just-in-time compiled code, from the map that its runtime writes:
 * /tmp/perf-PID.map, lines of "START SIZE name" in hex.
 *
 * The path is the target's: inside its root, under the pid of its own namespace. The file belongs
 * to whoever runs there, so only a regular file that the process's user or root owns is read, 64 MB
 * of it at most. It grows while the program runs: the new tail is read when something is looked up,
 * once a second, and sooner for an address without a name. Code that replaced other code wins.
 * Names stay in the file. Not thread-safe.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "symbol/symbol.h"

struct perfmap;

struct perfmap_stats {
	uint64_t entries;
	uint64_t malformed; /* lines */
	uint64_t refused;   /* files that were not regular, or somebody else's */
	uint64_t capped;    /* bytes past the limit, not read */
};

/* Nothing is opened yet. `all`: what is counted is added there, too; borrowed; NULL: nowhere. */
struct perfmap *perfmap_new(int pid, struct perfmap_stats *all);
struct perfmap *perfmap_new_fd(int fd); /* of a file that is open already; takes fd */
void perfmap_free(struct perfmap *m);

/* 0, with FRAME_JIT and a name that is valid until the next call; -ENOENT: *ret is not set. */
int perfmap_find(struct perfmap *m, uint64_t addr, struct symbol *ret);

/*
 * Looks at the file if that was not done for a second. A version is never that of other entries;
 * while it stays, an address that had a name has that one, and one that had none in a map that is
 * not there has none.
 */
uint32_t perfmap_version(struct perfmap *m);
bool perfmap_is_there(const struct perfmap *m);

size_t perfmap_bytes(const struct perfmap *m);
void perfmap_stats(const struct perfmap *m, struct perfmap_stats *ret);
