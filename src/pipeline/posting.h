/*
 * posting: window messages to a server elsewhere, by HTTP POST; the transport of `agent`. Requests
 * are made on a thread, so that a slow network never holds up the sampling.
 */
#pragma once

#include "pipeline/collecting.h"

struct posting;

/* `authorization` is the value of that header; it and ca_file may be NULL. 0 or -errno. */
int posting_new(const char *url, const char *authorization, const char *ca_file,
		struct posting **ret);
void posting_free(struct posting *p);
struct transport posting_transport(struct posting *p);
