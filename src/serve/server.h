/*
 * server: receives windows, stores them, and answers queries about them.
 *
 * One thread appends and serves HTTP, in the caller's loop. Queries of the store run on a few
 * threads (serve/jobs.h), each with its own handle of the store, so that a long one holds up
 * nothing else. docs/api.md describes what is served.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/loop.h"
#include "query/rules.h"
#include "serve/access.h"
#include "serve/kubelet.h"
#include "serve/listen.h"
#include "serve/scrape_config.h"
#include "store/store.h"

#define SERVER_LISTEN "127.0.0.1:" LISTEN_PORT

struct server;

#define SERVER_DEADLINE_S 30 /* default time limit of a query */

struct server_options {
	const char *store_place; /* as store_open() takes it: a directory, or an address */
	const char *files_dir; /* where other files lie: debug files, Grafana's settings; NULL: the
				  store */
	const char *listen;    /* NULL: SERVER_LISTEN */
	const char *const *hosts; /* allowed names in Host, besides our own (serve/http.h) */
	size_t host_count;
	/* Gives access to those without `access`; except on loopback, everybody needs it. */
	const char *token;              /* serve/token.h; NULL: none */
	struct access_options access;   /* of users of this machine; copied */
	const char *tls_cert, *tls_key; /* PEM, borrowed until server_free; NULL: no TLS */
	struct store_options store;
	const char *const *debuginfod; /* URLs to ask for debug files; copied */
	size_t debuginfod_count;       /* 0: nobody is asked */
	const char *ca_file; /* for those; borrowed until server_free; NULL: the system's */
	struct rules *rules; /* counted; borrowed until server_free; NULL: none */
	const struct scrape_config *scrape; /* likewise */
	uint64_t symbols_max; /* bytes of debug files that are kept; 0: DEBUG_CACHE_GIB */
	int windows_fd;       /* a SOCK_SEQPACKET of window messages, kept open; -1: none */
	struct kubelet_options kubelet; /* its url NULL: none is asked; needs windows_fd */
	uint64_t deadline_ms;           /* of a query; 0: SERVER_DEADLINE_S */
	unsigned threads;               /* queries at once; 0: 2 */
};

struct server_error {
	char text[640]; /* one sentence */
	int pid;        /* of the writer that holds the store, for -EBUSY; else 0 */
};

/* 0 or -errno with *ret_err. */
int server_new(struct loop *l, const struct server_options *o, struct server **ret,
	       struct server_error *ret_err);
void server_free(struct server *s); /* before the loop it is in */

const char *server_address(const struct server *s); /* "127.0.0.1:7117" */
bool server_is_public(const struct server *s);      /* other machines can reach it */

/*
 * Asks all collectors for windows of 1 s until then (ms since 1970). That of `run` is told at once,
 * others with the answer to their next window.
 */
void server_live(struct server *s, uint64_t until_ms);

/* Likewise asks each to send what it has up to now. */
void server_flush(struct server *s);
