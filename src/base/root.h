/*
 * root: opens files of another process by the paths that it sees.
 */
#pragma once

#include <sys/stat.h>

/*
 * Opens a regular file for reading under `root` (such as "/proc/123/root"; NULL: our own root).
 * Symbolic links on the way are followed as the owner of that root would see them and never lead
 * out of it; a last component that is one is refused when `nofollow`. Never blocks: what is not a
 * regular file gives -EINVAL. The descriptor, or -errno. *ret_st may be NULL.
 */
int root_open(const char *root, const char *path, int nofollow, struct stat *ret_st);
