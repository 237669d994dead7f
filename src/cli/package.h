/*
 * package: which package has the symbols of a file, as the packager of this machine knows it.
 */
#pragma once

/*
 * Of the file at `path`, if it is the one with that build id (in hex): "nginx-dbgsym". Caller
 * frees; NULL if dpkg does not know the file, or there is no dpkg here. Reads dpkg's lists: first
 * those of packages with a name like the file's, and all of them, some 20 MB, if it is in none.
 */
char *package_of_symbols(const char *path, const char *build_id);
