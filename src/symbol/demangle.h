/*
 * demangle: C++ and Rust names as people write them, by libiberty, within bounds.
 *
 * C++ as c++filt prints it, parameters included; Rust without its hashes. A name of a few hundred
 * bytes can stand for gigabytes of text (substitutions double it), so printing is stopped as soon
 * as the room is full, and what was printed so far is the name.
 */
#pragma once

#include <stddef.h>

#define DEMANGLE_MAX 4096 /* bytes of a name, in and out, with its NUL; longer ones are cut */

/* Writes the readable form, or the name itself when it is not mangled. Returns its length. */
size_t demangle(const char *name, char ret[static DEMANGLE_MAX]);
