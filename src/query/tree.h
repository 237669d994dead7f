/*
 * tree: the flame tree that every renderer reads.
 *
 * A tree is a profile's samples merged by function: each node is one function reached by one call
 * path, with its own value (self) and that of it and everything it called (total). Nodes are in
 * depth-first order: a node's children follow it; nodes[0] is the root and has no function.
 * Children are sorted by name, so that the same code is at the same place in two graphs.
 *
 * Nodes whose total is less than `min_fraction` of the root's are left out, and more of the small
 * ones if there would be more than `max_nodes`. Siblings that were left out are replaced by one
 * node of the function TREE_MERGED, after the others, so that sums stay exact in every format;
 * `pruned` counts them, and `least` is the smallest total that was kept. Nodes with a total of 0
 * are always left out. Sums saturate at 64 bits.
 *
 * With a second profile, `base`, the tree holds both: each node has the numbers of the base beside
 * its own, and either may be 0 (a function that is new, or gone). Which nodes are left out depends
 * on the larger of the two.
 *
 * Of all the time of threads, what is idle is one node under the root, without its stacks unless
 * `idle` asks for them (idle.h). While it is, `min_fraction` is of the rest: a machine whose
 * threads mostly wait for work still shows what they do.
 *
 * The functions' sums over the nodes that are left are not those of the profile. So `sums` asks for
 * those of the complete tree, taken before anything is left out (sums.h).
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/mem.h"
#include "profile/profile.h"

#define TREE_MERGED "[merged]"

enum tree_column { TREE_COUNT, TREE_VALUE }; /* which of a sample's numbers is shown */

struct tree_options {
	enum tree_column column;
	bool by_comm;    /* root frames from labels: the process, as "COMM" … */
	bool by_process; /* … or as "COMM (PID)" … */
	bool by_thread;  /* … then the thread, as "THREAD (TID)" */
	const char *by;  /* … or instead the value of this label; NULL: no. For "pid" it is "COMM
			    (PID)" */
	bool delimited;  /* a "-" frame between user and kernel frames, as BCC's -d */
	bool reversed;   /* leaf first: callers */
	bool idle;       /* idle time that stands apart has its stacks */
	double min_fraction;
	uint32_t max_nodes;         /* not counting TREE_MERGED; 0: no cap */
	const struct profile *base; /* profile to compare with; NULL: none */
	/* Scale the base's numbers to the same sum as the others', rounding each stack: to compare
	   shares. */
	bool normalised;
	/* Or scale them by this factor: to the same length of time. 0: do not. */
	double base_scale;
	bool sums;              /* also sum up functions, and list more than those of nodes … */
	uint32_t max_functions; /* … up to this number; 0: all */
};

struct tree_function {
	const char *name;   /* borrowed from the tree or its profile */
	const char *module; /* "" if there is none */
	const char *source; /* where it was seen most (hot_lines.h); "" if it is not known */
	uint32_t line;      /* 0 if it is not known */
	uint32_t name_len;
	enum frame_kind kind;
};

struct tree_sum { /* of one function */
	uint64_t self;
	uint64_t total; /* where it calls itself, counted once */
	uint64_t base_self, base_total;
};

struct tree_node {
	uint32_t function; /* index; the root's is 0 */
	uint32_t parent;   /* index; the root's is 0 */
	uint32_t next;     /* index just past this node's subtree */
	uint32_t depth;    /* the root's is 0 */
	uint64_t total;
	uint64_t self;
	uint64_t base_total; /* 0 without a base */
	uint64_t base_self;
};

struct tree {
	struct tree_node *nodes;
	uint32_t count;
	uint32_t depth; /* of the deepest node */
	/* Those of the nodes, and of `sums`, in order of name, module, kind; [0] is the root's: no
	   name. */
	struct tree_function *functions;
	uint32_t function_count;
	/* By function, if asked for; that of TREE_MERGED is for all functions not listed. */
	struct tree_sum *sums;
	uint32_t unlisted; /* how many those are */
	uint32_t merged;   /* the function that is TREE_MERGED; 0: nothing was left out */
	uint32_t idle;     /* the node of idle time that is folded; 0: there is none */
	uint64_t pruned;
	uint64_t least;
	const char *unit;           /* what total and self count: "samples", "nanoseconds", … */
	const struct profile *base; /* what was given; NULL: no comparison */
	double base_scale;          /* as asked for */
	struct profile *folded;     /* private */
};

/* The profile, and the base, must outlive the tree. */
struct tree *tree_new(const struct profile *p, const struct tree_options *o);
void tree_free(struct tree *t);
DEFINE_CLEANUP(struct tree *, tree_free)
