/*
 * symbols: names of (file, offset), for all files that samples were taken in.
 *
 * A file's symbol table is built at the first lookup in it, and shared by all processes that map
 * the file. All tables and names together stay under a byte cap: the least recently used table is
 * dropped first, and built again when needed. Names stay in the files; each is read and demangled
 * once. At most 256 descriptors are open: beyond that the least recently used file is closed, and
 * opened again by its path. Answers are cached by the caller (pipeline/resolve.h).
 *
 * An address without a name is shown as "[file+0xSTART]". START is the start of its function, if
 * .eh_frame_hdr or the padding between functions tells it, so that each function is one frame;
 * otherwise the address itself. Files may be hostile; those that cannot be read are counted. Not
 * thread-safe.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "symbol/symbol.h"

#define SYMBOLS_FIRST 128

struct symbols;

struct symbols_file {
	const char *path; /* as mapped; for display and for debug links */
	const char *root; /* of the process, e.g. "/proc/123/root", for debug files; NULL: ours */
	const uint8_t *build_id; /* of the mapped file, to verify against */
	size_t build_id_len;     /* 0: unknown */
	int fd;                  /* taken; -1: could not be opened */
};

struct symbols_module { /* for a pprof mapping */
	uint8_t build_id[20];
	size_t build_id_len;
	uint64_t start, end, offset; /* first executable segment: addresses, offset in the file */
	bool go;
};

struct symbols_stats {
	uint64_t tables;    /* loaded now */
	uint64_t symbols;   /* in them */
	uint64_t bytes;     /* of tables and names, now */
	uint64_t fds;       /* open now */
	uint64_t loads;     /* tables built */
	uint64_t evictions; /* tables dropped for space, or files closed */
	uint64_t lookups;
	uint64_t names;         /* read from files and demangled */
	uint64_t unnamed;       /* lookups that ended without a name */
	uint64_t failures;      /* files that could not be read, or are not ELF */
	uint64_t mismatches;    /* files with another build id than the mapped one */
	uint64_t dropped;       /* symbols that did not fit into a table */
	uint64_t debug_refused; /* debug files that are unreadable, or of another build */
	/* The first file of those kinds, as mapped, cut to fit; "": none. May hold anything. */
	char first_failure[SYMBOLS_FIRST], first_mismatch[SYMBOLS_FIRST],
		first_debug_refused[SYMBOLS_FIRST];
};

struct symbols *symbols_new(size_t max_bytes); /* usually 20 MB */
void symbols_free(struct symbols *s);

/* A dense id, from 1. Add each file once. Nothing is read yet. */
uint32_t symbols_add_file(struct symbols *s, const struct symbols_file *f);

/* Our own vdso, as "[vdso]"; all processes have the same. */
uint32_t symbols_add_vdso(struct symbols *s);

/* 0, or -errno: what is wrong with the file. */
int symbols_module(struct symbols *s, uint32_t file, struct symbols_module *ret);

/*
 * Names an offset in a file (ip - map.start + map.pgoff). 0, or -ENOENT with a name like
 * "[libfoo.so+0x1234]": *ret is set in both cases. ret->name is valid until the next call.
 */
int symbols_find(struct symbols *s, uint32_t file, uint64_t offset, struct symbol *ret);

void symbols_stats(const struct symbols *s, struct symbols_stats *ret);
