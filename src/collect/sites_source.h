/*
 * sites_source: the source of bpf/sites.bpf.c: how long threads are off their CPU, always on.
 * bpf/sites_wire.h says what its maps hold and its events mean.
 */
#pragma once

#include "bpf/sites_wire.h"
#include "collect/source.h"

extern const struct source_kind sites_source;

/* How often sites are walked again: once in 2^shift periods. */
void sites_source_set_shift(struct source *s, unsigned shift);

/* Stops walking new sites (hold), for when too many appear. */
void sites_source_hold(struct source *s, bool hold);

/* Whether new sites are not walked: held, or the table is full. */
bool sites_source_is_full(struct source *s);

/*
 * Reads sites, then threads, those that have ended as well. Time moved from a thread to a site in
 * between is missed now and reported next time, never counted twice. `back`: since when the thread
 * has been on a CPU; 0: it is not. 0 or -errno.
 */
struct sites_reader {
	void (*site)(void *ctx, const struct site_key *key, const struct site_value *s);
	void (*thread)(void *ctx, uint32_t place, const struct site_thread *t, uint64_t back);
	void *ctx;
};

int sites_source_read(struct source *s, const struct sites_reader *r);

/* How many periods have ended, ever. */
uint64_t sites_source_taken(struct source *s);

/* Whether a thread waits since before `since_ns` (CLOCK_MONOTONIC) and no walk has its stack. */
bool sites_source_waits_unknown(struct source *s, uint64_t since_ns);

/*
 * Threads that wait now and have no site, or are not known yet: each is handed over as an event
 * with a copy of its user stack, borrowed for the call. 0 or -errno.
 */
int sites_source_found(struct source *s, event_fn *fn, void *ctx);

/* Forgets a site; and a thread that has ended, by its place. */
void sites_source_remove_site(struct source *s, const struct site_key *key);
void sites_source_remove_thread(struct source *s, uint32_t place);
