/*
 * halves: the two processes of `run` and of `agent`, and their parent.
 *
 * The collector reads other processes and has no network; the other half has the network and no
 * privileges, and gets the collector's windows. Their parent starts both, starts either again when
 * it ends, and keeps what must outlive them: both ends of the socket between them, so that either
 * can be started anew while the other goes on, and the kernel's counters, so that what a killed
 * collector had taken is still known.
 */
#pragma once

#include "cli/settings.h"

struct halves_place {   /* of the other half */
	int windows_fd; /* a SOCK_SEQPACKET of window messages */
	int alive_fd;   /* wants a byte when it is ready, and then every few seconds */
	int end_signal; /* the only one that ends it */
};

struct halves_options {
	struct settings *settings;
	const char *other; /* what the other half is called: "server" */
	const char *comm;  /* and its process */
	/* In a process of its own: the exit code. Drops its privileges, then calls halves_part().
	 */
	int (*be_other)(void *ctx, const struct halves_place *at);
	void (*ready)(void *ctx);  /* once, when both are */
	bool (*reload)(void *ctx); /* reads the configuration again; false, after reporting: no */
	void *ctx;
};

/* After another user was become: the half ends with its parent. */
void halves_part(const struct halves_place *at);

/* Until a signal ends them. The exit code. */
int halves_run(const struct halves_options *o);
