/*
 * svg: the flame graph as a file of its own, which needs nothing but a browser.
 */
#include "render/flame.h"

int render_svg(const struct profile *p, const struct render_options *o, FILE *out)
{
	fputs("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n", out);
	flame_write(p, o, out);
	return 0;
}
