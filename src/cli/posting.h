/*
 * posting: window messages to a server elsewhere, by HTTP POST; the transport of `agent`. Requests
 * are made on a thread, so that a slow network never holds up the sampling.
 */
#pragma once

#include "cli/collecting.h"

struct posting;

/* 0, or the exit code after it was said what is wrong. The files may be NULL. */
int posting_new(const char *url, const char *token_file, const char *ca_file, struct posting **ret);
void posting_free(struct posting *p);
struct transport posting_transport(struct posting *p);
