/*
 * package_cache: which package has a file, kept on disk: searching all of dpkg's lists takes 10 to
 * 20 ms, and each recording would have to.
 *
 *	smolder packages 1 STAMP
 *	/usr/sbin/nginx	nginx
 *	/opt/own/program	            no package has it
 *
 * STAMP is when dpkg's lists last changed: what was found before that is not used, and forgotten by
 * the next write. The file is in a directory that no other user may write to; its content is still
 * checked, line by line. At most PACKAGE_CACHE_MAX files are remembered, of which the oldest goes
 * first.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#define PACKAGE_CACHE_FILE "packages"
#define PACKAGE_CACHE_MAX  256

/* Whether the answer for this file is known; then *ret is it (NULL: no package), caller frees. */
bool package_cache_find(const char *dir, uint64_t stamp, const char *path, char **ret);

/*
 * Remembers an answer; the directory (not its parents) is created. `package` may be NULL. 0;
 * -EINVAL: not a path or name that can be kept; -EPERM: another user owns the directory or could
 * write to it; or -errno.
 */
int package_cache_add(const char *dir, uint64_t stamp, const char *path, const char *package);
