/*
 * tree: the flame tree that every renderer reads.
 *
 * A tree is a profile's samples merged by function: each node is one function reached by one path,
 * with its own value (self) and that of everything it called (total). Nodes are laid out in depth
 * first order: a node's children follow it, nodes[0] is the root and has no frame. Children are
 * sorted by name (so that the same code stands at the same place in two graphs).
 *
 * Nodes whose total is less than `min_fraction` of the root's are left out; what they held stays in
 * their parents' totals, so sums are exact, and `pruned` counts them.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "profile/profile.h"

enum tree_column { TREE_COUNT, TREE_VALUE }; /* which of a sample's numbers is shown */

struct tree_options {
	enum tree_column column;
	bool by_comm;      /* root frames: the process (label comm) … */
	bool by_thread;    /* … then the thread (labels thread and tid) */
	bool delimited;    /* a "-" frame between user and kernel frames, as BCC's -d */
	bool reversed;     /* leaf first: callers */
	double min_fraction;
};

struct tree_node {
	uint32_t name;   /* string of the profile */
	uint32_t module; /* of the profile */
	uint32_t parent; /* index; the root's is 0 */
	uint32_t next;   /* index just past this node's subtree */
	uint32_t depth;  /* the root's is 0 */
	enum frame_kind kind;
	uint64_t total;
	uint64_t self;
};

struct tree {
	const struct profile *profile; /* borrowed; outlives the tree */
	struct tree_node *nodes;
	uint32_t count;
	uint32_t depth; /* of the deepest node */
	uint64_t pruned;
	const char *unit; /* what total and self count: "samples", "nanoseconds", … */
};

struct tree *tree_new(const struct profile *p, const struct tree_options *o);
void tree_free(struct tree *t);
