/*
 * flame: the interactive flame graph as one <svg> element, which svg and html both write.
 *
 * It is drawn twice. C draws the frames that are wide enough to see, for a fixed width: that is
 * what an <img> shows, where scripts do not run. The complete tree is included as columns of
 * numbers, from which flame.js redraws it for the window's width and at every zoom.
 */
#pragma once

#include <stdio.h>

#include "render/render.h"

void flame_write(const struct profile *p, const struct render_options *o, FILE *out);

/* Writes a file of this folder that is embedded in the program. */
void flame_asset(FILE *out, const char *start, const char *end);
