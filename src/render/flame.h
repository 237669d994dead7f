/*
 * flame: the interactive flame graph as one <svg> element, which svg and html both write.
 *
 * It is drawn twice. C lays out the frames that are wide enough to see for a fixed width: that is
 * what an <img> shows, where scripts do not run. Beside it stands the whole tree as columns of
 * numbers, from which flame.js draws again for the window's width, and at every zoom.
 */
#pragma once

#include <stdio.h>

#include "query/tree.h"
#include "render/render.h"

/* The tree that is shown: that of the options, with a cap of nodes. Caller frees. */
struct tree *flame_tree(const struct profile *p, const struct render_options *o);

void flame_write(const struct tree *t, const struct profile *p, const struct render_options *o,
		 FILE *out);
