/*
 * package: which Debian package has the debug symbols of a file.
 *
 * Reads dpkg's lists of files (first those of packages that are named like the file or have many
 * programs, then all of them, some 20 MB) and starts no program, so that a server can ask on a
 * thread of its own. What was found can be kept on disk (package_cache.h).
 */
#pragma once

#include "base/mem.h"

#define PACKAGES_MAX 256 /* answers that are kept; beyond that all are forgotten */

struct packages; /* what was asked for, and the answers. Threads may share it. */

/* `cache_dir`: where answers are kept between runs, copied; NULL: nowhere. */
struct packages *packages_new(const char *cache_dir);
void packages_free(struct packages *p); /* NULL is fine */
DEFINE_CLEANUP(struct packages *, packages_free)

/*
 * "nginx-dbgsym" for the file at `path`, provided that has this build id (in hex). Caller frees;
 * NULL if dpkg does not know the file, or is not installed.
 */
char *packages_find(struct packages *p, const char *path, const char *build_id);
