#include "cli/explanation_paths.h"

#include <string.h>

#include "base/mem.h"

#define LEAST 0.002 /* of all the time: what takes less is not worth a line */

/* The node that stands for one, when paths end outside of the kernel: `top` frames are no
 * functions.
 */
static uint32_t end_of(const struct tree *t, uint32_t node, uint32_t top)
{
	uint32_t at = node;

	while (at && frame_is_kernel(t->functions[t->nodes[at].function].kind))
		at = t->nodes[at].parent;
	return t->nodes[at].depth > top ? at : node;
}

/* What each node took by itself, and in what of the kernel it called. */
static uint64_t *own_of(const struct tree *t, const struct explanation_paths_options *o,
			uint32_t top)
{
	uint64_t *own = mem_alloc_array((size_t)t->count + 1, sizeof(*own));

	for (uint32_t i = 1; i < t->count; i++)
		own[o->ends_in_own ? end_of(t, i, top) : i] += t->nodes[i].self;
	return own;
}

/* The names on the way to a node, from the root on: as many as its depth. */
static const char **names_of(const struct tree *t, uint32_t node)
{
	const char **names = mem_alloc_array((size_t)t->nodes[node].depth + 1, sizeof(*names));

	for (; node; node = t->nodes[node].parent)
		names[t->nodes[node].depth - 1] = t->functions[t->nodes[node].function].name;
	return names;
}

static uint32_t child_of(const struct tree *t, uint32_t node, const char *name)
{
	for (uint32_t i = node + 1; i < t->nodes[node].next; i = t->nodes[i].next)
		if (strcmp(t->functions[t->nodes[i].function].name, name) == 0)
			return i;
	return 0;
}

/* The node that these names lead to from another one; 0: there is none. */
static uint32_t find_below(const struct tree *t, uint32_t node, const char *const *names,
			   uint32_t count)
{
	for (uint32_t i = 0; i < count; i++) {
		node = child_of(t, node, names[i]);
		if (!node)
			return 0;
	}
	return node;
}

/* Whose it is. */
static void put_processes(const struct explanation_paths_options *o, const uint64_t *own,
			  uint32_t node, json_t *to)
{
	const struct tree *t = o->by_process;
	uint64_t all = 0, most = 0;
	uint32_t count = 0, who = 0;
	CLEANUP(freep) const char **names = names_of(o->tree, node);

	for (uint32_t i = 1; t && i < t->count; i = t->nodes[i].next) {
		uint32_t at = find_below(t, i, names, o->tree->nodes[node].depth);
		if (!at || !own[at])
			continue;
		count++;
		all += own[at];
		if (own[at] > most) {
			most = own[at];
			who = i;
		}
	}
	if (!count)
		return;
	json_object_set_new(to, "process_count", json_integer(count));
	json_object_set_new(to, "process", json_string(t->functions[t->nodes[who].function].name));
	json_object_set_new(to, "process_share", json_real((double)most / (double)all));
}

static json_t *make(const struct explanation_paths_options *o, uint32_t node)
{
	const struct tree *t = o->tree;
	json_t *one = json_object(), *path = json_array();

	for (uint32_t at = node; at; at = t->nodes[at].parent) {
		const char *name = t->functions[t->nodes[at].function].name;
		if (o->has_parts && t->nodes[at].depth == 1)
			json_object_set_new(one, "part", json_string(name));
		else
			json_array_insert_new(path, 0, json_string(name));
	}
	json_object_set_new(one, "path", path);
	return one;
}

/* The first is the largest; of equal ones that which stands first. `after`: those before it are
 * listed. */
static uint32_t next_node(const struct explanation_paths_options *o, const uint64_t *own,
			  uint32_t after)
{
	uint64_t below = after ? own[after] : UINT64_MAX;
	uint32_t best = 0;

	for (uint32_t i = 1; i < o->tree->count; i++) {
		bool is_left = own[i] < below || (own[i] == below && i > after);
		if (is_left && (!o->of || o->of[i]) && (!best || own[i] > own[best]))
			best = i;
	}
	return best;
}

json_t *explanation_paths(const struct explanation_paths_options *o)
{
	uint32_t top = o->has_parts;
	CLEANUP(freep) uint64_t *own = own_of(o->tree, o, top);
	CLEANUP(freep) uint64_t *theirs = o->by_process ? own_of(o->by_process, o, top + 1) : NULL;
	double all = (double)o->tree->nodes[0].total;
	json_t *list = json_array();

	for (uint32_t node = 0; json_array_size(list) < o->max;) {
		node = next_node(o, own, node);
		if (!node || (double)own[node] <= LEAST * all)
			break;
		json_t *one = make(o, node);
		json_object_set_new(one, "share", json_real((double)own[node] / all));
		put_processes(o, theirs, node, one);
		json_array_append_new(list, one);
	}
	return list;
}
