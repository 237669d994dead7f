/*
 * svg: the flame graph as a file of its own, which needs nothing but a browser.
 */
#include "render/flame.h"

int render_svg(const struct profile *p, const struct render_options *o, FILE *out)
{
	CLEANUP(tree_freep) struct tree *t = flame_tree(p, o);

	fputs("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n", out);
	flame_write(t, p, o, out);
	return 0;
}
