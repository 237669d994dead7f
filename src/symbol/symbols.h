/*
 * symbols: (file, offset) -> name, for every mapped file that a sample was seen in.
 *
 * A file's table is built at the first lookup in it and shared by all processes that map it. All
 * tables and names together stay under a byte cap: the least recently used table goes first and is
 * built again when it is needed again. Names stay in the files and are read and demangled once a
 * function. Descriptors are capped as well (256): beyond that the least recently used file is
 * closed, and opened again by its path. Who asks remembers the answers (pipeline/resolve.h).
 *
 * An address without a name prints as "[file+0xSTART]" with the start of its function, where the
 * file's table for exceptions or the padding between functions tells that, so that a function is
 * one frame; else with the address itself. Files may be anything: what cannot be read is counted.
 * Not thread-safe.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "symbol/symbol.h"

struct symbols;

struct symbols_file {
	const char *path; /* as mapped, e.g. from /proc/PID/maps: for names and for debug links */
	const char
		*root; /* the process's root, e.g. "/proc/123/root", for debug files; NULL: ours */
	const uint8_t *build_id; /* what the kernel said, to verify against */
	size_t build_id_len;     /* 0: not known */
	int fd;                  /* taken; -1: could not be opened */
};

struct symbols_module { /* what a pprof mapping needs */
	uint8_t build_id[20];
	size_t build_id_len;
	uint64_t start, end,
		offset; /* the first executable segment: addresses, place in the file */
	bool go;
};

struct symbols_stats {
	uint64_t tables;    /* loaded now */
	uint64_t symbols;   /* in them */
	uint64_t bytes;     /* of tables and names, now */
	uint64_t fds;       /* open now */
	uint64_t loads;     /* tables built */
	uint64_t evictions; /* tables dropped for room, or files closed for descriptors */
	uint64_t lookups;
	uint64_t names;         /* read from files and demangled */
	uint64_t unnamed;       /* lookups that ended without a name */
	uint64_t failures;      /* files that could not be read, or are no programs */
	uint64_t mismatches;    /* files whose build id is not the one that was mapped */
	uint64_t dropped;       /* symbols that did not fit a table */
	uint64_t debug_refused; /* debug files that cannot be read, or of another build */
};

struct symbols *symbols_new(size_t max_bytes); /* 20 MB in ordinary use */
void symbols_free(struct symbols *s);

/* A dense id, from 1. The caller adds each file once. Nothing is read yet. */
uint32_t symbols_add_file(struct symbols *s, const struct symbols_file *f);

/* Our own vdso, which all processes share, as "[vdso]"; offsets are offsets in its image. */
uint32_t symbols_add_vdso(struct symbols *s);

/* 0, or -errno of what is wrong with the file. */
int symbols_module(struct symbols *s, uint32_t file, struct symbols_module *ret);

/*
 * Names an offset in a file (ip - map.start + map.pgoff). *ret is always set: 0 when named;
 * -ENOENT otherwise, with a name like "[libfoo.so+0x1234]". ret->name is valid until the next call.
 */
int symbols_find(struct symbols *s, uint32_t file, uint64_t offset, struct symbol *ret);

void symbols_stats(const struct symbols *s, struct symbols_stats *ret);
