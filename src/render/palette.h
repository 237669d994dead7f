/*
 * palette: the colours of frames. A hue says what kind of code it is, a shade tells neighbours
 * apart; both come from the function alone, so that it looks the same in every graph.
 *
 * A class of CSS is a letter for the kind and a digit for the shade: "k3".
 */
#pragma once

#include <stdio.h>

#include "query/tree.h"

enum palette_kind {
	PALETTE_USER,
	PALETTE_LIBRARY,
	PALETTE_INLINED,
	PALETTE_GO,
	PALETTE_JIT,
	PALETTE_INTERPRETED,
	PALETTE_KERNEL,
	PALETTE_BPF,
	PALETTE_MARK,
	PALETTE_KINDS,
};

enum palette_kind palette_kind(const struct tree_function *f);
const char *palette_name(enum palette_kind kind); /* for the legend: "library" */

void palette_class(enum palette_kind kind, unsigned shade, char ret[static 3]);
unsigned palette_shade(const struct tree_function *f);

/* Of two profiles: how a frame changed, "d0" (gone) over "d4" (the same) to "d8" (new). */
void palette_change(uint64_t now, uint64_t base, char ret[static 3]);

/* The rules of all classes, for a light and a dark page. */
void palette_css(FILE *out);
