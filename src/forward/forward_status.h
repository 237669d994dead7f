/*
 * forward_status: what a sender tells of itself: in a file for Prometheus, and with the windows
 * that it sends to a server of smolder's.
 */
#pragma once

#include "forward/spool.h"

#define FORWARD_STATUS "agent.prom"

struct forward_counts {
	uint64_t requests, bytes, failures;
	uint64_t profiles_rejected; /* that a far side did not take of a request that it took */
	uint64_t kubelet_failures;  /* times that it gave no list of its pods */
	uint64_t last_ms;     /* when something went well the last time, since 1970; 0: never */
	unsigned last_status; /* of HTTP */
	char why[256];        /* it goes badly now; "": it does not */
};

/* Into the directory; the file is there whole or not at all, and what goes wrong is left out. */
void forward_status_write(const struct spool *s, const struct forward_counts *c, const char *url,
			  uint64_t max_bytes, int dir);

/* As metrics of the window. */
void forward_status_add(const struct spool *s, const struct forward_counts *c, struct window *w);
