/*
 * scrape: fetches the profiles that programs expose, and stores them (inbox.h).
 *
 * All state is in the loop. Downloads are on a thread of their own (fetcher.h), and what they
 * bring is read by a job on another, one after the other, so that no target holds up queries or
 * another one: a download has a time, a size, and a share of the memory; at most SCRAPE_AT_ONCE are
 * under way, half of which are open to those that took all of their time before. A profile of a
 * target is asked for again only after its answer before is done with.
 *
 * Which targets there are is looked up anew every few seconds (files) or every `refresh_interval`
 * (URLs), on the same two threads; where that fails, those that were known stay.
 */
#pragma once

#include "base/loop.h"
#include "serve/inbox.h"
#include "serve/scrape_config.h"
#include "serve/scrape_target.h"

#define SCRAPE_TARGETS_MAX 4096u /* profiles of targets */
#define SCRAPE_AT_ONCE     400u
#define SCRAPE_BYTES_MAX   (16u << 20) /* of an answer, as it comes */
#define SCRAPE_MEMORY_MAX  (48u << 20) /* of all of them, until they are read */
#define SCRAPE_GROWTH_MAX  (64u << 20) /* of what is known of sums (growth.h), in all */

struct scraper;

/* `config` is borrowed. NULL after saying why not. */
struct scraper *scraper_new(struct loop *l, struct store *store,
			    const struct scrape_config *config);
void scraper_free(struct scraper *s); /* NULL is fine */

struct scraper_stats {
	struct inbox_stats inbox;
	uint32_t targets, up, down;
	uint64_t dropped;  /* by relabel_configs, now */
	uint64_t left_out; /* for lack of room, or because they are no targets, now */
	uint64_t late; /* times that the answer before was not done with, or that there was no room
			*/
	uint64_t restarts; /* times that a program's sums had begun anew */
	uint64_t unknown;  /* sums that are not compared, as growth_bytes is at its limit */
	uint64_t growth_bytes;
	uint64_t sources_failed; /* times that a file or URL did not tell its targets */
};

void scraper_stats(const struct scraper *s, struct scraper_stats *ret);

/* Borrowed until the loop goes on. NULL: there are no more. */
const struct scrape_target *scraper_target(const struct scraper *s, size_t i);

struct scraper_source { /* of the i-th one of all jobs */
	const struct scrape_job *job;
	const struct scrape_source *source;
	size_t targets;
	const char *error; /* why those are the ones of before; "" */
};
bool scraper_source(const struct scraper *s, size_t i, struct scraper_source *ret);
