/*
 * service: what the commands that stay on (run, agent, serve) share: options and configuration,
 * where the store is, and what each half may do.
 */
#pragma once

#include <stdbool.h>

#include "pipeline/collecting.h"
#include "cli/settings.h"

#define SERVICE_CONFIG "/etc/smolder.yaml"

/*
 * Parses the command line and reads the configuration (--config FILE, else SERVICE_CONFIG if it is
 * there). -1 to go on; else the exit code, after it was said why.
 */
int service_options(const char *command, int argc, char **argv, void (*help)(void),
		    struct settings *s);

/* Prints the lines of a --help for these settings (ends with SETTINGS), and the common ones. */
void service_help(const enum setting *which);

/* Reads the configuration again, keeping what flags said. False after saying why. */
bool service_reload(struct settings *s);

/* The default directory of the store; caller frees. NULL: there is no place for one. */
char *service_store_dir(const struct settings *s);

/* Fills in what the settings say about collecting; returns the cache directory, caller frees. */
char *service_collecting_options(const struct settings *s, struct collecting_options *o);

/*
 * Drops what a collector does not need, and says so where more is kept, or where something that it
 * wants is missing. 0 or -errno.
 */
int service_confine_collector(bool network, unsigned *ret_missing);
