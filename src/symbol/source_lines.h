/*
 * source_lines: (file, address) -> the calls that were inlined there and their source lines, from DWARF.
 *
 * Debug info comes from the file itself or from its separate debug file. It is read when an address
 * of the file is first asked for, and kept under a byte cap: the file that was used least recently
 * is closed first. A file whose debug info is larger than the cap, or that had to be read too often
 * or cost too much, gives no answers; all of that is counted. Not thread-safe.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#define SOURCE_LINES_DEPTH 64 /* frames at one address, at most */

struct source_lines;

struct source_lines_file {
	int fd;           /* borrowed: the mapped file */
	const char *path; /* as mapped, for debug links; NULL: not known */
	const char *root; /* the process's root, e.g. "/proc/123/root"; NULL: ours */
};

struct source_lines_frame { /* borrowed until the next call */
	const char *name;   /* demangled; "" if DWARF has none */
	const char *source; /* "" if not known */
	uint32_t line;      /* 0 if not known */
};

struct source_lines_stats {
	uint64_t files;     /* with debug info */
	uint64_t bytes;     /* of what is open now */
	uint64_t opens;     /* of debug info */
	uint64_t lookups;   /* of addresses in files with debug info */
	uint64_t found;     /* of them */
	uint64_t cut;       /* of them, at SOURCE_LINES_DEPTH */
	uint64_t too_large; /* files whose debug info is larger than the cap */
	uint64_t refused;   /* files that could not be read, or gave too much work */
};

struct source_lines *source_lines_new(size_t max_bytes);
void source_lines_free(struct source_lines *l);

/* A dense id, from 1; 0: there is no debug info for this file. Headers are read, nothing more. */
uint32_t source_lines_add_file(struct source_lines *l, const struct source_lines_file *spec);

/*
 * The frames at a virtual address of a file, innermost first; the last is the function that the
 * machine called, without its own name where DWARF knows only the line. 0: nothing is known.
 */
size_t source_lines_find(struct source_lines *l, uint32_t file, uint64_t vaddr,
			 struct source_lines_frame ret[static SOURCE_LINES_DEPTH]);

void source_lines_stats(const struct source_lines *l, struct source_lines_stats *ret);
