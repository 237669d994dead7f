/*
 * bpf_tables: the unwind tables and mappings in the memory that the BPF walk reads.
 *
 * A file's table (unwind_table.h) is copied into the shared arrays of bpf/unwind.h and gets a slot.
 * Memory is allocated from the kernel one shard (512 KB) at a time and stays under a cap. What is
 * dropped is not overwritten before bpf_tables_grace(), so that a walk in progress never sees a
 * table turn into another.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "bpf/unwind.h"
#include "collect/sampler.h"
#include "unwind/unwind_table.h"

struct bpf_tables;

/* max_bytes: of all arrays for walks together; there is always room for one shard. 0 or -ENOMEM. */
int bpf_tables_new(const struct sampler_maps *maps, size_t max_bytes, struct bpf_tables **ret);
void bpf_tables_free(struct bpf_tables *t);

/* Rules are put before the tables whose rows refer to them. */
void bpf_tables_put_rules(struct bpf_tables *t, uint32_t first, const struct unwind_rule *rules,
			  uint32_t count);

/*
 * Copies a table; the caller may free it then. 0 with a slot, from 1 on; -ENOSPC: no room now;
 * -EFBIG: larger than all the room there is.
 */
int bpf_tables_put(struct bpf_tables *t, const struct unwind_table *table, uint32_t *ret_slot);

/* How many rows fit in total, and how many more. */
uint32_t bpf_tables_rows_max(const struct bpf_tables *t);
uint32_t bpf_tables_rows_free(const struct bpf_tables *t);

/* No mapping refers to the slot any more: it is freed after the next grace period. */
void bpf_tables_drop(struct bpf_tables *t, uint32_t slot);

/* The rule at a virtual address of a slot's file, found as the BPF walk finds it. */
const struct unwind_rule *bpf_tables_find(const struct bpf_tables *t, uint32_t slot,
					  uint64_t vaddr);

/*
 * Allocates `count` entries of the array of mappings for a process, to be written through
 * `ret_run`, and frees them after the next grace period. 0 or -ENOSPC.
 */
int bpf_tables_take_mappings(struct bpf_tables *t, uint32_t count, uint32_t *ret_first,
			     struct unwind_mapping **ret_run);
void bpf_tables_drop_mappings(struct bpf_tables *t, uint32_t first, uint32_t count);

/* The same for where threads say what they work on. 0 with an index, from 1 on, or -ENOSPC. */
int bpf_tables_take_context(struct bpf_tables *t, const struct unwind_context *c,
			    uint32_t *ret_index);
void bpf_tables_drop_context(struct bpf_tables *t, uint32_t index);

/*
 * Sets which mappings a process has, replacing the previous ones of its pid: 0 or -ENOSPC. A walk
 * sees the old, the new, or no mappings, but never a mixture.
 */
int bpf_tables_set_process(struct bpf_tables *t, const struct unwind_process *p);
void bpf_tables_remove_process(struct bpf_tables *t, uint32_t pid);

/* Waits for the walks that are in progress to end, then frees what was dropped. Does nothing if
 * nothing was dropped. */
void bpf_tables_grace(struct bpf_tables *t);

struct bpf_tables_stats {
	uint64_t bytes; /* of BPF memory */
	uint64_t rows;  /* in use */
	uint32_t slots;
	uint32_t mappings;
	uint64_t graces; /* grace periods that were waited for */
};

void bpf_tables_stats(const struct bpf_tables *t, struct bpf_tables_stats *ret);
