/*
 * package: which Debian package has the debug symbols of a file.
 */
#pragma once

/*
 * "nginx-dbgsym" for the file at `path`, provided that has this build id (in hex). Caller frees;
 * NULL if dpkg does not know the file, or is not installed. Searches dpkg's file lists: first those
 * of packages named like the file, then all of them, some 20 MB.
 */
char *package_of_symbols(const char *path, const char *build_id);
