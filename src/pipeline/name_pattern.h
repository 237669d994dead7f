/*
 * name_pattern: whether a name matches patterns, such as "futex_wait*|do_futex".
 *
 * "*" stands for any text, "?" for any character, "|" is between alternatives. Neither "_" at the
 * beginning of a name nor what compilers add to one counts, since both change from one version to
 * the next.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "profile/frame.h"

struct name { /* not NUL-terminated; borrowed */
	const char *text;
	size_t len;
};

/* Any name, such as a file's. */
struct name name_plain(const char *text);

/* A function's, without parameters and without what compilers add: ".isra.0", " [clone .part.0]".
 */
struct name name_of_function(const char *text, enum frame_kind kind);

/* NULL matches nothing. */
bool name_matches(struct name n, const char *patterns);
