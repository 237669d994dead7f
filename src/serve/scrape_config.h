/*
 * scrape_config: what is to be scraped, as scrape_configs in the configuration say it
 * (cli/scrape_yaml.h reads them).
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "profile/relabel.h"
#include "serve/found_targets.h"

#define SCRAPE_JOBS_MAX     256
#define SCRAPE_PROFILES_MAX 32 /* of a job */
#define SCRAPE_INTERVAL_S   10
#define SCRAPE_LONGEST_S    300
#define SCRAPE_REFRESH_S    60

struct scrape_text { /* NAME=VALUE */
	char *name, *value;
};

struct scrape_access { /* how to get in; NULL: not given. Files are read again each time. */
	char *user, *password, *password_file;
	char *bearer, *bearer_file;
	char *ca_file, *cert_file, *key_file, *server_name;
	bool unverified, stay;
};

struct scrape_profile { /* a line of pprof_config */
	char *name;     /* "memory", "process_cpu" */
	char *path;     /* "/debug/pprof/allocs" */
	char *keep;     /* ",inuse_space:bytes,…,": its only sample types; NULL: all */
	bool off;       /* it is not asked for */
	bool delta;     /* it is asked for the difference over the interval */
	bool has_delta; /* so it was said */
};

enum scrape_source_kind { SCRAPE_STATIC, SCRAPE_FILE, SCRAPE_HTTP };

struct scrape_source { /* says which targets there are */
	enum scrape_source_kind kind;
	struct found_targets targets; /* of a static one */
	char **files;                 /* patterns; NULL at the end */
	char *url;
	uint64_t refresh_ms;
	struct scrape_access access; /* of the URL */
};

struct scrape_job {
	char *name, *scheme, *path_prefix; /* NULL: none */
	uint64_t interval_ms, timeout_ms;
	struct scrape_text *params;
	size_t param_count;
	struct scrape_access access;
	struct relabel *relabel; /* NULL: none */
	struct scrape_profile profiles[SCRAPE_PROFILES_MAX];
	size_t profile_count;
	struct scrape_source *sources;
	size_t source_count;
};

struct scrape_config {
	struct scrape_job *jobs;
	size_t job_count;
};

struct scrape_config *scrape_config_new(void);
void scrape_config_free(struct scrape_config *c); /* NULL is fine */

/* Those that a Go program has, which a job asks for unless it says otherwise. */
void scrape_job_defaults(struct scrape_job *j);
/* The one of that name, which is added if it is not there; NULL: there are too many. */
struct scrape_profile *scrape_job_profile(struct scrape_job *j, const char *name);

void scrape_access_done(struct scrape_access *a);

/* How long a profile with `delta` takes: as long as the interval, if the timeout allows that. */
uint64_t scrape_job_seconds(const struct scrape_job *j);
