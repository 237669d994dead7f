/*
 * forward: the half of `agent` that has the network: takes window messages from the collector,
 * keeps them in a spool, and sends them on to a far side until that has taken them.
 *
 * A message is answered once it is in the spool. While neither disk nor memory has room it is
 * answered "later", and waits in the collector. One request is on its way at a time, on a thread of
 * its own.
 *
 * What it does is told in the directory of the spool, in the file agent.prom, for Prometheus (the
 * textfile collector of node_exporter reads such) and for `smolder doctor`.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "base/loop.h"
#include "serve/kubelet.h"

struct forward;

struct forward_options {                /* borrowed */
	const char *to;                 /* far.h */
	const char *authorization;      /* the value of that header; NULL: none */
	const char *headers;            /* more, each a line that ends in CRLF; NULL: none */
	const char *ca_pem;             /* for https, instead of the system's; NULL: those */
	int windows_fd;                 /* a SOCK_SEQPACKET of window messages, kept open */
	int dir;                        /* of the spool, taken over; -1: none */
	const char *dir_name;           /* for people */
	uint64_t max_bytes;             /* of it */
	struct kubelet_options kubelet; /* for the collector's pods; its url NULL: none is asked */
};

struct forward_error {
	char text[256];
};

/* 0 or -errno. Ends the loop when nobody writes windows any more, or after forward_finish(). */
int forward_new(struct loop *l, const struct forward_options *o, struct forward **ret,
		struct forward_error *ret_err);
void forward_free(struct forward *f); /* NULL is fine */

/* Sends what it can in a few seconds, then ends the loop. */
void forward_finish(struct forward *f);
