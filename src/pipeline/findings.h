/*
 * findings: notices by itself what is wrong on a machine (finding_rules.h), at next to no cost.
 *
 * Every LOOK_MS it looks at what the CPU's samples say of each process. Most rules only suspect
 * from that; a suspect is then watched closely, alone and for a second (collect/closeup.h), and is
 * found or not. One closeup at a time, at most CLOSEUPS_A_MINUTE of them; a suspect that nothing
 * was found of is left alone for a minute, then for two, up to a quarter of an hour. Nothing else
 * is traced.
 *
 * A finding lasts as long as its process is suspected of it.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "collect/cgroup.h"
#include "pipeline/assemble.h"
#include "profile/profile.h"
#include "profile/window.h"

#define LOOK_MS           5000
#define CLOSEUPS_A_MINUTE 10

struct findings;

struct findings_options { /* all borrowed */
	const struct profile *dict;
	struct places *places; /* NULL: none */
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

/* A message of what there is to tell now (window_done() frees it); false: nothing. */
bool findings_take(struct findings *f, uint64_t wall_ms, struct window *ret);

struct findings_stats {
	uint64_t looks, suspects, closeups, found;
	uint64_t no_closeup; /* that could not begin */
	uint64_t left_out;   /* samples, beyond what a look has room for */
	uint64_t dropped;    /* findings beyond FINDINGS_MAX */
};

void findings_stats(const struct findings *f, struct findings_stats *ret);

const char *findings_kind(unsigned i);                          /* NULL: there are no more */
unsigned findings_active(const struct findings *f, unsigned i); /* of that kind */
