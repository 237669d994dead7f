/*
 * explanation_paths: the paths of a program that take most of its time, and which of its processes
 * each is of.
 */
#pragma once

#include <jansson.h>
#include <stdbool.h>

#include "query/tree.h"

struct explanation_paths_options {
	const struct tree *tree;
	/* The same, with a frame for each process under its root; NULL: there is only one. */
	const struct tree *by_process;
	const bool *of;   /* only paths that end at one of these nodes; NULL: any */
	bool has_parts;   /* the first frame is a part of all time, such as [blocked: lock] */
	bool ends_in_own; /* at the last function outside of the kernel, where there is one */
	size_t max;
};

/*
 * The most first: [{"share", "path": [function, …], "part" if it has parts, and if there are
 * several processes: "process_count", "process": that which takes most of it, "process_share"}]
 */
json_t *explanation_paths(const struct explanation_paths_options *o);
