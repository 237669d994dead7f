/*
 * top_server: intervals from a server, or from a store on this machine: the last window that it
 * has, of ten seconds. What the server does not keep (how often threads left their CPU, and,
 * without `run --offcpu yes`, what they wait for) is not known.
 */
#pragma once

#include "cli/query_client.h"
#include "cli/top_source.h"

/* The options are borrowed and outlive it. 0, or the exit code after reporting why not. */
int top_server_new(const struct query_client_options *o, struct top_source *ret);
