/*
 * demangle: C++ and Rust names in readable form, by libiberty, with bounded output.
 *
 * C++ as c++filt prints it, with parameters; Rust without hashes. A mangled name of a few hundred
 * bytes can expand to gigabytes (substitutions can double it again and again), so output stops at
 * DEMANGLE_MAX, and what was written by then is the name.
 */
#pragma once

#include <stddef.h>

#define DEMANGLE_MAX 4096 /* bytes of a name, mangled or not, with its NUL; longer ones are cut */

/* Writes the readable form, or the name itself if it is not mangled. Returns the length. */
size_t demangle(const char *name, char ret[static DEMANGLE_MAX]);
