/*
 * assemble: samples of addresses become stacks of functions in a profile.
 *
 * It owns what stands between the two: the table of processes, the symbol tables, the kernel's
 * names.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "bpf/wire.h"
#include "collect/sampler.h"
#include "collect/sideband.h"
#include "process/context.h"
#include "process/places.h"
#include "profile/profile.h"
#include "pipeline/resolve.h"
#include "unwind/unwinder.h"

struct assembler;

/* An event whose stack is known, as the sink gets it; all but `stack` borrowed for the call. */
struct assembled {
	const struct wire_event *event;
	struct process *process; /* NULL: a thread of the kernel's, or a process at its end */
	const struct maps *maps; /* what it had mapped then; NULL with that */
	uint32_t stack;
};

typedef void assembler_fn(void *ctx, const struct assembled *a);

struct assembler_options {
	struct resolver_options names;
	assembler_fn *sink; /* NULL: samples are added to the profile, a series a thread */
	void *sink_ctx;
	/* Whether an event's stack is wanted: if not, the sink gets it with none. NULL: always. */
	bool (*wanted)(void *sink_ctx, const struct wire_event *s);
	/* A process was started; NULL: nobody wants to know. */
	void (*started)(void *sink_ctx, uint32_t pid, uint32_t parent);
	/* Whether to look up lines for a process by that name; NULL: for all, if names has lines.
	 */
	bool (*detail)(void *ctx, const char *comm);
	void *detail_ctx;
	size_t table_bytes;              /* cap of the unwind tables; 0: 24 MB */
	size_t held_bytes;               /* cap of stacks that wait for one of them; 0: 8 MB */
	const struct sampler_maps *maps; /* of the walk in BPF */
	struct places *places;           /* samples' groups are looked up as they come; NULL: not */
	const char *cache_dir; /* where unwind tables stay from run to run; NULL: nowhere */
};

/* The profile is borrowed and outlives the assembler. 0 or -errno. */
int assembler_new(struct profile *p, const struct assembler_options *o, struct assembler **ret);
void assembler_free(struct assembler *a);

/* In order of time, as pipeline/stream hands them out. */
void assembler_event(struct assembler *a, const struct wire_event *s);
void assembler_record(struct assembler *a, const struct sideband_record *e);

/* Side-band records were lost: mappings are read anew, and what was sampled before that has no user
 * stack. */
void assembler_lost(struct assembler *a);

/* After each drain. */
void assembler_settle(struct assembler *a, uint64_t now);

/* After the last drain: waits at most `wait_ms` for tables being built; stacks whose table is not
 * ready are walked without it. */
void assembler_finish(struct assembler *a, unsigned wait_ms);

/* The table of processes; borrowed. */
struct processes *assembler_processes(const struct assembler *a);

/*
 * Where the time of a drain goes: measured in some of them only, since reading the clock costs.
 * `drains`: the number of drains that this measurement stands for; 0: discard it, since others had
 * the CPU meanwhile.
 */
void assembler_time(struct assembler *a);
void assembler_time_done(struct assembler *a, uint64_t drains);

enum assembler_stage {
	STAGE_PROCESS,   /* who it was, and what it had mapped */
	STAGE_UNWIND,    /* checking walks, and walking copies of stacks */
	STAGE_SYMBOL,    /* frames of what was not met before, and the stack of them */
	STAGE_AGGREGATE, /* which stack it is, and adding it up */
	STAGES,
};

struct assembler_stats {
	uint64_t stage_ns[STAGES];
	uint64_t events;
	uint64_t held;      /* samples that waited for an unwind table */
	uint64_t given_up;  /* … and were walked without it, as too many did */
	uint64_t late;      /* … that came after their process had changed its mappings: cut */
	uint64_t maps_read; /* of /proc/PID/maps */
	uint64_t processes; /* known now */
	uint64_t files;     /* mapped files seen */
	uint64_t processes_capped, mappings_dropped;
	struct contexts_stats contexts;
	uint64_t spans_left_out; /* samples of a recording, for its cap */
	struct resolver_stats names;
	struct unwinder_stats unwind;
};

void assembler_stats(const struct assembler *a, struct assembler_stats *ret);
