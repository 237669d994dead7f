/*
 * settings: the settings of `run`, `agent` and `serve`, from the command line or a YAML file. One
 * table holds every name; a flag --NAME and a key NAME are the same thing, and the flag wins.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "query/rules.h"

struct relabel;
struct scrape_config;

enum setting {
	SET_STORE,
	SET_MIGRATE,
	SET_LISTEN,
	SET_RETENTION,
	SET_MAX_SIZE,
	SET_TIMES,
	SET_FREQUENCY,
	SET_EVENTS,
	SET_OFFCPU,
	SET_FINDINGS,
	SET_USER,
	SET_HOST,
	SET_HOST_ROOT,
	SET_LABEL,
	SET_KEEP,
	SET_DROP,
	SET_KUBELET,
	SET_KUBELET_TOKEN,
	SET_KUBELET_CA,
	SET_POD_LABEL,
	SET_TABLES,
	SET_LINES,
	SET_THREADS,
	SET_IDLE_IN,
	SET_BLOCKED_IN,
	SET_TO,
	SET_SPOOL,
	SET_SPOOL_MAX,
	SET_BASIC_AUTH,
	SET_HEADER,
	SET_DEADLINE,
	SET_NAMES,
	SET_WINDOWS_FD,
	SET_TOKEN_FILE,
	SET_CA_FILE,
	SET_DEBUGINFOD,
	SET_SYMBOLS_MAX,
	SET_ALLOW_USER,
	SET_ALLOW_GROUP,
	SET_TLS_CERT,
	SET_TLS_KEY,
	SETTINGS,
};

struct settings_error {
	char text[256]; /* one sentence */
};

struct settings_list { /* zero-initialised: empty */
	char **items;  /* ends with NULL; NULL: none */
	size_t count;
};

struct settings { /* embedded; zero-initialised: nothing is set */
	char *values[SETTINGS];
	struct settings_list lists[SETTINGS]; /* of the repeatable ones */
	bool by_flag[SETTINGS];
	struct relabel *relabel;      /* relabel_configs of the file; NULL: none */
	struct rules *rules;          /* the file's rules; NULL: none */
	struct scrape_config *scrape; /* its scrape_configs; NULL: none */
	char *ignored;                /* ", "-separated keys of the file that have no effect */
	char *config;                 /* --config; NULL: the default file */
};

void settings_done(struct settings *s);

const char *settings_name(enum setting which); /* "max-size" */
const char *settings_help(enum setting which); /* "BYTES  of the store, e.g. 2GiB (2GiB)" */

/* Sets one from a flag. False with *ret_err if the value is invalid. */
bool settings_set(struct settings *s, enum setting which, const char *value,
		  struct settings_error *ret_err);

/* Reads a file; flags win. 0; -ENOENT; -EINVAL and others with *ret_err. */
int settings_read(struct settings *s, const char *path, struct settings_error *ret_err);

/* As given, or the default (which may be NULL). */
const char *settings_text(const struct settings *s, enum setting which);
uint64_t settings_number(const struct settings *s, enum setting which); /* ms, bytes, or as it is */

const struct settings_list *settings_list(const struct settings *s, enum setting which);
