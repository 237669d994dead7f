/*
 * perfmap: names of JIT-compiled code, from the file that the runtime writes for profilers:
 * /tmp/perf-PID.map, lines of "START SIZE name", numbers in hex.
 *
 * The path is as the target sees it: in its root, with the pid of its own namespace. Others may
 * have put a file there, so it is read only if it is a regular file that the process's user or root
 * owns, and at most 64 MB of it. The file grows while the program runs: at a lookup the new lines
 * are read, at most once a second, but sooner for an address without a name. Where code replaced
 * other code, the newer name counts. Names stay in the file. Not thread-safe.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "symbol/symbol.h"

struct perfmap;

struct perfmap_stats {
	uint64_t entries;
	uint64_t malformed;   /* lines */
	uint64_t refused;     /* files that are not regular, or have another owner */
	uint64_t capped;      /* bytes past the limit, not read */
	uint64_t refused_pid; /* whose file was the first to be refused; 0: none */
};

/* Opens nothing yet. `all`, if not NULL, is borrowed: what is counted is added there as well. */
struct perfmap *perfmap_new(int pid, struct perfmap_stats *all);
struct perfmap *perfmap_new_fd(int fd); /* of an open file; takes fd */
void perfmap_free(struct perfmap *m);

/* 0, with FRAME_JIT and a name that is valid until the next call; -ENOENT: *ret is not set. */
int perfmap_find(struct perfmap *m, uint64_t addr, struct symbol *ret);

/*
 * Checks the file if that was not done in the last second. The version changes with the entries:
 * while it is the same, an address that had a name still has it, and, if there is no file, one that
 * had none still has none.
 */
uint32_t perfmap_version(struct perfmap *m);
bool perfmap_is_there(const struct perfmap *m);

void perfmap_stats(const struct perfmap *m, struct perfmap_stats *ret);
