/*
 * debuginfo: the DWARF of one file: an address -> the calls that were inlined there, and lines.
 *
 * The file may be hostile. libdw checks what it reads against the ends of sections; what is left to
 * us is that nothing loops and that work is bounded: a file has a budget of DIEs and ranges to look
 * at, and when it is used up every further answer is empty. No other file is ever opened (split
 * DWARF gives lines, but no inlined calls). Not thread-safe.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "symbol/debug_sections.h"

#define DEBUGINFO_DEPTH 64 /* frames at one address, at most; the outermost are kept */

struct debuginfo;

struct debuginfo_frame { /* borrowed from the debuginfo; NULL, 0: not known */
	const char *linkage_name;
	const char *name;
	const char *source;
	const char *directory; /* what `source` is relative to; NULL: nothing */
	uint32_t line;
};

/*
 * Takes both images, on failure too; `alt` is what `main` shares with other files (dwz), or empty.
 * 0, or -EBADMSG when that is no DWARF.
 */
int debuginfo_open(struct debug_sections *main, struct debug_sections *alt, struct debuginfo **ret);
void debuginfo_free(struct debuginfo *d);

/*
 * The frames at an address: ret[0] is the innermost inlined function, the last the function that
 * the machine called, each with the line that it was at. 0: nothing is known of that address.
 */
size_t debuginfo_find(struct debuginfo *d, uint64_t vaddr,
		      struct debuginfo_frame ret[static DEBUGINFO_DEPTH]);

size_t debuginfo_bytes(const struct debuginfo *d);   /* grows with what was asked for */
bool debuginfo_exhausted(const struct debuginfo *d); /* the budget is used up */
