/*
 * scrape_target: one profile of one program that is scraped: where it is, what its labels are, and
 * how it went the last time.
 *
 * As Parca does, each profile of a target is one: it has the labels of the target, job and
 * instance, and while relabel_configs are applied __address__, __scheme__, __param_NAME,
 * __profile_path__ and __name__ (of the profile), too.
 */
#pragma once

#include "ingest/growth.h"
#include "serve/scrape_config.h"

#define SCRAPE_ERROR 320

enum scrape_health { SCRAPE_UNKNOWN, SCRAPE_UP, SCRAPE_DOWN };

struct scrape_target {
	const struct scrape_job *job;         /* borrowed */
	const struct scrape_profile *profile; /* borrowed */
	char *url;
	char *connect_to; /* where it really is; NULL: where the URL says */
	char *name;       /* of the profile: "memory" */
	struct pushed_labels labels;
	uint64_t key; /* a hash of what it is */

	uint64_t due_ms;          /* CLOCK_MONOTONIC */
	bool is_running, is_gone; /* gone: nobody says any more that it is there */
	bool is_slow;             /* it took all of its time when it was last asked */

	enum scrape_health health;
	char error[SCRAPE_ERROR];   /* why it is down; or "" */
	const char *reason;         /* the same in a word; NULL: it is not down */
	uint64_t began_ms, took_ms; /* of the last time; since 1970; 0: never */
	uint64_t times, failures, late, restarts, bytes;

	struct growth *growth; /* what it had the last time that all went well; NULL: not known */
	uint64_t read_ms;      /* when that was */
};

/* 0; -ENOENT: relabel_configs drop it; -EINVAL with *ret_err. */
int scrape_target_new(const struct scrape_job *job, const struct scrape_profile *profile,
		      const struct found_target *found, struct scrape_target **ret,
		      struct found_error *ret_err);
void scrape_target_free(struct scrape_target *t); /* NULL is fine */

/* "job" or "instance"; "" if it has none. */
const char *scrape_target_label(const struct scrape_target *t, const char *name);
