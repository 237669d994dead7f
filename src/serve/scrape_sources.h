/*
 * scrape_sources: who says which targets there are: the configuration, files, URLs. Files are
 * looked at every few seconds, and URLs asked every `refresh_interval`; what does not answer, or
 * not with a list of targets, leaves those that were known.
 */
#pragma once

#include "serve/fetcher.h"
#include "serve/jobs.h"
#include "serve/scrape_config.h"

struct scrape_sources;

/* Called in the loop when what a source says has changed. */
typedef void scrape_sources_fn(void *ctx);

struct scrape_sources *scrape_sources_new(const struct scrape_config *c, struct fetcher *f,
					  struct jobs *jobs, scrape_sources_fn *fn, void *ctx);
void scrape_sources_free(
	struct scrape_sources *s); /* after the fetcher and the jobs have stopped */

/* Asks those whose time has come; to be called a few times a second. */
void scrape_sources_tick(struct scrape_sources *s, uint64_t now_ms);

struct scrape_known { /* what one source says; borrowed until the loop goes on */
	const struct scrape_job *job;
	const struct scrape_source *source;
	const struct found_targets *targets;
	char error[256]; /* why these are the ones of before; "" */
};

size_t scrape_sources_count(const struct scrape_sources *s);
const struct scrape_known *scrape_sources_at(const struct scrape_sources *s, size_t i);
uint64_t scrape_sources_failed(const struct scrape_sources *s);
