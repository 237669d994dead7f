/*
 * flamebearer: a flame tree as Pyroscope has it: levels of numbers, from the root on.
 *
 * Each node is four numbers: the distance from the end of the node before it in its level, its
 * total, its self, and the index of its name; the root is named "total". Comparing two profiles it
 * is seven: distance, total and self of the left one, then of the right one, then the name.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "query/tree.h"

struct flamebearer_level {
	int64_t *values;
	size_t count, cap;
};

struct flamebearer {
	const char **names; /* borrowed from the tree */
	size_t name_count;
	struct flamebearer_level *levels;
	size_t level_count;
	int64_t total, max_self, left_total, right_total;
};

/* Of a tree with a base: that is the left one. Free it before the tree. */
void flamebearer_init(struct flamebearer *f, const struct tree *t);
void flamebearer_done(struct flamebearer *f);
