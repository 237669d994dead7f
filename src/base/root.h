/*
 * root: opens files by paths as another process sees them.
 */
#pragma once

#include <sys/stat.h>

/*
 * Opens a regular file for reading in `root` (such as "/proc/123/root"; NULL: our own root).
 * Symbolic links are followed as in that root and never lead out of it; with `nofollow`, the last
 * component must not be one. Never blocks: -EINVAL for anything but a regular file. Returns the
 * descriptor, or -errno. ret_st may be NULL.
 */
int root_open(const char *root, const char *path, int nofollow, struct stat *ret_st);
