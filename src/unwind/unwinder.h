/*
 * unwinder: complete user stacks. It decides which files' unwind tables and which processes'
 * mappings the BPF walk has, checks what the BPF walk found, and walks in user space what the BPF
 * walk could not.
 *
 * A table is built when a walk first reaches its file, and a process's mappings are installed when
 * it is first sampled. Until then its samples come with a copy of the top of their stack and are
 * walked here once the table is built (-EAGAIN: hold the sample until after the next settle).
 *
 * When tables do not fit under the cap, the least used for its size is evicted. It is built again
 * when there is room, or, after a pause, if by then it is used more than the tables that would have
 * to go for it. The pause doubles each time, so that two large tables do not keep evicting each
 * other. Meanwhile walks end at its file, and say so.
 *
 * A walk in the kernel goes by the mappings that were installed last. Whether they were still right
 * when the sample was taken is checked frame by frame against what the process had mapped then: a
 * stack is cut where they differ, never guessed. A process that maps libraries over others is not
 * installed for a while: its samples come with a copy of their stack.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "bpf/wire.h"
#include "process/process.h"
#include "unwind/bpf_tables.h"

struct unwinder;

struct unwinder_options {
	size_t max_bytes;      /* of BPF memory for tables; 0: 24 MB */
	const char *cache_dir; /* keeps tables between runs; NULL: nowhere */
};

/* `ps` is borrowed and outlives the unwinder. 0 or -errno. */
int unwinder_new(const struct sampler_maps *maps, struct processes *ps,
		 const struct unwinder_options *o, struct unwinder **ret);
void unwinder_free(struct unwinder *u);

struct unwound { /* addresses (of callers: inside the call), leaf first */
	uint64_t frames[WIRE_USER_FRAMES];
	unsigned count;
	unsigned left_out; /* frames left out after the first WIRE_LEAF_FRAMES */
	enum wire_walk walk;
};

/*
 * The user frames of a sample. `maps` is what its process had mapped when it was taken, `user` the
 * frames that came with it. 0, or -EAGAIN while a table is being built; with `last` set, it does
 * without that table.
 */
int unwinder_walk(struct unwinder *u, struct process *p, struct maps *maps,
		  const struct wire_event *s, const uint64_t *user, bool last, struct unwound *ret);

/* Where threads of a process say what they work on, for the BPF walk; entry_bytes 0: nowhere. */
void unwinder_context(struct unwinder *u, struct process *p, const struct unwind_context *c);

/* Call after each drain, when each of its samples was walked or is held. `now`: CLOCK_MONOTONIC. */
void unwinder_settle(struct unwinder *u, uint64_t now);

/* Call after the last drain: waits for the tables being built, at most `wait_ms`; returns how many
 * were finished. */
unsigned unwinder_finish(struct unwinder *u, unsigned wait_ms);

struct unwinder_stats {
	uint64_t walks[WIRE_WALKS];
	uint64_t in_kernel; /* … by the BPF program */
	uint64_t from_copy; /* … here, from a copied stack */
	uint64_t by_frame_pointers;
	uint64_t mistrusted; /* stacks cut because mappings had changed */
	uint64_t tables_made, tables_failed, spaces_full;
	uint64_t tables_evicted; /* to make room, or because they were unused … */
	uint64_t tables_put_off; /* … and not built again yet: others are used more */
	int cache_error;         /* 0, or -errno: why tables are not kept between runs */
	struct bpf_tables_stats tables;
};

void unwinder_stats(const struct unwinder *u, struct unwinder_stats *ret);
