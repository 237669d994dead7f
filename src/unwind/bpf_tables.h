/*
 * tables: unwind tables where the BPF walk reads them.
 *
 * A file's table (see unwind_table.h) is copied into the shared arrays of bpf/unwind.h and named by
 * a slot. Memory is taken from the kernel a shard (512 KB) at a time and stays under a cap. What is
 * dropped is not written again before bpf_tables_grace(), so a walk that is under way never reads a
 * table that turns into another.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "bpf/unwind.h"
#include "collect/sampler.h"
#include "unwind/unwind_table.h"

struct bpf_tables;

/* max_bytes: of all that the BPF side holds for walks; there is always room for one shard. */
int bpf_tables_new(const struct sampler_maps *maps, size_t max_bytes, struct bpf_tables **ret);
void bpf_tables_free(struct bpf_tables *t);

/* Rules come before the tables whose rows name them. */
void bpf_tables_put_rules(struct bpf_tables *t, uint32_t first, const struct unwind_rule *rules,
			  uint32_t count);

/*
 * 0 with a slot from 1 on; -ENOSPC when it does not fit as things are, -EFBIG when it never will.
 * The table can go then.
 */
int bpf_tables_put(struct bpf_tables *t, const struct unwind_table *table, uint32_t *ret_slot);

/* How many rows there can be, and how many more. */
uint32_t bpf_tables_rows_max(const struct bpf_tables *t);
uint32_t bpf_tables_rows_free(const struct bpf_tables *t);

/* No mapping names the slot any more: its place is free after the next grace period. */
void bpf_tables_drop(struct bpf_tables *t, uint32_t slot);

/* The rule at a virtual address of the file of a slot; the same search as the BPF side's. */
const struct unwind_rule *bpf_tables_find(const struct bpf_tables *t, uint32_t slot,
					  uint64_t vaddr);

/*
 * Runs of the array of mappings, for processes. Written through `ret_run`, which stays valid until
 * bpf_tables_drop_mappings() of the same run; that defers as bpf_tables_drop() does.
 */
int bpf_tables_take_mappings(struct bpf_tables *t, uint32_t count, uint32_t *ret_first,
			     struct unwind_mapping **ret_run);
void bpf_tables_drop_mappings(struct bpf_tables *t, uint32_t first, uint32_t count);

/*
 * Names a process's run of mappings, in place of what was named for its pid before: 0 or -ENOSPC.
 * A walk sees either, or none, but no mixture.
 */
int bpf_tables_set_process(struct bpf_tables *t, const struct unwind_process *p);
void bpf_tables_remove_process(struct bpf_tables *t, uint32_t pid);

/* Waits until no walk that began before is under way, and frees what was dropped; cheap if nothing
 * was. */
void bpf_tables_grace(struct bpf_tables *t);

struct bpf_tables_stats {
	uint64_t bytes; /* of BPF memory for tables, shards and arrays */
	uint64_t rows;  /* in use */
	uint32_t slots;
	uint32_t mappings;
	uint64_t graces;
};

void bpf_tables_stats(const struct bpf_tables *t, struct bpf_tables_stats *ret);
