/*
 * findings: notices by itself what is wrong on a machine (finding_rules.h), at next to no cost.
 *
 * Every LOOK_MS it looks at what the CPU's samples say of each process. Most rules only suspect
 * from that; a suspect is then watched closely, alone and for a second (collect/closeup.h), and is
 * found or not. Meanwhile system calls cost more, those of the suspect and, somewhat less, all
 * others. So it lasts only CLOSEUP_CUT_MS if the suspect makes more than CLOSEUP_RATE a second, or
 * CLOSEUP_ENOUGH in that time and rates are all that is asked.
 * One closeup at a time, at most CLOSEUPS_A_MINUTE of them; a suspect that nothing
 * was found of is left alone for a minute, then for two, up to a quarter of an hour. Nothing else
 * is traced. What BPF programs cost, which samples do not always see, is looked at for a second
 * every BPF_LOOK_MS, sooner when samples show some; never while a closeup's own programs run.
 *
 * A finding lasts as long as its process is suspected of it.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "collect/bpf_costs.h"
#include "collect/cgroup.h"
#include "pipeline/assemble.h"
#include "profile/profile.h"
#include "profile/window.h"

#define LOOK_MS           5000
#define CLOSEUPS_A_MINUTE 10
#define CLOSEUP_CUT_MS    30
#define CLOSEUP_RATE      100000
#define CLOSEUP_ENOUGH    1000
#define BPF_LOOK_MS       120000

struct findings;

struct findings_options { /* all borrowed */
	const struct profile *dict;
	struct places *places;   /* NULL: none */
	struct bpf_costs *costs; /* NULL: what BPF programs cost is not looked at */
	const char *host;
};

/*
 * Before privileges are dropped. If closeups are not possible here, *ret_err says why (else its
 * `doing` is NULL), and only what needs none is found.
 */
struct findings *findings_new(const struct findings_options *o, struct sampler_error *ret_err);
void findings_free(struct findings *f); /* NULL is fine */

/* An event of the CPU's clock. */
void findings_sample(struct findings *f, const struct assembled *a);

/* It started a process. */
void findings_started(struct findings *f, uint32_t parent);

/* After each drain: looks, begins and ends closeups, as they are due. CLOCK_MONOTONIC. */
void findings_tick(struct findings *f, uint64_t now_ns);

/* In how many milliseconds it wants to be called next, once after that; 0: whenever. */
unsigned findings_soon(struct findings *f);

/* A message of what there is to tell now (window_done() frees it); false: nothing. */
bool findings_take(struct findings *f, uint64_t wall_ms, struct window *ret);

struct findings_stats {
	uint64_t looks, suspects, closeups, found;
	uint64_t no_closeup; /* that could not begin */
	uint64_t bpf_looks;
	uint64_t left_out; /* samples, beyond what a look has room for */
	uint64_t dropped;  /* findings beyond FINDINGS_MAX */
};

void findings_stats(const struct findings *f, struct findings_stats *ret);

const char *findings_kind(unsigned i);                          /* NULL: there are no more */
unsigned findings_active(const struct findings *f, unsigned i); /* of that kind */
