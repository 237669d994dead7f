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
#include "collect/sampler.h"
#include "collect/sideband.h"
#include "profile/profile.h"
#include "profile/resolve.h"
#include "unwind/unwinder.h"

struct assembler;

struct assembler_options {
	struct resolver_options names;
	size_t table_bytes;              /* cap of the unwind tables; 0: 24 MB */
	const struct sampler_maps *maps; /* of the walk in BPF */
	const char *cache_dir; /* where unwind tables stay from run to run; NULL: nowhere */
};

/* The profile is borrowed and outlives the assembler. 0 or -errno. */
int assembler_new(struct profile *p, const struct assembler_options *o, struct assembler **ret);
void assembler_free(struct assembler *a);

/* In order of time, as collect/stream hands them out. */
void assembler_sample(struct assembler *a, const struct wire_sample *s, const uint64_t *frames);
void assembler_event(struct assembler *a, const struct sideband_event *e);

/* After each drain. `sideband_lost` is the running total: when it grows, mappings are read anew. */
void assembler_settle(struct assembler *a, uint64_t sideband_lost, uint64_t now);

/* After the last drain: no sample is held back any longer. */
void assembler_finish(struct assembler *a);

struct assembler_stats {
	uint64_t samples;
	uint64_t held;      /* samples that waited for an unwind table */
	uint64_t maps_read; /* of /proc/PID/maps */
	struct resolver_stats names;
	struct unwinder_stats unwind;
};

void assembler_stats(const struct assembler *a, struct assembler_stats *ret);
