/*
 * query_client: asks for stored profiles: a server by HTTP, or the store on this machine.
 *
 * Unless an option says otherwise, that is the local server if one answers, else the store itself.
 * Every function here reports its own errors on stderr.
 */
#pragma once

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/mem.h"
#include "profile/profile.h"
#include "query/timerange.h"
#include "store/store.h"

enum { CLIENT_SERVER = 600, CLIENT_STORE, CLIENT_TOKEN, CLIENT_CA, CLIENT_TIMEOUT };

#define CLIENT_OPTIONS                                                                             \
	{"server", required_argument, NULL, CLIENT_SERVER},                                        \
		{"store", required_argument, NULL, CLIENT_STORE},                                  \
		{"token-file", required_argument, NULL, CLIENT_TOKEN},                             \
		{"ca-file", required_argument, NULL, CLIENT_CA},                                   \
	{                                                                                          \
		"timeout", required_argument, NULL, CLIENT_TIMEOUT                                 \
	}

struct query_client_options { /* from the command line; NULL: not given */
	const char *server;   /* URL */
	const char *store;    /* directory */
	const char *token;    /* file */
	const char *ca;       /* file */
	uint64_t timeout_ms;  /* 0: none */
};

void query_client_help(void);
bool query_client_owns(int opt);
bool query_client_set(struct query_client_options *o, int opt, const char *arg);

/*
 * The URL that an argument of --server means: "host" is "http://host:7117". Caller frees; NULL
 * after reporting what is wrong with it.
 */
char *query_client_url(const char *given);

struct query_client;
struct query_client *query_client_open(const struct query_client_options *o); /* NULL: reported */
void query_client_close(struct query_client *c);
DEFINE_CLEANUP(struct query_client *, query_client_close)

struct query_request {
	const char *selector;     /* NULL: everything of type cpu */
	const char *trace, *span; /* of it, samples of these alone; NULL: of all */
	struct timerange range;
	const char *const *keep; /* labels that the answer tells apart */
	size_t keep_count;
};

/*
 * Checks the syntax of a selector (NULL is fine) before anything is asked; false after reporting
 * what is wrong, such as that it looks like the name of a file that does not exist.
 */
bool query_client_check(const char *selector);

/* Adds the samples to `into`: 0, or an exit code after reporting why not. */
int query_client_profile(struct query_client *c, const struct query_request *q,
			 struct profile *into, struct store_answer *ret);

/* Names of labels (name NULL), or the values of one; release with store_names_done(). */
int query_client_names(struct query_client *c, const struct query_request *q, const char *name,
		       struct store_names *ret);

/* What was found in the range; release with store_findings_done(). */
int query_client_findings(struct query_client *c, const struct timerange *range,
			  struct store_findings *ret);

/*
 * Whose profile it is, for a title: "nginx on web-1", from the selector and hosts. `base` is the
 * selector it is compared with, or NULL. Caller frees.
 */
char *query_client_subject(struct query_client *c, const struct query_request *q, const char *base);

/* The time span of everything stored; false: unknown, or nothing is. */
bool query_client_span(struct query_client *c, uint64_t *ret_from_ms, uint64_t *ret_to_ms);

/*
 * If the collector or the store's writer has just started and its first data is due soon: since
 * when it has been running, in ms since 1970. Else 0.
 */
uint64_t query_client_starting(struct query_client *c);

/* The URL of the server that is asked; NULL: the store is read, which is query_client_store(). */
const char *query_client_server(const struct query_client *c);
struct store *query_client_store(const struct query_client *c);

/*
 * Of a server: the JSON object at that path ("/api/v1/…"), for json_decref(). Its strings are safe
 * to show. 0, or an exit code after reporting why not.
 */
int query_client_json(struct query_client *c, const char *path, json_t **ret);

/* " --server URL" or " --store DIR" as given, else "": for commands that are suggested. */
const char *query_client_hint(const struct query_client *c);
