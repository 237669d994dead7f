/*
 * bpf_table: the BPF programs of the kernel as a table for people, or as lines of JSON.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include <jansson.h>

#include "cli/target.h"
#include "collect/bpf_programs.h"
#include "collect/bpf_uses.h"

enum bpf_order {
	BPF_ORDER_CPU,
	BPF_ORDER_AVERAGE,
	BPF_ORDER_RUNS,
	BPF_ORDER_TIME, /* of a run */
	BPF_ORDER_MAPS,
	BPF_ORDER_ID,
	BPF_ORDER_NAME,
	BPF_ORDERS
};

struct bpf_view {
	enum bpf_order order;
	const char *name;                                   /* part of it; NULL: any */
	const char *type;                                   /* NULL: any */
	uint32_t ids[TARGET_IDS_MAX], pids[TARGET_IDS_MAX]; /* of programs, and of their owners */
	unsigned id_count, pid_count;
	unsigned columns, lines; /* of the terminal; 0: no end */
};

/* The table, with a line before it that sums it up. */
void bpf_table_text(const struct bpf_view *v, const struct bpf_programs *p,
		    const struct bpf_uses *u, FILE *out);

/* One line, an object. */
void bpf_table_json(const struct bpf_view *v, const struct bpf_programs *p,
		    const struct bpf_uses *u, double seconds, FILE *out);

/* One program, as in the table's line: caller owns it. */
json_t *bpf_table_row(const struct loaded_program *l, const struct bpf_programs *p,
		      const struct bpf_uses *u);

/* "1234 agent, 77 agent", "2 × perf:cpu-clock"; "-" if there is none. Returns `ret`. */
#define BPF_TABLE_TEXT 512
const char *bpf_table_owners(const struct bpf_uses *u, uint32_t id,
			     char ret[static BPF_TABLE_TEXT]);
const char *bpf_table_places(const struct bpf_uses *u, uint32_t id,
			     char ret[static BPF_TABLE_TEXT]);

/* "▁▂█": its share of a CPU in the last intervals, the newest on the right. */
#define BPF_TABLE_PAST (BPF_PROGRAM_PAST * 3 + 1)
const char *bpf_table_past(const struct loaded_program *l, unsigned intervals,
			   char ret[static BPF_TABLE_PAST]);
