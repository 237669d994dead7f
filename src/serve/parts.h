/*
 * parts: what the files of the server share: its state, and the routes.
 */
#pragma once

#include "serve/http.h"
#include "serve/jobs.h"
#include "serve/receiver.h"
#include "serve/server.h"

struct server {
	struct loop *loop;
	struct store *store; /* the writer's; of this thread */
	char *store_dir;
	struct receiver *receiver;
	struct jobs *jobs;
	struct http *http;
	struct store_options store_options;
	uint64_t deadline_ms;
	uint64_t started_ms; /* since 1970 */
	int windows_fd;      /* -1: none, or it has ended */
	int tend_fd;         /* readable: there is more to tend */
	uint8_t *message;    /* room for one */
	char *tls_cert, *tls_key;
};

extern const struct http_route server_routes[];

/* api.c: what reads the store */
void api_query(void *ctx, struct http_request *r);
void api_diff(void *ctx, struct http_request *r);
void api_types(void *ctx, struct http_request *r);
void api_labels(void *ctx, struct http_request *r);
void api_values(void *ctx, struct http_request *r);
void api_series(void *ctx, struct http_request *r);
void api_heatmap(void *ctx, struct http_request *r);

/* page.c: the web page */
void page_index(void *ctx, struct http_request *r);
void page_asset(void *ctx, struct http_request *r);

/* status.c: what the server knows of itself */
void status_metrics(void *ctx, struct http_request *r);
void status_json(void *ctx, struct http_request *r);
void status_healthz(void *ctx, struct http_request *r);
void status_readyz(void *ctx, struct http_request *r);
