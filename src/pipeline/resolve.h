/*
 * resolve: an address of a process, or of the kernel, becomes frames of a profile: the function
 * and, where debug info tells, the calls that were inlined there.
 *
 * Each (file, offset) and each kernel address is looked up once, but for those of kernel modules
 * and BPF programs, which are looked up again after a module or BPF program was loaded or unloaded.
 * An address in a module that was unloaded before its lookup has no name, rather than the name of
 * whatever is there now. Symbol tables and debug info are shared by all processes and stay under a
 * cap of bytes each.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "bpf/wire.h"
#include "collect/module_watch.h"
#include "process/process.h"
#include "profile/profile.h"
#include "symbol/debug_lines.h"
#include "symbol/perfmap.h"
#include "symbol/symbols.h"

#define RESOLVE_MAX DEBUG_LINES_DEPTH /* frames of one address */

struct resolver;

struct resolver_options {
	size_t symbol_bytes; /* cap of the symbol tables; 0: 20 MB */
	size_t lines_bytes;  /* cap of debug info; 0: 256 MB */
	bool inlines;        /* inlined calls as frames of their own */
	bool lines;          /* source files and lines */
	bool functions; /* frames are functions, without addresses, unless detail is asked for */
	/* When kernel modules last changed, as module_watch_changed_ns() says of `modules`; NULL:
	 * nobody knows, so modules and BPF programs have no names. */
	uint64_t (*modules_changed_ns)(const struct module_watch *modules);
	const struct module_watch *modules;
	const char *kallsyms; /* where the kernel's names are; NULL: as kallsyms_load() says */
};

/* Both are borrowed and outlive the resolver. */
struct resolver *resolver_new(struct profile *p, struct processes *ps,
			      const struct resolver_options *o);
void resolver_free(struct resolver *r);

/* Where a frame is. In a file, its functions are the same in every process. */
struct frame_location {
	uint32_t file;                 /* of struct mapped_files, or one of those below */
	uint64_t offset;               /* in the file, else the address */
	const struct mapping *mapping; /* NULL: the kernel's, or nothing is mapped there */
	uint32_t cookie;               /* the frame's: 0 for addresses */
};

#define LOCATION_KERNEL  0u
#define LOCATION_NOWHERE (RESOLVE_FILES - 1) /* no frame */
#define LOCATION_VDSO    (RESOLVE_FILES - 2)
#define LOCATION_MEMORY                                                                            \
	(RESOLVE_FILES - 3) /* not of a file: its frames depend on the process, too */
#define RESOLVE_FILES (1u << 30)

/*
 * Where a frame is, by its kind. `maps`: what the process had mapped at the time, and keeps while
 * the location is in use; NULL, as `p` is, where there are no frames but the kernel's.
 */
struct frame_location resolve_location(struct resolver *r, struct process *p,
				       const struct maps *maps, const struct wire_frame *f);

/*
 * The frames at a location. `p`: NULL for the kernel's. `time`: of the sample. `detail`: with
 * inlined calls and lines, where the options have them. Returns how many frames there are,
 * innermost first: inlined calls, then the function itself. *ret_lasting becomes false if the
 * answer may be another one next time, with the same mappings and the same resolver_version().
 */
size_t resolve_frames(struct resolver *r, struct process *p, const struct frame_location *at,
		      uint64_t time, bool detail, bool *ret_lasting,
		      uint32_t ret[static RESOLVE_MAX]);

/* Changes when a program has named more of the code that it made itself (a perf map); else the same
 * for ever. */
uint64_t resolver_version(const struct process *p);

/* Code of the kernel's came or went there: what was known of it is asked for again. */
void resolver_kernel_changed(struct resolver *r, uint64_t start, uint64_t end);

/* A number that changes whenever kernel names may have changed; 0 for samples taken before the last
 * change. */
uint32_t resolver_kernel_version(struct resolver *r, uint64_t time);

struct resolver_count { /* frames of all samples, and those without a name */
	uint64_t frames, unnamed;
};

struct resolver_count resolver_count(const struct resolver *r);

/* Counts frames that were resolved before and are not asked for again. */
void resolver_repeat(struct resolver *r, uint64_t frames, uint64_t unnamed);

struct resolver_stats {
	struct resolver_count count;
	int kernel_error;      /* 0, or why the kernel's names could not be read: -EPERM, … */
	uint64_t symbol_bytes; /* held by symbol tables now */
	uint64_t places;       /* addresses whose frames are known, now */
	struct debug_lines_stats lines;
	struct symbols_stats symbols;
	struct perfmap_stats maps; /* of all processes there were */
};

void resolver_stats(const struct resolver *r, struct resolver_stats *ret);
