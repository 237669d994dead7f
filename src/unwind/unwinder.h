/*
 * unwinder: whole user stacks. It decides what the BPF side knows (which files' tables, which
 * processes' mappings), checks what comes back, and walks itself where the BPF side could not.
 *
 * A table is made when a walk first comes to its file, and a process's mappings are installed when
 * it is first sampled; until then its samples bring the top of their stack along and are walked
 * here, after the table is there (-EAGAIN: hold it back until after the next settle).
 *
 * When tables do not fit under the cap, the one that is used least for its size makes room. It is
 * made again when there is room or, after a pause, when it is worth more by then than what would
 * have to go for it; the pause doubles each time, so that two large tables do not push each other
 * out for ever. Meanwhile walks end at its file, and say so.
 *
 * A walk in the kernel goes by the mappings that were installed last. Whether they were still true
 * at the time of the sample is checked frame by frame against what the process had mapped then: a
 * stack is cut where they differ, never guessed. A program that maps libraries where others were is
 * not installed for a while: its samples bring their stacks.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "bpf/wire.h"
#include "process/process.h"
#include "unwind/bpf_tables.h"

struct unwinder;

struct unwinder_options {
	size_t max_bytes;      /* of BPF-side tables; 0: 24 MB */
	const char *cache_dir; /* tables across runs; NULL: none */
};

/* `ps` is borrowed and outlives the unwinder. 0 or -errno. */
int unwinder_new(const struct sampler_maps *maps, struct processes *ps,
		 const struct unwinder_options *o, struct unwinder **ret);
void unwinder_free(struct unwinder *u);

struct unwound { /* addresses inside the call, leaf first */
	uint64_t frames[WIRE_USER_FRAMES];
	unsigned count;
	unsigned left_out; /* behind the first WIRE_LEAF_FRAMES; 0: none */
	enum wire_walk walk;
};

/*
 * The user frames of a sample, given what its process had mapped at that time. 0, or -EAGAIN while
 * a table is being made; with `last` it does without. `user` are the frames that came with it.
 */
int unwinder_walk(struct unwinder *u, struct process *p, struct maps *maps,
		  const struct wire_event *s, const uint64_t *user, bool last,
		  struct unwound *ret);

/* After each drain, when every sample of it was walked or is held back. `now`: CLOCK_MONOTONIC. */
void unwinder_settle(struct unwinder *u, uint64_t now);

/* After the last drain: waits for the tables that are being made, so long at most; returns how many
 * came. */
unsigned unwinder_finish(struct unwinder *u, unsigned wait_ms);

struct unwinder_stats {
	uint64_t walks[WIRE_WALKS];
	uint64_t in_kernel; /* of them, walked by the BPF side alone */
	uint64_t from_copy; /* walked here */
	uint64_t by_frame_pointers;
	uint64_t mistrusted; /* cut because mappings had changed */
	uint64_t tables_made, tables_failed, spaces_full;
	uint64_t tables_evicted; /* for others, or since no walk came by any more … */
	uint64_t tables_put_off; /* … and not made again yet, as others are worth more */
	int cache_error;         /* 0, or why tables are not kept from run to run: -errno */
	struct bpf_tables_stats tables;
};

void unwinder_stats(const struct unwinder *u, struct unwinder_stats *ret);
