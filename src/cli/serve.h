/*
 * serve: the server half, as `serve` and `run` start it.
 */
#pragma once

#include "cli/access_list.h"
#include "cli/secrets.h"
#include "cli/settings.h"

struct serve_options {
	const struct settings *settings;
	const struct secrets *secrets;
	const struct access_list *allowed;
	const char *store; /* the directory, or another location of store_open() */
	int windows_fd;    /* a SOCK_SEQPACKET socket for window messages; -1: only HTTP */
	int alive_fd;      /* gets a byte once it answers, then every few seconds; -1: none */
	int end_signal; /* the only one that ends it; 0: SIGTERM, SIGINT, and SIGHUP unless ignored
			 */
};

/* Logs who has access to the server. */
void serve_say_who(const struct access_list *a, bool is_public, const char *token);

/* Runs until a signal ends it; returns the exit code. */
int serve_run(const struct serve_options *o);
