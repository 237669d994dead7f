/*
 * palette: the colours of frames. The hue shows what kind of code it is, the shade tells neighbours
 * apart; both depend on the function alone, so that it looks the same in every graph.
 *
 * A CSS class is a letter for the kind and a digit for the shade: "k3".
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
	PALETTE_IDLE, /* the mark [idle]: docs/waiting.md */
	PALETTE_KINDS,
};

enum palette_kind palette_kind(const struct tree_function *f);
const char *palette_name(enum palette_kind kind); /* for the legend: "library" */

void palette_class(enum palette_kind kind, unsigned shade, char ret[static 3]);
unsigned palette_shade(const struct tree_function *f);

/* When comparing: how a frame changed, "d0" (gone) over "d4" (the same) to "d8" (new). */
void palette_change(uint64_t now, uint64_t base, char ret[static 3]);

/* The CSS rules of all classes, for light and dark pages. */
void palette_css(FILE *out);
