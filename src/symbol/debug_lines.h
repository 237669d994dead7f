/*
 * debug_lines: inlined calls and source lines of an address in a file, from DWARF.
 *
 * Debug info is in the file itself or in its separate debug file. It is read when an address of the
 * file is first looked up. All that is open stays under a byte cap: the least recently used file is
 * closed first. A file gives no answers if its debug info is larger than the cap, was read again
 * too often, or took too much work; all of that is counted. Not thread-safe.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#define DEBUG_LINES_DEPTH 64 /* most frames at one address */

struct debug_lines;

struct debug_lines_file {
	int fd;           /* borrowed: the mapped file */
	const char *path; /* as mapped, for debug links; NULL: unknown */
	const char *root; /* the process's root, e.g. "/proc/123/root"; NULL: ours */
};

struct debug_lines_frame {  /* borrowed until the next call */
	const char *name;   /* demangled; "" if DWARF has none */
	const char *source; /* "" if not known */
	uint32_t line;      /* 0 if not known */
	uint32_t start;     /* where the function begins; likewise */
};

struct debug_lines_stats {
	uint64_t files;     /* with debug info */
	uint64_t bytes;     /* of the debug info that is open */
	uint64_t opens;     /* how often debug info was read */
	uint64_t lookups;   /* of addresses in files with debug info */
	uint64_t found;     /* lookups that found something */
	uint64_t cut;       /* … and were cut at DEBUG_LINES_DEPTH */
	uint64_t too_large; /* files whose debug info is larger than the cap */
	uint64_t refused;   /* files that could not be read, or took too much work */
};

struct debug_lines *debug_lines_new(size_t max_bytes);
void debug_lines_free(struct debug_lines *l);

/* A dense id, from 1; 0: the file has no debug info. Only headers are read. */
uint32_t debug_lines_add_file(struct debug_lines *l, const struct debug_lines_file *spec);

/*
 * The frames at a virtual address of a file, innermost first; the last is the function that was
 * really called (without a name if DWARF has only its line). Returns their number; 0: unknown.
 */
size_t debug_lines_find(struct debug_lines *l, uint32_t file, uint64_t vaddr,
			struct debug_lines_frame ret[static DEBUG_LINES_DEPTH]);

void debug_lines_stats(const struct debug_lines *l, struct debug_lines_stats *ret);
