/*
 * library: shared libraries that are loaded only when they are needed; and what becomes of them in
 * a program that is linked statically (`make tarball` makes one).
 *
 * Such a program brings its own libc along. A library of the host would bring another one, and two
 * of them in a process do not get on. So none is loaded: neither those that we ask for, nor those
 * that libc itself would load to look up users, groups and hosts, which then come from files and
 * DNS alone.
 */
#pragma once

/* To be called first: keeps libc from loading libraries, if the program is static. */
void library_begin(void);

/*
 * Loads the first of these that is there; names end with NULL. NULL with *ret_why (until this
 * thread asks again): there is none, or the program is static.
 */
void *library_open(const char *const *names, const char **ret_why);
