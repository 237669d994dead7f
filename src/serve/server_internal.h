/*
 * server_internal: what the files of the server share: its state and its routes.
 */
#pragma once

#include "serve/debuginfod.h"
#include "serve/exposition.h"
#include "serve/http.h"
#include "serve/inbox.h"
#include "serve/jobs.h"
#include "serve/receiver.h"
#include "serve/scrape.h"
#include "serve/server.h"
#include "serve/token.h"
#include "symbol/stored_names.h"

struct server {
	struct loop *loop;
	struct store *store; /* the writer's handle, for this thread only */
	char *store_place;
	struct receiver *receiver;
	struct jobs *jobs;
	struct packages *packages; /* for the hint of an answer; used by jobs */
	struct debug_cache *debug_files;
	struct debuginfod *debuginfod; /* NULL: nobody is asked */
	struct stored_names *names;    /* used by jobs */
	struct http *http;
	struct store_options store_options;
	uint64_t deadline_ms;
	uint64_t started_ms;     /* since 1970 */
	struct kubelet *kubelet; /* NULL: none is asked */
	int windows_fd;          /* -1: none, or it has ended */
	int maintain_fd;         /* readable: there is more maintenance to do */
	bool maintaining;        /* there was */
	uint8_t *message;        /* room for one */
	struct live_profiles *live_profiles;
	struct cost *cost;
	struct version_watch *version_watch;
	struct rules *rules; /* NULL: none */
	bool has_tls;
	struct pushes *pushes;
	struct scraper *scraper; /* NULL: nothing is scraped */
	struct grafana_settings *grafana_settings;
	struct token *token; /* NULL: none */
	struct access *access;
};

extern const struct http_route server_routes[];

/* api.c: queries of the store */
void api_query(void *ctx, struct http_request *r);
void api_diff(void *ctx, struct http_request *r);
void api_types(void *ctx, struct http_request *r);
void api_labels(void *ctx, struct http_request *r);
void api_values(void *ctx, struct http_request *r);
void api_series(void *ctx, struct http_request *r);
void api_heatmap(void *ctx, struct http_request *r);
void api_findings(void *ctx, struct http_request *r);

/* changes_api.c: what changed between two ranges */
void changes_api(void *ctx, struct http_request *r);

/*
 * push.c: what programs push. A profile is read by a job and stored in the loop, all of it or, with
 * a sentence that says why, nothing.
 */
#define PUSH_BODY_MAX (16u << 20)
struct pushes *pushes_new(struct server *s);
void pushes_free(struct pushes *p); /* answers those who wait */
void push_pprof(void *ctx, struct http_request *r);
void push_pyroscope(void *ctx, struct http_request *r);
void push_connect(void *ctx, struct http_request *r);
void push_otlp(void *ctx, struct http_request *r);

void push_stats(const struct pushes *p, struct inbox_stats *ret);

/* targets_api.c: what is scraped, and how it goes */
void targets_json(void *ctx, struct http_request *r);
void targets_metrics(struct exposition *e, const struct scraper *s);

/* querier.c, pyroscope_render.c: what Grafana asks for */
void querier_call(void *ctx, struct http_request *r);
void pyroscope_render(void *ctx, struct http_request *r);
void pyroscope_render_diff(void *ctx, struct http_request *r);
void pyroscope_label_values(void *ctx, struct http_request *r);

/* grafana_settings.c: what Grafana keeps here */
struct grafana_settings *grafana_settings_new(const char *dir);
void grafana_settings_free(struct grafana_settings *g);
void grafana_settings_get(void *ctx, struct http_request *r);
void grafana_settings_set(void *ctx, struct http_request *r);

/* page.c: the web page */
void page_index(void *ctx, struct http_request *r);
void page_asset(void *ctx, struct http_request *r);

/* live_profile.c: /debug/pprof/ as a Go program has it, for any process */
struct live_profiles *live_profiles_new(struct server *s);
void live_profiles_free(
	struct live_profiles *p); /* answers those who wait; to be called before jobs_free() */
void live_profile_index(void *ctx, struct http_request *r);
void live_profile_take(void *ctx, struct http_request *r);
void live_profile_block(void *ctx, struct http_request *r);
void live_profile_cmdline(void *ctx, struct http_request *r);
void live_profile_symbol(void *ctx, struct http_request *r);

/* login.c: access control. Pages without scripts share its style sheet, and load nothing else. */
bool login_guard(void *ctx, struct http_request *r);
void login_form(void *ctx, struct http_request *r);
void login_post(void *ctx, struct http_request *r);
#define PLAIN_CSP                                                                                  \
	"default-src 'none'; style-src 'self'; form-action 'self'; base-uri 'none'; "              \
	"frame-ancestors 'none'"
void login_css(void *ctx, struct http_request *r);

/* cost.c: what smolder itself costs */
struct cost *cost_new(struct server *s);
void cost_free(struct cost *c);
void cost_snapshot(struct cost *c); /* to be called every ten seconds */
void cost_write(struct cost *c, const struct store_stats *store, FILE *out); /* "cost":{…} */

/* status.c: the server's own state and metrics */
void status_metrics(void *ctx, struct http_request *r);
void status_json(void *ctx, struct http_request *r);
void status_healthz(void *ctx, struct http_request *r);
void status_readyz(void *ctx, struct http_request *r);
