/*
 * debuginfo: inlined calls and source lines of an address, from the DWARF of one file.
 *
 * The file may be hostile. libdw never reads past the end of a section; here it is made sure that
 * nothing loops and that work is bounded: each file has a budget of DIEs and ranges to visit, and
 * once that is used up, nothing is found any more. No other file is opened (so split DWARF gives
 * lines, but no inlined calls). Not thread-safe.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "symbol/debug_sections.h"

#define DEBUGINFO_DEPTH 64 /* most frames at one address; the outermost are kept */

struct debuginfo;

struct debuginfo_frame { /* borrowed from the debuginfo; NULL or 0: unknown */
	const char *linkage_name;
	const char *name;
	const char *source;
	const char *directory; /* that `source` is relative to, or NULL */
	uint32_t line;
	uint32_t start; /* the line on which the function begins */
};

/*
 * Takes both, even on failure; `alt` is the debug info that `main` shares with other files (dwz),
 * or empty. 0, or -EBADMSG when it is not DWARF.
 */
int debuginfo_open(struct debug_sections *main, struct debug_sections *alt, struct debuginfo **ret);
void debuginfo_free(struct debuginfo *d);

/*
 * The frames at an address, each with its current line: ret[0] is the innermost inlined function,
 * the last one the function that was really called. Returns their number; 0: address unknown.
 */
size_t debuginfo_find(struct debuginfo *d, uint64_t vaddr,
		      struct debuginfo_frame ret[static DEBUGINFO_DEPTH]);

size_t debuginfo_bytes(const struct debuginfo *d);   /* grows with lookups */
bool debuginfo_exhausted(const struct debuginfo *d); /* the budget of work is used up */
