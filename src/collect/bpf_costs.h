/*
 * bpf_costs: what the BPF programs of all others cost, for a collector, which may not ask.
 *
 * The kernel times their runs only for CAP_SYS_ADMIN, which a collector gives up. So a process is
 * split off from it before: one that keeps nothing but that capability, has no files, and can make
 * only the calls that this takes (privilege_only_bpf_costs()). All that it is ever told is "look".
 * Then it has the kernel count for BPF_COSTS_MS, and answers with the programs that took most. It
 * refuses to look more often than every BPF_COSTS_REST_MS, whoever asks. Between looks it sleeps,
 * and the kernel counts nothing. It ends with its collector.
 */
#pragma once

#include <stdint.h>

#include "collect/bpf_programs.h"

#define BPF_COSTS_MS      1000
#define BPF_COSTS_REST_MS 20000
#define BPF_COSTS_MAX     16 /* the dearest; others are left out */

struct bpf_cost {
	uint32_t id;
	double share;  /* of a CPU: 0.01 is a percent */
	double rate;   /* runs a second */
	double run_ns; /* how long one takes */
	char tag[17];
	char name[BPF_PROGRAM_NAME];
};

struct bpf_costs;

/* 0, or -errno: -EPERM without the capability. */
int bpf_costs_new(struct bpf_costs **ret);
void bpf_costs_free(struct bpf_costs *c); /* NULL is fine */

int bpf_costs_ask(struct bpf_costs *c); /* 0, or -errno */

/* -EAGAIN: not yet; -ECONNRESET: the process has ended; else what it says: 0 or -errno. */
int bpf_costs_answer(struct bpf_costs *c, struct bpf_cost ret[static BPF_COSTS_MAX],
		     unsigned *ret_count);
