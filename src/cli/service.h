/*
 * service: what the long-running commands (run, agent, serve) share: options and configuration, the
 * location of the store, and dropping privileges.
 */
#pragma once

#include <stdbool.h>

#include "pipeline/collecting.h"
#include "cli/settings.h"

#define SERVICE_CONFIG "/etc/smolder.yaml"

/*
 * Parses the command line and reads the configuration (--config FILE, else SERVICE_CONFIG if that
 * exists). -1 to go on; else the exit code, after reporting why.
 */
int service_options(const char *command, int argc, char **argv, void (*help)(void),
		    struct settings *s);

/* Reads the configuration `config`; NULL: SERVICE_CONFIG, if that exists. False after reporting why
 * not. */
bool service_read_config(struct settings *s, const char *config);

/* Prints the --help lines of these settings (ends with SETTINGS), and of the common options. */
void service_help(const enum setting *which);

/* Reads the configuration again; flags still win. False after reporting why not. */
bool service_reload(struct settings *s);

/* The store's directory, from the settings or the default; caller frees. NULL: no home. */
char *service_store_dir(const struct settings *s);

/* Fills in the collector's options from the settings; returns the cache dir, caller frees. */
char *service_collecting_options(const struct settings *s, struct collecting_options *o);

/*
 * The process that reads what BPF programs cost, split off before privileges are dropped. NULL:
 * nothing is looked for, or it is not possible, which is said.
 */
struct bpf_costs *service_bpf_costs(const struct collecting_options *o);

/*
 * Drops all privileges that a collector does not need, and reports if it has to keep more, or lacks
 * some that it needs. 0 or -errno.
 */
int service_confine_collector(unsigned *ret_missing);
