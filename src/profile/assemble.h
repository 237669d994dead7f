/*
 * assemble: samples of addresses become stacks of functions in a profile.
 *
 * It owns what stands between the two: the table of processes, the symbol tables, the kernel's
 * names. Each (file, offset) and each kernel address is resolved once.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "bpf/wire.h"
#include "collect/sideband.h"
#include "profile/profile.h"

struct assembler;

struct assembler_options {
	size_t symbol_bytes; /* cap of the symbol tables; 0: 20 MB */
};

/* The profile is borrowed and outlives the assembler. */
struct assembler *assembler_new(struct profile *p, const struct assembler_options *o);
void assembler_free(struct assembler *a);

/* In order of time, as collect/stream hands them out. */
void assembler_sample(struct assembler *a, const struct wire_sample *s, const uint64_t *frames);
void assembler_event(struct assembler *a, const struct sideband_event *e);

/* After each drain. `sideband_lost` is the running total: when it grows, mappings are read anew. */
void assembler_settle(struct assembler *a, uint64_t sideband_lost);

struct assembler_stats {
	uint64_t samples;
	uint64_t user_frames, user_unnamed;     /* frames of all samples, and those without a name */
	uint64_t kernel_frames, kernel_unnamed;
	uint64_t strays;       /* walks that ended at an address where nothing is mapped */
	int kernel_error;      /* 0, or why the kernel's names could not be read: -EPERM, … */
	uint64_t maps_read;    /* of /proc/PID/maps */
	uint64_t symbol_bytes; /* held by symbol tables now */
};

void assembler_stats(const struct assembler *a, struct assembler_stats *ret);
