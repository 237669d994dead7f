/*
 * bpf_look: what BPF programs cost, as of the last time that it was looked at
 * (collect/bpf_costs.h), and who has those open that cost too much.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "collect/bpf_costs.h"
#include "collect/bpf_uses.h"
#include "pipeline/look.h"

struct bpf_look { /* zero-initialised: it is not possible here */
	struct bpf_costs *costs;
	bool is_asked; /* and has not been answered */
	uint64_t asked_ns, next_ns;
	struct bpf_cost programs[BPF_COSTS_MAX];
	struct look_process owners[BPF_COSTS_MAX]; /* of each; no name: not known */
	unsigned count;
	struct bpf_uses uses; /* as of the last answer, once somebody asked */
	bool has_uses;
};

void bpf_look_begin(struct bpf_look *b, struct bpf_costs *costs, uint64_t now_ns); /* borrowed */
void bpf_look_done(struct bpf_look *b);

/* Asks; and whether it was answered. From then on it is not possible if that failed. */
void bpf_look_ask(struct bpf_look *b, uint64_t now_ns);
bool bpf_look_answered(struct bpf_look *b);

/* Finds the owner of one, which takes a look at all descriptors of the machine. */
void bpf_look_find_owner(struct bpf_look *b, unsigned i);
